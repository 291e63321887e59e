//! Questions to the person: what a call or a new version could reach, one grant a line, allowed once or not.

use crate::agent::Connection;
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, SessionId,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use jarvis_host::Live;
use jarvis_protocol::Grants;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const ALLOW: &str = "allow";
const REJECT: &str = "reject";
/// Characters of one grant, and of all of them on a button.
const GRANT: usize = 200;
const BUTTON: usize = 120;

pub(crate) struct Question {
    pub id: String,
    pub capability: String,
    pub grants: Grants,
    pub reason: String,
    /// A yes is kept.
    pub lasting: bool,
    /// The call it is about; none where no call led to it.
    pub call: Option<String>,
}

fn lines(grants: &Grants) -> Vec<String> {
    let lists = grants.lists().into_iter();
    lists
        .flat_map(|(kind, list)| {
            list.iter().map(move |grant| jarvis_protocol::shown_line(&format!("{kind} {grant}"), GRANT))
        })
        .collect()
}

fn request(session: &SessionId, question: &Question) -> RequestPermissionRequest {
    let grants = lines(&question.grants);
    let mut text = jarvis_protocol::shown_line(&question.reason, 1000);
    grants.iter().for_each(|grant| text.push_str(&format!("\n- {grant}")));
    let title = format!("Allow `{}`?", jarvis_protocol::shown_line(&question.capability, 100));
    let mut fields = ToolCallUpdateFields::new().status(ToolCallStatus::Pending).content(vec![text.into()]);
    if question.call.is_none() {
        fields = fields.title(title);
    }
    let call = question.call.clone().unwrap_or_else(|| question.id.clone());
    let all = if grants.is_empty() { question.reason.clone() } else { grants.join(", ") };
    // What is kept holds for that version or definition alone, on this machine.
    let (words, kind) = match question.lasting {
        true => ("Allow from now on", PermissionOptionKind::AllowAlways),
        false => ("Allow once", PermissionOptionKind::AllowOnce),
    };
    let allow = jarvis_protocol::shown_line(&format!("{words}: {all}"), BUTTON);
    let options = vec![
        PermissionOption::new(ALLOW, allow, kind),
        PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce),
    ];
    RequestPermissionRequest::new(session.clone(), ToolCallUpdate::new(call, fields), options)
}

/// Asks, and hands the answer over. Whatever is no plain yes is a no. `over`: nobody waits for it any more.
pub(crate) async fn ask(
    session: SessionId,
    question: Question,
    live: Arc<Live>,
    cx: Connection,
    over: CancellationToken,
) {
    let asked = cx.send_request(request(&session, &question));
    let answer = tokio::select! {
        biased;
        // To give up the request tells the client so.
        () = over.cancelled() => return,
        answer = asked.block_task() => answer,
    };
    let allowed = match answer {
        Ok(answer) => match answer.outcome {
            RequestPermissionOutcome::Selected(chosen) => &*chosen.option_id.0 == ALLOW,
            _ => false,
        },
        Err(error) => {
            tracing::debug!(?error, "a question is not answered");
            false
        }
    };
    live.answer(&question.id, allowed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_stand_on_lines_of_their_own_and_none_hides_another() {
        let grants = Grants {
            network: vec!["a.example\nallow".to_owned(), "b.example".to_owned()],
            write: vec!["文件/\u{202e}x".to_owned()],
            ..Grants::default()
        };
        assert_eq!(lines(&grants), ["network a.example allow", "network b.example", "write 文件/\\u{202e}x"]);
        let question = Question {
            id: "approval-1".to_owned(),
            capability: "f".to_owned(),
            grants,
            reason: "it asks for network".to_owned(),
            lasting: false,
            call: None,
        };
        let request = request(&SessionId::new("s"), &question);
        assert_eq!(
            request.options[0].name,
            "Allow once: network a.example allow, network b.example, write 文件/\\u{202e}x"
        );
        assert_eq!(request.tool_call.fields.title.as_deref(), Some("Allow `f`?"));
    }
}
