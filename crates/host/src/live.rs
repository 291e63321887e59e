//! One live session: a task that owns it takes operations one after the other.

use crate::approve::{Asker, Waiting};
use crate::log::{Log, Reader};
use crate::make::{Made, Maker, Open};
use jarvis_agent::{Input, Session, TurnEnd};
use jarvis_dispatch::{Approver, DenyAll, Editor};
use jarvis_policy::Approval;
use jarvis_protocol::{ErrorBody, ErrorKind, Event, Usage};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// What is known of a live session without asking its task.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub model: String,
    /// Tokens that the model reads.
    pub context_tokens: usize,
    /// What is done where a yes is due.
    pub approval: Approval,
    /// Over all turns.
    pub usage: Usage,
    /// Messages of the history.
    pub messages: usize,
    /// A turn runs.
    pub busy: bool,
    /// Ids of questions that wait for an answer.
    pub questions: Vec<String>,
    /// The number of the last event.
    pub last_event: u64,
}

#[derive(Debug)]
struct State {
    model: String,
    context_tokens: usize,
    approval: Approval,
    usage: Usage,
    messages: usize,
    /// Of the operation that runs.
    running: Option<CancellationToken>,
    touched: Instant,
}

enum Op {
    Turn { input: Input, cancel: CancellationToken, done: oneshot::Sender<TurnEnd> },
    Compact { cancel: CancellationToken, done: oneshot::Sender<Result<usize, ErrorBody>> },
    Model { named: String, cancel: CancellationToken, done: oneshot::Sender<Result<(), ErrorBody>> },
    Approval { approval: Approval, done: oneshot::Sender<Result<(), ErrorBody>> },
}

/// A session that is open. It closes with its host, or by [`crate::Host::close`].
pub struct Live {
    id: String,
    workspace: PathBuf,
    ops: mpsc::Sender<Op>,
    log: Arc<Log>,
    waiting: Arc<Waiting>,
    state: Arc<Mutex<State>>,
    closing: CancellationToken,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// The future is the session's task; it ends some time after `closing` is cancelled.
    pub(crate) fn start(
        made: Made,
        maker: Arc<dyn Maker>,
        open: &Open,
        closing: CancellationToken,
    ) -> (Arc<Live>, impl Future<Output = ()> + Send + use<>) {
        let Made { session, workspace, approval } = made;
        // One operation at a time: `running` refuses a second one before it gets here.
        let (ops, receive) = mpsc::channel(1);
        let state = State {
            model: session.model().id().to_owned(),
            context_tokens: session.model().traits().context_tokens,
            approval,
            usage: session.usage(),
            messages: session.history().len(),
            running: None,
            touched: Instant::now(),
        };
        let live = Arc::new(Live {
            id: session.id().to_owned(),
            workspace: workspace.clone(),
            ops,
            log: Arc::new(Log::new()),
            waiting: Arc::default(),
            state: Arc::new(Mutex::new(state)),
            closing: closing.clone(),
        });
        let worker = Worker {
            session,
            maker,
            workspace,
            editor: open.editor.clone(),
            unattended: open.unattended,
            log: live.log.clone(),
            waiting: live.waiting.clone(),
            state: live.state.clone(),
            closing,
        };
        (live, worker.run(receive))
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn workspace(&self) -> &PathBuf {
        &self.workspace
    }

    /// Begins a turn; its events go to all readers, its end to the caller too.
    ///
    /// # Errors
    /// `Busy` while another operation runs.
    pub fn prompt(&self, input: Input) -> Result<oneshot::Receiver<TurnEnd>, ErrorBody> {
        self.begin(|cancel, done| Op::Turn { input, cancel, done })
    }

    /// Summarises all but the last question now; gives the number of messages that the summary tells.
    pub async fn compact(&self) -> Result<usize, ErrorBody> {
        let done = self.begin(|cancel, done| Op::Compact { cancel, done })?;
        done.await.map_err(|_| closed())?
    }

    /// Another model answers from now on.
    pub async fn set_model(&self, named: &str) -> Result<(), ErrorBody> {
        let done = self.begin(|cancel, done| Op::Model { named: named.to_owned(), cancel, done })?;
        done.await.map_err(|_| closed())?
    }

    /// From now on this is done where a yes is due.
    pub async fn set_approval(&self, approval: Approval) -> Result<(), ErrorBody> {
        let done = self.begin(|_, done| Op::Approval { approval, done })?;
        done.await.map_err(|_| closed())?
    }

    fn begin<T>(
        &self,
        op: impl FnOnce(CancellationToken, oneshot::Sender<T>) -> Op,
    ) -> Result<oneshot::Receiver<T>, ErrorBody> {
        let mut state = lock(&self.state);
        if state.running.is_some() {
            let busy = ErrorBody::new(ErrorKind::Conflict, format!("session {} is busy with a turn", self.id));
            return Err(busy.hint("wait for its end, or cancel it"));
        }
        let cancel = self.closing.child_token();
        let (done, receive) = oneshot::channel();
        self.ops.try_send(op(cancel.clone(), done)).map_err(|_| closed())?;
        state.running = Some(cancel);
        state.touched = Instant::now();
        Ok(receive)
    }

    /// Cancels what runs; false where nothing does.
    pub fn cancel(&self) -> bool {
        let running = lock(&self.state).running.clone();
        running.inspect(CancellationToken::cancel).is_some()
    }

    /// Answers a question; false where none of that id waits.
    pub fn answer(&self, id: &str, allowed: bool) -> bool {
        self.waiting.answer(id, allowed)
    }

    /// Events after that number, those that are kept and those that come.
    pub fn follow(&self, after: u64) -> Reader {
        Reader::new(self.log.clone(), after)
    }

    pub fn snapshot(&self) -> Snapshot {
        let state = lock(&self.state);
        Snapshot {
            model: state.model.clone(),
            context_tokens: state.context_tokens,
            approval: state.approval,
            usage: state.usage,
            messages: state.messages,
            busy: state.running.is_some(),
            questions: self.waiting.ids(),
            last_event: self.log.last(),
        }
    }

    /// Since when nobody has used it; `None` while a turn runs or somebody reads its events.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = lock(&self.state);
        (state.running.is_none() && self.log.readers() == 0).then_some(state.touched)
    }

