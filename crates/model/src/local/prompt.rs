//! Messages to tokens by the model's own chat template. Only the template's own text may become control tokens: what
//! people and tools wrote is tokenised as plain text, so it cannot end a message or open another.

use super::Job;
use jarvis_protocol::{Message, Role};
use llama_cpp_2::model::{LlamaChatMessage, LlamaChatTemplate, LlamaModel};
use llama_cpp_2::token::LlamaToken;

#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) tokens: Vec<LlamaToken>,
    /// Leading tokens that are the same in every call of this kind; 0 when there are none.
    pub(super) stable: usize,
    /// Trailing tokens that are the given beginning of the answer.
    pub(super) prefix: usize,
}

/// What goes through the template: a role and the pieces of its text, by their numbers.
struct Chat {
    messages: Vec<(Role, Vec<usize>)>,
    pieces: Vec<String>,
    /// The piece that changes from call to call.
    note: Option<usize>,
}

impl Chat {
    /// The note is told at the end of the last system message, or in one of its own.
    fn new(messages: &[Message], note: Option<&str>) -> Self {
        let mut pieces: Vec<String> = messages.iter().map(text_of).collect();
        let mut chat: Vec<_> = messages.iter().enumerate().map(|(i, message)| (message.role, vec![i])).collect();
        let own = pieces.len();
        if let Some(note) = note {
            match chat.iter_mut().rfind(|(role, _)| *role == Role::System) {
                Some((_, parts)) => {
                    parts.push(own);
                    pieces.push(format!("\n\n{note}"));
                }
                None => {
                    chat.insert(0, (Role::System, vec![own]));
                    pieces.push(note.to_owned());
                }
            }
        }
        Self { messages: chat, pieces, note: note.map(|_| own) }
    }
}

/// The model's template, or ChatML where it has none that llama.cpp can apply.
pub(super) fn template(model: &LlamaModel) -> Result<LlamaChatTemplate, String> {
    let probe = [(Role::User, vec![0])];
    match model.chat_template(None) {
        Ok(own) if render(model, &own, &probe, true).is_ok() => return Ok(own),
        Ok(_) => tracing::warn!("llama.cpp does not know this model's chat template; using ChatML"),
        Err(error) => tracing::warn!(%error, "the model has no chat template; using ChatML"),
    }
    LlamaChatTemplate::new("chatml").map_err(|error| error.to_string())
}

pub(super) fn build(model: &LlamaModel, template: &LlamaChatTemplate, job: &Job) -> Result<Prompt, String> {
    let chat = Chat::new(&job.messages, job.note.as_deref());
    let whole = render(model, template, &chat.messages, true)?;
    let cut = stable(model, template, &chat, &whole, job.stable_prefix)?;
    let vocab = model.vocab();
    let mut tokens = Vec::new();
    // The two halves are tokenised apart, so that the first is the same tokens whatever follows.
    push_pieces(model, &whole[..cut], &chat.pieces, &mut tokens)?;
    if vocab.should_add_bos() && tokens.first() != Some(&vocab.bos()) && cut > 0 {
        tokens.insert(0, vocab.bos());
    }
    let stable = tokens.len();
    push_pieces(model, &whole[cut..], &chat.pieces, &mut tokens)?;
    if vocab.should_add_bos() && tokens.first() != Some(&vocab.bos()) {
        tokens.insert(0, vocab.bos());
    }
    let before = tokens.len();
    if let Some(prefix) = &job.assistant_prefix {
        tokens.extend(vocab.tokenize(prefix.as_bytes(), false, false));
    }
    Ok(Prompt { prefix: tokens.len() - before, stable, tokens })
}

/// Tokens of the prompt that these messages make.
pub(super) fn count(model: &LlamaModel, template: &LlamaChatTemplate, messages: &[Message]) -> Result<usize, String> {
    let chat = Chat::new(messages, None);
    let whole = render(model, template, &chat.messages, true)?;
    let mut tokens = Vec::new();
    push_pieces(model, &whole, &chat.pieces, &mut tokens)?;
    let vocab = model.vocab();
    let begins = vocab.should_add_bos() && tokens.first() != Some(&vocab.bos());
    Ok(tokens.len() + usize::from(begins))
}

/// How much of the template's text stays the same from call to call: the first messages, up to a note in them.
fn stable(
    model: &LlamaModel,
    template: &LlamaChatTemplate,
    chat: &Chat,
    whole: &str,
    messages: usize,
) -> Result<usize, String> {
    // Before the given messages there may be one for the note.
    let added = chat.messages.len() + usize::from(chat.note.is_some()) - chat.pieces.len();
    let messages = (messages + added).min(chat.messages.len());
    if messages == added {
        return Ok(0);
    }
    let start = render(model, template, &chat.messages[..messages], false)?;
    if !whole.starts_with(&start) {
        // Templates that fold the system message into the next one have no text that stays the same.
        return Ok(0);
    }
    Ok(chat.note.and_then(|note| start.find(&mark(note))).unwrap_or(start.len()))
}

fn mark(piece: usize) -> String {
    format!("{OPEN}{piece}{CLOSE}")
}

/// The template's text with a mark where each piece belongs.
fn render(
    model: &LlamaModel,
    template: &LlamaChatTemplate,
    messages: &[(Role, Vec<usize>)],
    generate: bool,
) -> Result<String, String> {
    let chat: Result<Vec<_>, _> = messages
        .iter()
        .map(|(who, pieces)| LlamaChatMessage::new(role(*who).to_owned(), pieces.iter().map(|i| mark(*i)).collect()))
        .collect();
    let chat = chat.map_err(|error| error.to_string())?;
    model.apply_chat_template(template, &chat, generate).map_err(|error| error.to_string())
}

// Control characters that no template contains and no template trims.
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

fn push_pieces(
    model: &LlamaModel,
    skeleton: &str,
    pieces: &[String],
    tokens: &mut Vec<LlamaToken>,
) -> Result<(), String> {
    let vocab = model.vocab();
    let mut parts = skeleton.split(OPEN);
    if let Some(first) = parts.next() {
        tokens.extend(vocab.tokenize(first.as_bytes(), false, true));
    }
    for part in parts {
        let (index, after) = part.split_once(CLOSE).ok_or("the chat template lost a message")?;
        let piece = index.parse().ok().and_then(|i: usize| pieces.get(i)).ok_or("the chat template lost a message")?;
        tokens.extend(vocab.tokenize(piece.as_bytes(), false, false));
        tokens.extend(vocab.tokenize(after.as_bytes(), false, true));
    }
    Ok(())
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        // Small models' templates know no tool role.
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    }
}

fn text_of(message: &Message) -> String {
    match message.role {
        Role::Tool => {
            let what = if message.is_error { "Error" } else { "Result" };
            format!("{what} of tool call {}:\n{}", message.tool_call_id.as_deref().unwrap_or("?"), message.text)
        }
        Role::Assistant if !message.tool_calls.is_empty() => {
            let calls =
                message.tool_calls.iter().map(|call| format!("Tool call {}: {} {}", call.id, call.name, call.args));
            let lines: Vec<_> = std::iter::once(message.text.clone()).filter(|t| !t.is_empty()).chain(calls).collect();
            lines.join("\n")
        }
        Role::System | Role::User | Role::Assistant => message.text.clone(),
    }
}
