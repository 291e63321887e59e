//! The line that a person types on a terminal: keys, history, menu.

use super::complete::Commands;
use crate::error::Outcome;
use crate::term;
use reedline::{
    ColumnarMenu, DefaultPrompt, DefaultPromptSegment, EditCommand, EditMode, Emacs, FileBackedHistory, HistoryItem,
    KeyCode, KeyModifiers, MenuBuilder, PromptEditMode, Reedline, ReedlineEvent, ReedlineMenu, ReedlineRawEvent,
    default_emacs_keybindings,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const MENU: &str = "commands";
const HISTORY: usize = 2000;

const NAME: &str = "you";

pub fn prompt() -> DefaultPrompt {
    DefaultPrompt::new(DefaultPromptSegment::Basic(NAME.to_owned()), DefaultPromptSegment::Empty)
}

/// A message that was typed before its turn came, as it would look had it been typed now.
pub fn show(message: &str) -> Outcome {
    term::line(format_args!("{}> {message}", term::stdout_style().bold(NAME)))
}

/// The line that is gone on with.
pub fn begin(editor: &mut Reedline, line: String) {
    if !line.is_empty() {
        editor.run_edit_commands(&[EditCommand::InsertString(line)]);
    }
}

/// As if it had been typed into the editor.
pub fn remember(editor: &mut Reedline, message: &str) {
    // What cannot be kept is no reason to stop.
    let _ = editor.history_mut().save(HistoryItem::from_command_line(message));
}

/// `end` becomes true when the process is to end.
pub fn editor(commands: Commands, history: PathBuf, end: Arc<AtomicBool>) -> Reedline {
    let menu = ColumnarMenu::default().with_name(MENU).with_marker("> ");
    let mut editor = Reedline::create()
        .with_break_signal(end)
        .with_ansi_colors(term::stdout_style().has_colour())
        .use_bracketed_paste(true)
        .with_completer(Box::new(commands))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Keys::new()));
    match FileBackedHistory::with_file(HISTORY, history) {
        Ok(history) => editor = editor.with_history(Box::new(history)),
        Err(error) => term::note(format!("this conversation's input is not kept: {error}")),
    }
    editor
}

/// Emacs keys, and a backslash before Enter, which is a new line. What is pasted has no part in that: a pasted shell
/// command with lines that go on stays as it was copied.
struct Keys {
    emacs: Emacs,
    backslash: bool,
}

impl Keys {
    fn new() -> Self {
        let mut bindings = default_emacs_keybindings();
        let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
        bindings.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
        bindings.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
        bindings.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline);
        Keys { emacs: Emacs::new(bindings), backslash: false }
    }
}

impl EditMode for Keys {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let behind_backslash = std::mem::take(&mut self.backslash);
        match self.emacs.parse_event(event) {
            ReedlineEvent::Enter if behind_backslash => {
                ReedlineEvent::Edit(vec![EditCommand::Backspace, EditCommand::InsertNewline])
            }
            ReedlineEvent::Edit(commands) => {
                self.backslash = matches!(commands.as_slice(), [EditCommand::InsertChar('\\')]);
                ReedlineEvent::Edit(commands.into_iter().map(harmless).collect())
            }
            other => other,
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.emacs.edit_mode()
    }
}

/// The editor draws what was pasted as it is: what would act on the terminal is left out.
fn harmless(command: EditCommand) -> EditCommand {
    match command {
        EditCommand::InsertString(text) => EditCommand::InsertString(term::without_controls(&text)),
        other => other,
    }
}
