//! What is typed on a terminal while something else runs. It is read without being shown, so that it neither mixes with an
//! answer nor is lost, and a question gets no answer that was typed before it.

use crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyModifiers};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it may take until the reader hears that it is to stop.
const LISTENS: Duration = Duration::from_millis(20);
const STOPS: Duration = Duration::from_millis(2);

/// Whole messages, and the line that was begun.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    pub messages: Vec<String>,
    pub line: String,
    /// A question came after some of it: who typed ahead did not know of that, and looks at it again.
    pub held: bool,
}

/// One for the process, as the terminal is.
static STATE: Mutex<State> =
    Mutex::new(State { reader: None, typed: Typed { messages: Vec::new(), line: String::new(), held: false } });

struct State {
    reader: Option<Reader>,
    typed: Typed,
}

struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    /// How the terminal was.
    before: Termios,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As long as this lives, what is typed is kept.
pub struct Typing(());

/// On a terminal; elsewhere nothing is read.
pub fn keep() -> Typing {
    begin();
    Typing(())
}

impl Typing {
    pub fn end(self) -> Typed {
        stop();
        std::mem::take(&mut state().typed)
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        stop();
    }
}

/// While a question waits, the terminal is the question's.
pub struct Paused(bool);

pub fn pause() -> Paused {
    let paused = stop();
    let typed = &mut state().typed;
    typed.held |= !typed.messages.is_empty();
    Paused(paused)
}

impl Drop for Paused {
    fn drop(&mut self) {
        if self.0 {
            begin();
        }
    }
}

/// Puts the terminal right where the process ends in the middle of it all.
pub fn leave() {
    stop();
}

fn begin() {
    let mut now = state();
    if now.reader.is_some() || !stdin().is_terminal() || !stdout().is_terminal() {
        return;
    }
    let Ok(before) = tcgetattr(stdin()) else { return };
    let mut quiet = before.clone();
    // Ctrl-C stays a signal.
    quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
    if tcsetattr(stdin(), OptionalActions::Now, &quiet).is_err() {
        return;
    }
    // What is pasted then comes in one piece; a terminal that cannot do it takes no notice.
    let _ = crossterm::execute!(stdout(), EnableBracketedPaste);
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        while !told.load(Ordering::Relaxed) {
            match event::poll(LISTENS) {
                Ok(false) => {}
                Ok(true) => match event::read() {
                    Ok(event) => state().typed.take(event),
                    Err(_) => return,
                },
                Err(_) => return,
            }
        }
    });
    now.reader = Some(Reader { stop, thread, before });
}

/// True where something was read.
fn stop() -> bool {
    let Some(reader) = state().reader.take() else { return false };
    reader.stop.store(true, Ordering::Relaxed);
    // From a terminal that is gone the library never returns; the reader is left behind then, for the process is to end.
    while !reader.thread.is_finished() && super::is_there() {
        std::thread::sleep(STOPS);
    }
    let _ = crossterm::execute!(stdout(), DisableBracketedPaste);
    let _ = tcsetattr(stdin(), OptionalActions::Now, &reader.before);
    true
}

impl Typed {
    fn take(&mut self, event: Event) {
        match event {
            Event::Paste(text) => self.line += &super::without_controls(&text),
            Event::Key(key) if key.is_press() => self.key(key),
            _ => {}
        }
    }

    /// As the editor of a conversation reads them, as far as that can be without seeing the line.
    fn key(&mut self, KeyEvent { code, modifiers, .. }: KeyEvent) {
        let control = modifiers.contains(KeyModifiers::CONTROL);
        match code {
            KeyCode::Enter if modifiers.contains(KeyModifiers::ALT) => self.line.push('\n'),
            KeyCode::Enter if self.line.ends_with('\\') => {
                self.line.pop();
                self.line.push('\n');
            }
            KeyCode::Enter => self.messages.push(std::mem::take(&mut self.line)),
            KeyCode::Backspace => drop(self.line.pop()),
            KeyCode::Char('u' | 'c') if control => self.line.clear(),
            KeyCode::Char('w') if control => {
                let word = self.line.trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
                // White space may be wider than one byte.
                let word = (word..=self.line.len()).find(|at| self.line.is_char_boundary(*at)).unwrap_or(0);
                self.line.truncate(word);
            }
            KeyCode::Char('j') if control => self.messages.push(std::mem::take(&mut self.line)),
            // As in a line that is empty: the conversation is left when its turn is over.
            KeyCode::Char('d') if control && self.line.is_empty() => self.messages.push("/exit".to_owned()),
            KeyCode::Char(c) if !modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => self.line.push(c),
            KeyCode::Tab => self.line.push(' '),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(code, modifiers))
    }

    fn typed(events: impl IntoIterator<Item = Event>) -> Typed {
        let mut typed = Typed::default();
        events.into_iter().for_each(|event| typed.take(event));
        typed
    }

    fn text(text: &str) -> Vec<Event> {
        let code = |c| if c == '\r' { KeyCode::Enter } else { KeyCode::Char(c) };
        text.chars().map(|c| key(code(c), KeyModifiers::NONE)).collect()
    }

    #[test]
    fn lines_become_messages_and_what_was_begun_stays() {
        let got = typed(text("one\r两\\\rlines\rbegun"));
        assert_eq!(got, Typed { messages: vec!["one".into(), "两\nlines".into()], line: "begun".into(), held: false });
        let got = typed([Event::Paste("a\r\nb\u{1b}[2J".into()), key(KeyCode::Enter, KeyModifiers::NONE)]);
        assert_eq!(got.messages, ["a\nb[2J"]);
    }

    #[test]
    fn keys_that_take_back_do_so_by_characters() {
        let all = |last: Event| typed(text("先 写\u{3000}字").into_iter().chain([last])).line;
        assert_eq!(all(key(KeyCode::Backspace, KeyModifiers::NONE)), "先 写\u{3000}");
        assert_eq!(all(key(KeyCode::Char('w'), KeyModifiers::CONTROL)), "先 写\u{3000}");
        assert_eq!(all(key(KeyCode::Char('u'), KeyModifiers::CONTROL)), "");
        assert_eq!(typed([key(KeyCode::Char('d'), KeyModifiers::CONTROL)]).messages, ["/exit"]);
    }
}
