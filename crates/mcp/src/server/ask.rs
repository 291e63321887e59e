//! Asks the host's person for a grant, in the way of the protocol that the host speaks.

use futures::future::BoxFuture;
use jarvis_dispatch::{ApprovalRequest, Approver};
use jarvis_protocol::shown_line;
use rmcp::model::{
    BooleanSchema, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequiredResult, InputResponses, PrimitiveSchemaDefinition, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions};
use rmcp::{RoleServer, model::ProtocolVersion};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A person who went away must not keep a call open for ever.
const PATIENCE: Duration = Duration::from_secs(600);
/// The one field of the form.
const ALLOW: &str = "allow";
/// Characters of one grant; more than a screen of it would hide the others.
const GRANT_CHARS: usize = 200;

/// How the host can ask a person, if it can.
pub(crate) enum Way {
    /// A request of its own, answered while the call runs.
    Elicitation,
    /// The call ends with the question and comes again with the answer (from 2026-07-28 on).
    Retry(InputResponses),
    Never,
}

pub(crate) struct Ask {
    pub peer: Peer<RoleServer>,
    pub way: Way,
    /// What the question is about beside its words: the call's arguments. A yes counts for exactly them.
    pub about: String,
    pub cancel: CancellationToken,
    /// What nobody could be asked, or what is to be asked by the host.
    pub open: Option<ApprovalRequest>,
}

/// From this version on a server asks by ending the call with the question.
pub(crate) fn asks_by_retry(version: Option<&ProtocolVersion>) -> bool {
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

impl Approver for Ask {
    fn ask<'a>(&'a mut self, request: &'a ApprovalRequest) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let key = self.key(request);
            match &mut self.way {
                Way::Elicitation => {
                    let params = form(request);
                    let peer = self.peer.clone();
                    let answered = self.cancel.run_until_cancelled(elicit(&peer, params)).await;
                    answered.flatten().is_some_and(|result| allowed(&result))
                }
                Way::Retry(answers) => {
                    let given = answers.remove(&key).and_then(|value| serde_json::from_value(value).ok());
                    match given {
                        Some(result) => allowed(&result),
                        None => {
                            self.open = Some(request.clone());
                            false
                        }
                    }
                }
                Way::Never => {
                    self.open = Some(request.clone());
                    false
                }
            }
        })
    }
}

impl Ask {
    /// The same for the same question about the same call, and for nothing else.
    fn key(&self, request: &ApprovalRequest) -> String {
        let whole = format!("{}\n{}\n{}\n{}", request.capability, request.grants, request.reason, self.about);
        blake3::hash(whole.as_bytes()).to_hex().to_string()
    }

    /// The end of a call whose question the host is to ask.
    pub fn unanswered(&self) -> Option<InputRequiredResult> {
        let (Way::Retry(_), Some(request)) = (&self.way, &self.open) else { return None };
        let question = InputRequest::Elicitation(ElicitRequest::new(form(request)));
        Some(InputRequiredResult::from_input_requests(BTreeMap::from([(self.key(request), question)])))
    }

    /// What was refused only since nobody could be asked.
    pub fn refused(&self) -> Option<&ApprovalRequest> {
        matches!(self.way, Way::Never).then_some(self.open.as_ref()).flatten()
    }
}

async fn elicit(peer: &Peer<RoleServer>, params: ElicitRequestParams) -> Option<ElicitResult> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let options = PeerRequestOptions::with_timeout(PATIENCE);
    let handle = peer.send_request_with_option(request, options).await.ok()?;
    match handle.await_response().await {
        Ok(ClientResult::ElicitResult(result)) => Some(result),
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "the host asked nobody");
            None
        }
    }
}

/// Accepting the form is not enough: the box in it must be ticked, so that a host which accepts by itself allows
/// nothing.
fn allowed(result: &ElicitResult) -> bool {
    let ticked = result.content.as_ref().and_then(|content| content.get(ALLOW)).and_then(Value::as_bool);
    result.action == ElicitationAction::Accept && ticked == Some(true)
}

fn form(request: &ApprovalRequest) -> ElicitRequestParams {
    let mut message = format!(
        "May the capability `{}` be used with this?\n{}",
        shown_line(&request.capability, GRANT_CHARS),
        shown_line(&request.reason, GRANT_CHARS)
    );
    for grant in grants(request) {
        message.push_str("\n- ");
        message.push_str(&grant);
    }
    let tick = BooleanSchema::new()
        .title("Allow")
        .description("Yes holds for this version of the capability, now and later.")
        .with_default(false);
    let properties = BTreeMap::from([(ALLOW.to_owned(), PrimitiveSchemaDefinition::Boolean(tick))]);
    let schema = ElicitationSchema::new(properties).with_required(vec![ALLOW.to_owned()]);
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema }
}

/// Each grant on a line of its own that cannot look like another.
pub(crate) fn grants(request: &ApprovalRequest) -> Vec<String> {
    let lists = request.grants.lists().into_iter();
    lists
        .flat_map(|(kind, list)| list.iter().map(move |grant| shown_line(&format!("{kind} {grant}"), GRANT_CHARS)))
        .collect()
}
