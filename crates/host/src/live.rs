//! One live session: a task that owns it takes operations one after the other.

use crate::approve::{Asker, Question, Waiting};
use crate::host::Tap;
use crate::log::{Log, Reader};
use crate::make::{Made, Maker, Open, Server};
use jarvis_agent::{Input, Session, TurnEnd, Undone};
use jarvis_dispatch::{Approver, DenyAll, Dispatch, Editor};
use jarvis_policy::Approval;
use jarvis_protocol::{CapabilityName, ErrorBody, ErrorKind, Event, Execution, Status, ToolCall, Usage};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field::Empty};

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
    Call { name: String, args: Value, cancel: CancellationToken, done: oneshot::Sender<Result<Called, ErrorBody>> },
    Undo { force: bool, done: oneshot::Sender<Result<Undone, ErrorBody>> },
    Model { named: String, cancel: CancellationToken, done: oneshot::Sender<Result<(), ErrorBody>> },
    Approval { approval: Approval, done: oneshot::Sender<Result<(), ErrorBody>> },
}

/// A turn that was begun.
#[derive(Debug)]
pub struct Begun {
    /// The number of the last event before it; its own come after.
    pub after: u64,
    pub end: oneshot::Receiver<TurnEnd>,
}

/// A capability that was run by name.
#[derive(Debug, Clone)]
pub struct Called {
    pub value: Value,
    pub execution: Execution,
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
    gone: CancellationToken,
    /// When it was opened, so that numbers of an earlier opening are not taken for its own.
    opened: SystemTime,
    /// What could not be had when it was opened.
    notices: Vec<String>,
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
        tap: Option<Tap>,
    ) -> (Arc<Live>, impl Future<Output = ()> + Send + use<>) {
        let Made { session, workspace, approval, notices } = made;
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
            log: Arc::new(Log::new(tap)),
            waiting: Arc::default(),
            state: Arc::new(Mutex::new(state)),
            closing: closing.clone(),
            gone: CancellationToken::new(),
            opened: SystemTime::now(),
            notices,
        });
        let worker = Worker {
            session,
            maker,
            workspace,
            editor: open.editor.clone(),
            servers: open.servers.clone(),
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

    /// What could not be had when it was opened, for a person.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Begins a turn; its events go to all readers, its end to the caller too.
    ///
    /// # Errors
    /// `Busy` while another operation runs.
    pub fn prompt(&self, input: Input) -> Result<Begun, ErrorBody> {
        let (after, end) = self.begun(|cancel, done| Op::Turn { input, cancel, done })?;
        Ok(Begun { after, end })
    }

    /// Summarises all but the last question now; gives the number of messages that the summary tells.
    pub async fn compact(&self) -> Result<usize, ErrorBody> {
        let done = self.begin(|cancel, done| Op::Compact { cancel, done })?;
        done.await.map_err(|_| closed())?
    }

    /// Takes back the last turn: its messages leave the conversation, and the files it changed are as they were before it.
    ///
    /// # Errors
    /// `Conflict` while another operation runs, and where a file was changed since, unless `force` is given.
    pub async fn undo(&self, force: bool) -> Result<Undone, ErrorBody> {
        let done = self.begin(|_, done| Op::Undo { force, done })?;
        done.await.map_err(|_| closed())?
    }

    /// Runs a capability in its folder; its questions are the session's, its events go to all readers.
    ///
    /// # Errors
    /// `Conflict` while another operation runs, else what the call says.
    pub async fn execute(&self, name: &str, args: Value) -> Result<Called, ErrorBody> {
        let done = self.begin(|cancel, done| Op::Call { name: name.to_owned(), args, cancel, done })?;
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
        Ok(self.begun(op)?.1)
    }

    /// With the number of the last event before it.
    fn begun<T>(
        &self,
        op: impl FnOnce(CancellationToken, oneshot::Sender<T>) -> Op,
    ) -> Result<(u64, oneshot::Receiver<T>), ErrorBody> {
        let mut state = lock(&self.state);
        if self.is_closing() {
            return Err(closed());
        }
        if state.running.is_some() {
            let busy = ErrorBody::new(ErrorKind::Conflict, format!("session {} is busy with a turn", self.id));
            return Err(busy.hint("wait for its end, or cancel it"));
        }
        let cancel = self.closing.child_token();
        let (done, receive) = oneshot::channel();
        // While the state is held no operation ends, so what comes after that number is of this one.
        let after = self.log.last();
        self.ops.try_send(op(cancel.clone(), done)).map_err(|_| closed())?;
        state.running = Some(cancel);
        state.touched = Instant::now();
        Ok((after, receive))
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

    /// What waits for an answer.
    pub fn questions(&self) -> Vec<Question> {
        self.waiting.questions()
    }

    pub fn opened(&self) -> SystemTime {
        self.opened
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

    /// It takes nothing more.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    pub(crate) fn ended(&self) {
        // A task that died has readers that wait, too.
        self.log.end();
        self.gone.cancel();
    }

    /// Returns when its task is over.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
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
    servers: Vec<Server>,
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
            self.perform(op).await;
        }
        // What was taken until now is still ended, cancelled; whoever comes later is told that it is closed.
        ops.close();
        while let Ok(op) = ops.try_recv() {
            self.perform(op).await;
        }
        self.session.finish().await;
        self.log.end();
    }

    async fn perform(&mut self, op: Op) {
        // Whoever asked may be gone.
        match op {
            Op::Turn { input, cancel, done } => {
                let (end, last) = self.traced(input, &cancel).await;
                self.settle(last);
                let _ = done.send(end);
            }
            Op::Compact { cancel, done } => {
                let log = self.log.clone();
                let ended = self.session.compact(&mut |event| log.push(event), &cancel).await;
                self.settle(None);
                let _ = done.send(ended);
            }
            Op::Call { name, args, cancel, done } => {
                let ended = self.call(&name, args, &cancel).await;
                self.settle(None);
                let _ = done.send(ended);
            }
            Op::Undo { force, done } => {
                let ended = self.session.undo(force).await;
                self.settle(None);
                let _ = done.send(ended);
            }
            Op::Model { named, cancel, done } => {
                let found = self.maker.model(&named, &cancel).await;
                let ended = found.map(|(model, mode)| self.session.set_model(model, mode));
                self.settle(None);
                let _ = done.send(ended);
            }
            Op::Approval { approval, done } => {
                let ended = self.approve(approval);
                self.settle(None);
                let _ = done.send(ended);
            }
        }
    }

    /// The turn, in a span of whoever traces.
    async fn traced(&mut self, input: Input, cancel: &CancellationToken) -> (TurnEnd, Option<Event>) {
        let span = tracing::info_span!(
            target: "jarvis::turn", "invoke_agent",
            session = self.session.id(), model = self.session.model().id(), input = %input.text,
            output = Empty, stop = Empty, error = Empty, input_tokens = Empty, output_tokens = Empty,
        );
        let before = self.session.usage();
        let (end, last) = self.turn(input, cancel).instrument(span.clone()).await;
        let used = self.session.usage();
        span.record("input_tokens", used.input_tokens.saturating_sub(before.input_tokens));
        span.record("output_tokens", used.output_tokens.saturating_sub(before.output_tokens));
        match &end {
            TurnEnd::Completed { answer, stop_reason } => {
                span.record("output", answer.as_str()).record("stop", tracing::field::debug(stop_reason));
            }
            TurnEnd::Failed(error) => {
                span.record("error", tracing::field::debug(error.kind));
            }
        }
        (end, last)
    }

    async fn call(&mut self, name: &str, args: Value, cancel: &CancellationToken) -> Result<Called, ErrorBody> {
        let log = self.log.clone();
        let mut approver = self.approver(cancel);
        let dispatch = self.session.dispatch().clone();
        call(&dispatch, name, args, &mut |event| log.push(event), approver.as_mut(), cancel).await
    }

    fn approver(&self, cancel: &CancellationToken) -> Box<dyn Approver> {
        if self.unattended {
            return Box::new(DenyAll);
        }
        Box::new(Asker { log: self.log.clone(), waiting: self.waiting.clone(), cancel: cancel.clone() })
    }

    fn approve(&mut self, approval: Approval) -> Result<(), ErrorBody> {
        let dispatch = self.maker.dispatch(&self.workspace, approval, self.editor.clone())?;
        // Its servers are decided on by the new one, too.
        let external = self.maker.external(&dispatch, &self.servers)?;
        self.session.set_dispatch(dispatch, external, approval == Approval::Auto);
        lock(&self.state).approval = approval;
        Ok(())
    }

    /// Its last event is given back instead of told.
    async fn turn(&mut self, input: Input, cancel: &CancellationToken) -> (TurnEnd, Option<Event>) {
        let log = self.log.clone();
        let mut approver = self.approver(cancel);
        let mut last = None;
        let mut emit = |event: Event| match event {
            Event::TurnCompleted { .. } | Event::TurnFailed { .. } => last = Some(event),
            // The asker tells its own, with the id that is answered.
            event if asks(&event) => {}
            event => log.push(event),
        };
        let end = self.session.turn(input, &mut emit, approver.as_mut(), cancel).await;
        (end, last)
    }

    /// The operation is over: what is known from outside is as it is now. Its last event is told in the same moment: whoever
    /// reads it may begin the next one at once, and who begins one does not take it for theirs.
    fn settle(&self, last: Option<Event>) {
        let mut state = lock(&self.state);
        self.session.model().id().clone_into(&mut state.model);
        state.context_tokens = self.session.model().traits().context_tokens;
        state.usage = self.session.usage();
        state.messages = self.session.history().len();
        state.running = None;
        state.touched = Instant::now();
        last.into_iter().for_each(|event| self.log.push(event));
    }
}

