//! Live sessions: operations in, events out, the same for every front end. A front end opens a session, gives it what a
//! person says, follows its events by number, answers its questions, cancels it. It holds no logic of its own.

mod approve;
mod host;
mod live;
mod log;
mod make;

pub use approve::Question;
pub use host::{Host, Limits, Tap};
pub use jarvis_dispatch::{Editor, exit_code};
pub use live::{Begun, Called, Live, Snapshot};
pub use log::{Followed, Numbered, Reader};
pub use make::{Made, Maker, Open, Place, Server};
