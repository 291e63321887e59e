//! What a client can set for a session: what is done where a yes is due, and which model answers. Told twice, as modes
//! and as options, because clients that know options look at nothing else.

use agent_client_protocol::v1::schema::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode, SessionModeState,
};
use jarvis_host::Snapshot;
use jarvis_policy::Approval;

pub(crate) const MODE: &str = "mode";
pub(crate) const MODEL: &str = "model";

const MODES: [(Approval, &str, &str, &str); 3] = [
    (
        Approval::Ask,
        "ask",
        "Ask",
        "Asks before anything that needs a yes: network, files outside the workspace, secrets",
    ),
    (Approval::Auto, "auto", "Auto", "Says yes by itself where a yes is due"),
    (Approval::Deny, "deny", "Deny", "Says no by itself where a yes is due"),
];

pub(crate) fn id(approval: Approval) -> &'static str {
    match approval {
        Approval::Ask => "ask",
        Approval::Auto => "auto",
        Approval::Deny => "deny",
    }
}

pub(crate) fn approval(id: &str) -> Option<Approval> {
    MODES.iter().find(|mode| mode.1 == id).map(|mode| mode.0)
}

pub(crate) fn modes(now: Approval) -> SessionModeState {
    let all = MODES.iter().map(|(_, id, name, about)| SessionMode::new(*id, *name).description(*about)).collect();
    SessionModeState::new(id(now), all)
}

/// `approval` may be one that comes into force when the turn ends.
pub(crate) fn options(snapshot: &Snapshot, approval: Approval, models: &[String]) -> Vec<SessionConfigOption> {
    let modes: Vec<_> = MODES
        .iter()
        .map(|(_, id, name, about)| SessionConfigSelectOption::new(*id, *name).description(*about))
        .collect();
    let mut known: Vec<&str> = models.iter().map(String::as_str).collect();
    if !known.contains(&snapshot.model.as_str()) {
        known.insert(0, &snapshot.model);
    }
    let models: Vec<_> = known.into_iter().map(|id| SessionConfigSelectOption::new(id.to_owned(), id)).collect();
    vec![
        SessionConfigOption::select(MODE, "Approval", id(approval), modes)
            .description("What is done where a yes is due")
            .category(SessionConfigOptionCategory::Mode),
        SessionConfigOption::select(MODEL, "Model", snapshot.model.clone(), models)
            .category(SessionConfigOptionCategory::Model),
    ]
}
