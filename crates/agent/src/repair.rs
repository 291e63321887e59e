//! Mending a registered capability with the session's model, led as in any turn.

use crate::{
    Session,
    bootstrap::Bootstrap,
    context::Strategy,
    conversation::Conversation,
    native,
    session::is_native,
    toolbox::Toolbox,
    turn::{Front, Turn},
};
use jarvis_dispatch::Approver;
use jarvis_forge::{
    Repair,
    grow::{Grower, Grown, Plan},
};
use jarvis_protocol::{ErrorBody, ErrorKind, Event, Message, Runtime, StopReason};
use tokio_util::sync::CancellationToken;

impl Session {
    /// When it returns, a new version of what `repair` is about has passed and is registered. The history stays as it is.
    ///
    /// # Errors
    /// Why there is none; nothing has changed then.
    pub async fn repair(
        &mut self,
        repair: Repair,
        emit: &mut (dyn FnMut(Event) + Send),
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<(), ErrorBody> {
        let mut turn = Turn::start(self.parts.limits);
        self.parts.forge.dispatch().warm();
        let now = self.now();
        let native = is_native(&self.parts);
        let front = Front { now: &now, model: &self.parts.model, emit, approver, cancel };
        let repaired = if native {
            drive(front, Bootstrap::repairing(self.parts.forge.clone(), repair, self.parts.model.id()), &mut turn).await
        } else {
            lead(front, &self.parts.forge, repair, &mut turn).await
        };
        self.usage.add(turn.usage);
        repaired
    }
}

/// A model that drives the tools itself.
async fn drive(front: Front<'_>, tools: Bootstrap, turn: &mut Turn) -> Result<(), ErrorBody> {
    let Some(repair) = tools.repair() else { return Ok(()) };
    let name = repair.capability.name.to_string();
    let mut conversation = Conversation::new(Strategy::Window);
    conversation.push([Message::user(repair.request())], turn);
    let (said, reason) = native::run(front, &Toolbox::new(tools, false), &mut conversation, turn).await?;
    // Not what the model says, but what was registered.
    if turn.built.contains(&name) {
        return Ok(());
    }
    if reason == StopReason::Cancelled {
        return Err(ErrorBody::new(ErrorKind::Cancelled, "cancelled"));
    }
    let last = conversation.history.iter().rev().find(|m| m.is_error).map(|m| native::unfenced(&m.text).to_owned());
    let why = last.unwrap_or_else(|| format!("the model registered nothing: {said}"));
    Err(ErrorBody::new(ErrorKind::Forge, format!("`{name}` is not repaired: {why}")))
}

/// A model that is led: it writes one function in TypeScript, which is run before anybody could be asked for a grant.
async fn lead(front: Front<'_>, forge: &jarvis_forge::Forge, repair: Repair, turn: &mut Turn) -> Result<(), ErrorBody> {
    let name = repair.capability.name.clone();
    if !can_lead(&repair) {
        let message =
            format!("`{name}` reaches outside or is not TypeScript, and this model is led to pure TypeScript only");
        return Err(
            ErrorBody::new(ErrorKind::Forge, message).hint("use a model with tool calling: --model PROVIDER/MODEL")
        );
    }
    let about = repair.capability.capability.clone();
    let Some(plan) = Plan::repair(repair) else {
        return Err(ErrorBody::new(ErrorKind::Forge, format!("no call says what is wrong with `{name}`")));
    };
    let may_go_on = turn.exceeded().is_none();
    let mut count = |usage| {
        turn.count(usage);
        turn.rounds += 1;
        turn.exceeded().is_none()
    };
    let Front { model, emit, approver, cancel, .. } = front;
    let mut grower = Grower { forge, model, count: &mut count, emit, approver, cancel, may_go_on };
    match grower.grow(&about, &plan).await {
        Ok(Grown::Kept(_)) => Ok(()),
        Ok(Grown::OnlyRan { reason, .. }) => {
            let hint = "run it where you can be asked, or with --approve auto";
            Err(ErrorBody::new(ErrorKind::Denied, format!("`{name}` is not repaired: {reason}")).hint(hint))
        }
        Err(error) => {
            let body = error.body();
            Err(ErrorBody { message: format!("`{name}` is not repaired: {}", body.message), ..body })
        }
    }
}

/// Whether a led model can mend it.
pub(crate) fn can_lead(repair: &Repair) -> bool {
    repair.capability.runtime == Runtime::Typescript && repair.capability.grants.is_empty()
}
