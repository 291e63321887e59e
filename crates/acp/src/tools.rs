//! How a call of a tool is shown: its kind, a title, where it works, and what came of it.

use crate::desk::Desk;
use agent_client_protocol::v1::schema::{
    Diff, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use jarvis_protocol::{shown_line, value_text};
use serde_json::Value;

/// Characters of a result that is shown; the whole is the raw output.
const SHOWN: usize = 10_000;
/// Characters of a title.
const TITLE: usize = 160;

pub(crate) fn kind(tool: &str) -> ToolKind {
    match tool {
        "file_read" => ToolKind::Read,
        "file_write" | "file_edit" => ToolKind::Edit,
        "file_list" | "file_search" | "list_capabilities" | "recall" => ToolKind::Search,
        "shell_exec" | "execute_capability" => ToolKind::Execute,
        "http_request" => ToolKind::Fetch,
        _ => ToolKind::Other,
    }
}

pub(crate) fn title(tool: &str, args: &Value) -> String {
    let text = |key: &str| args[key].as_str().unwrap_or_default();
    let here = |key: &str| args[key].as_str().unwrap_or(".");
    let title = match tool {
        "file_read" => format!("Read {}", text("path")),
        "file_write" => format!("Write {}", text("path")),
        "file_edit" => format!("Edit {}", text("path")),
        "file_list" => format!("List {}", here("path")),
        "file_search" => format!("Search {} for {}", here("path"), text("pattern")),
        "shell_exec" => text("command").to_owned(),
        "http_request" => format!("{} {}", args["method"].as_str().unwrap_or("GET"), text("url")),
        "list_capabilities" => format!("Look for a capability: {}", text("query")),
        "execute_capability" => format!("{}({})", text("name"), args.get("args").unwrap_or(&Value::Null)),
        "register_capability" => {
            format!("Make the capability {}", args["definition"]["name"].as_str().unwrap_or_default())
        }
        other => other.to_owned(),
    };
    shown_line(&title, TITLE)
}

/// A call that has begun. Its place is known only where the session has a desk.
pub(crate) fn begun(id: &str, tool: &str, args: &Value, desk: &Desk) -> ToolCall {
    let mut call = ToolCall::new(id.to_owned(), title(tool, args))
        .name(tool.to_owned())
        .kind(kind(tool))
        .status(ToolCallStatus::InProgress)
        .raw_input(args.clone());
    if let Some(place) = location(tool, args, None, desk) {
        call = call.locations(vec![place]);
    }
    if tool == "file_edit"
        && let (Some(path), Some(old), Some(new)) = (args["path"].as_str(), args["old"].as_str(), args["new"].as_str())
    {
        // What is known before it is done; the whole difference comes with the result.
        call = call.content(vec![Diff::new(desk.place(path), new).old_text(old.to_owned()).into()]);
    }
    call
}

fn location(tool: &str, args: &Value, line: Option<u64>, desk: &Desk) -> Option<ToolCallLocation> {
    let path = match tool {
        "file_read" | "file_write" | "file_edit" | "file_list" | "file_search" => args["path"].as_str()?,
        "shell_exec" => args["workdir"].as_str()?,
        _ => return None,
    };
    let line = line.or_else(|| args["start_line"].as_u64()).and_then(|line| u32::try_from(line).ok());
    Some(ToolCallLocation::new(desk.place(path)).line(line))
}

/// What came of it.
pub(crate) fn ended(tool: &str, args: &Value, ok: bool, content: &Value, desk: &Desk) -> ToolCallUpdateFields {
    let status = if ok { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
    let mut fields = ToolCallUpdateFields::new().status(status).raw_output(content.clone());
    let named = args["path"].as_str();
    if let Some(diff) = named.filter(|_| ok && matches!(tool, "file_write" | "file_edit")).and_then(|p| desk.take(p)) {
        if let Some(place) = location(tool, args, content["first_line"].as_u64(), desk) {
            fields = fields.locations(vec![place]);
        }
        return fields.content(vec![diff.into()]);
    }
    fields.content(vec![shown(tool, ok, content)])
}

fn shown(tool: &str, ok: bool, content: &Value) -> ToolCallContent {
    let text = match content["error"].as_str().filter(|_| !ok) {
        Some(error) => error.to_owned(),
        None => value_text(content),
    };
    let text = cut(&text, SHOWN);
    // What is no prose is shown as it is.
    match tool {
        "shell_exec" | "file_read" | "file_list" | "file_search" | "http_request" => fenced(&text).into(),
        _ if !content.is_string() && ok => fenced(&text).into(),
        _ => text.into(),
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}\n[… {} characters more]", &text[..end], text[end..].chars().count()),
    }
}

/// In a block of Markdown that nothing in it can end.
pub(crate) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn titles_are_one_line_that_says_what_is_done_and_hides_nothing() {
        assert_eq!(title("file_read", &json!({"path": "文/a.rs"})), "Read 文/a.rs");
        assert_eq!(title("shell_exec", &json!({"command": "ls\nrm -rf x"})), "ls rm -rf x");
        assert_eq!(title("file_list", &json!({})), "List .");
        assert_eq!(title("execute_capability", &json!({"name": "add", "args": {"a": 1}})), "add({\"a\":1})");
        assert_eq!(title("shell_exec", &json!({"command": "echo \u{202e}x"})), "echo \\u{202e}x");
        let long = title("shell_exec", &json!({"command": "长".repeat(500)}));
        assert!(long.ends_with("长…") && long.chars().count() == TITLE + 1);
    }

    #[test]
    fn nothing_in_a_block_ends_it() {
        assert_eq!(fenced("a"), "```\na\n```");
        assert_eq!(fenced("a\n````\nb\n"), "`````\na\n````\nb\n`````");
    }

    #[test]
    fn a_cut_is_between_characters_and_says_what_is_missing() {
        assert_eq!(cut("汉字很多", 2), "汉字\n[… 2 characters more]");
    }
}