    pub(crate) fn touch(&self) {
        lock(&self.state).touched = Instant::now();
    }

    pub(crate) fn close(&self) {
        self.closing.cancel();
    }
}

fn closed() -> ErrorBody {
    ErrorBody::new(ErrorKind::Conflict, "the session is closed").hint("open it again by its id")
}

struct Worker {
    session: Session,
    maker: Arc<dyn Maker>,
    workspace: PathBuf,
    editor: Option<Arc<dyn Editor>>,
    unattended: bool,
    log: Arc<Log>,
    waiting: Arc<Waiting>,
    state: Arc<Mutex<State>>,
    closing: CancellationToken,
}

impl Worker {
    async fn run(mut self, mut ops: mpsc::Receiver<Op>) {
        loop {
            let op = tokio::select! {
                biased;
                // What was begun is still ended, by its cancelled token.
                op = ops.recv() => op,
                () = self.closing.cancelled() => None,
            };
            let Some(op) = op else { break };
            match op {
                Op::Turn { input, cancel, done } => {
                    let end = self.turn(input, &cancel).await;
                    self.settle();
                    // Whoever asked may be gone.
                    let _ = done.send(end);
                }
                Op::Compact { cancel, done } => {
                    let log = self.log.clone();
                    let ended = self.session.compact(&mut |event| log.push(event), &cancel).await;
                    self.settle();
                    let _ = done.send(ended);
                }
                Op::Model { named, cancel, done } => {
                    let found = self.maker.model(&named, &cancel).await;
                    let ended = found.map(|(model, mode)| self.session.set_model(model, mode));
                    self.settle();
                    let _ = done.send(ended);
                }
                Op::Approval { approval, done } => {
                    let ended = self.maker.dispatch(&self.workspace, approval, self.editor.clone()).map(|dispatch| {
                        self.session.set_dispatch(dispatch, approval == Approval::Auto);
                        lock(&self.state).approval = approval;
                    });
                    self.settle();
                    let _ = done.send(ended);
                }
            }
        }
        self.session.finish().await;
        self.log.end();
    }

    async fn turn(&mut self, input: Input, cancel: &CancellationToken) -> TurnEnd {
        let log = self.log.clone();
        let mut asker = Asker { log: log.clone(), waiting: self.waiting.clone(), cancel: cancel.clone() };
        let mut nobody = DenyAll;
        let approver: &mut dyn Approver = if self.unattended { &mut nobody } else { &mut asker };
        let mut emit = |event: Event| {
            // The asker tells its own, with the id that is answered.
            if !asks(&event) {
                log.push(event);
            }
        };
        self.session.turn(input, &mut emit, approver, cancel).await
    }

    /// The operation is over: what is known from outside is as it is now.
    fn settle(&self) {
        let mut state = lock(&self.state);
        self.session.model().id().clone_into(&mut state.model);
        state.context_tokens = self.session.model().traits().context_tokens;
        state.usage = self.session.usage();
        state.messages = self.session.history().len();
        state.running = None;
        state.touched = Instant::now();
    }
}

fn asks(event: &Event) -> bool {
    match event {
        Event::ApprovalRequested { .. } => true,
        Event::Agent { event, .. } => asks(event),
        _ => false,
    }
}