/// One run of a capability as somebody asks for it who is no model: what came from elsewhere is asked about first.
pub(crate) async fn call(
    dispatch: &Dispatch,
    name: &str,
    args: Value,
    emit: &mut (dyn FnMut(Event) + Send),
    approver: &mut dyn Approver,
    cancel: &CancellationToken,
) -> Result<Called, ErrorBody> {
    let found = CapabilityName::new(name).ok().map(|name| dispatch.registry().resolve(&name)).transpose();
    let found = found.map_err(|error| error.body())?.flatten();
    if let Some(capability) = found.filter(|capability| capability.status == Status::Active) {
        dispatch.approve(&capability, approver).await.map_err(|error| error.body().clone())?;
    }
    let id = format!("call-{name}");
    emit(Event::ToolStarted { call: ToolCall { id: id.clone(), name: name.to_owned(), args: args.clone() } });
    let started = Instant::now();
    let span = tracing::info_span!(target: "jarvis::tool", "execute_tool", name, id = %id, args = %args, output = Empty, error = Empty);
    let ran = dispatch.run(name, args, emit, cancel).instrument(span.clone()).await;
    let (ok, content) = match &ran {
        Ok(ran) => (true, json!({"result": ran.value})),
        Err(error) => (false, json!({"error": error.to_string()})),
    };
    let duration_ms = started.elapsed().as_secs_f64() * 1e3;
    span.record(if ok { "output" } else { "error" }, tracing::field::display(&content));
    emit(Event::ToolCompleted { call_id: id, name: name.to_owned(), ok, content, duration_ms });
    ran.map(|ran| Called { value: ran.value, execution: ran.execution }).map_err(|error| error.body().clone())
}

fn asks(event: &Event) -> bool {
    match event {
        Event::ApprovalRequested { .. } => true,
        Event::Agent { event, .. } => asks(event),
        _ => false,
    }
}
