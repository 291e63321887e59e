//! Lines of stdin as they come, without an editor.

use tokio::sync::mpsc::{Receiver, Sender, channel};

pub struct Lines {
    wanted: Sender<()>,
    lines: Receiver<std::io::Result<String>>,
    asked: bool,
}

impl Lines {
    /// Read in a thread of its own: a pipe that stays silent must not keep the process from ending. No line is read before
    /// it is wanted, so that the answer to a question in between is left for who asked it.
    pub fn of_stdin() -> Lines {
        let (wanted, mut wants) = channel(1);
        let (send, lines) = channel(1);
        std::thread::spawn(move || {
            while wants.blocking_recv().is_some() {
                let mut line = String::new();
                let read = match std::io::stdin().read_line(&mut line) {
                    Ok(0) => return,
                    Ok(_) => Ok(line),
                    Err(e) => Err(e),
                };
                if send.blocking_send(read).is_err() {
                    return;
                }
            }
        });
        Lines { wanted, lines, asked: false }
    }

    /// None at the end of the input. What was begun is gone on with by the next call.
    pub async fn next(&mut self) -> Option<std::io::Result<String>> {
        if !self.asked {
            self.wanted.send(()).await.ok()?;
            self.asked = true;
        }
        let line = self.lines.recv().await;
        self.asked = false;
        line
    }
}
