//! The talk with one worker: its job, what it prints, what it asks for, its result. The worker is not trusted.

use crate::broker::Desk;
use crate::check::Checked;
use crate::frame::{self, Done, Job, Kind};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jarvis_protocol::{ExecPlan, ExitClass};
use serde_json::Value;
use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

/// A worker stops itself at the time limit and says so; it is killed when it has not after this.
const GRACE: Duration = Duration::from_millis(100);

/// Requests of one worker that are worked on, or whose replies it has not taken yet; more wait in its socket. A worker
/// that keeps the rules asks for less at a time (`AT_ONCE` in `ctx.js`), so what it prints is always read.
const AT_ONCE: usize = 8;

/// What came from the worker so far; kept whatever ends the talk.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    printed: Vec<u8>,
    pub result: Option<Value>,
}

#[derive(Debug)]
pub(crate) enum End {
    Done(Done),
    /// Stopped from here: it must be killed.
    Stopped(ExitClass),
    /// Sent what is not the protocol: it must be killed.
    Broken(String),
    /// The worker is gone.
    Gone,
}

impl Talk {
    pub(crate) fn printed(&self, most: u64) -> String {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let text = String::from_utf8_lossy(&self.printed);
        text[..text.floor_char_boundary(most)].to_owned()
    }
}

pub(crate) async fn converse<S: AsyncRead + AsyncWrite>(
    stream: S,
    talk: &mut Talk,
    plan: &ExecPlan,
    checked: &Checked,
    desk: &Desk<'_>,
    cancel: &CancellationToken,
) -> End {
    let limit = Duration::from_millis(plan.limits.timeout_ms) + GRACE;
    desk.begin();
    tokio::select! {
        biased;
        () = cancel.cancelled() => End::Stopped(ExitClass::Cancelled),
        end = exchange(stream, talk, plan, checked, desk) => end.unwrap_or_else(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => End::Broken(e.to_string()),
            _ => End::Gone,
        }),
        () = tokio::time::sleep(limit) => End::Stopped(ExitClass::Timeout),
    }
}

async fn exchange<S: AsyncRead + AsyncWrite>(
    stream: S,
    talk: &mut Talk,
    plan: &ExecPlan,
    checked: &Checked,
    desk: &Desk<'_>,
) -> std::io::Result<End> {
    let (reader, writer) = tokio::io::split(stream);
    let mut writing = pin!(send(writer, frame::encode_json(Kind::Job, &job(plan, checked)?)?));
    let mut idle = None;
    let mut replies = VecDeque::new();
    let most = frame::most(plan.limits.output_bytes);
    let mut reading = pin!(next(reader, most));
    let mut answers = FuturesUnordered::new();
    loop {
        if !replies.is_empty()
            && let Some(writer) = idle.take()
        {
            writing.set(send(writer, replies.pop_front().unwrap_or_default()));
        }
        let unsent = replies.len() + usize::from(idle.is_none());
        // Reading and writing go on at the same time: a worker that is busy writing does not read.
        tokio::select! {
            (writer, outcome) = &mut writing, if idle.is_none() => {
                outcome?;
                idle = Some(writer);
            }
            Some(answer) = answers.next(), if !answers.is_empty() => {
                let answer: Vec<u8> = answer;
                replies.push_back(frame::encode(Kind::Reply, &answer)?);
            }
            (reader, outcome) = &mut reading, if answers.len() + unsent < AT_ONCE => {
                let Some((kind, payload)) = outcome? else { return Ok(End::Gone) };
                if kind == Kind::Call && talk.result.is_some() {
                    // Nobody waits for the answer, so nothing is done for it.
                    frame::unpack_request(payload)?;
                } else if kind == Kind::Call {
                    answers.push(desk.answer(frame::unpack_request(payload)?));
                } else if let Some(end) = talk.hear(kind, payload, plan.limits.output_bytes)? {
                    return Ok(end);
                }
                reading.set(next(reader, most));
            }
        }
    }
}

fn job(plan: &ExecPlan, checked: &Checked) -> std::io::Result<Job> {
    Ok(Job {
        javascript: checked.javascript.clone(),
        form: checked.form,
        positional: checked.positional.clone(),
        args: serde_json::to_string(&plan.args)?,
        memory_mb: plan.limits.memory_mb,
        timeout_ms: plan.limits.timeout_ms,
        output_bytes: plan.limits.output_bytes,
        fixed: plan.fixed,
    })
}

/// Hands the reader back, so that one frame is read after the other without losing a part of one.
async fn next<R: AsyncRead + Unpin>(mut reader: R, most: usize) -> (R, std::io::Result<Option<(Kind, Vec<u8>)>>) {
    let outcome = frame::read(&mut reader, most).await;
    (reader, outcome)
}

/// Hands the writer back when the frame is sent.
async fn send<W: AsyncWrite + Unpin>(mut to: W, frame: Vec<u8>) -> (W, std::io::Result<()>) {
    let outcome = to.write_all(&frame).await;
    (to, outcome)
}

impl Talk {
    /// Takes in one frame; the end, when it is the last.
    pub(crate) fn hear(&mut self, kind: Kind, payload: Vec<u8>, most: u64) -> std::io::Result<Option<End>> {
        match kind {
            Kind::Print => {
                self.printed.extend_from_slice(&payload);
                if self.printed.len() as u64 > most {
                    return Ok(Some(End::Stopped(ExitClass::Output)));
                }
                Ok(None)
            }
            Kind::Result if self.result.is_none() => {
                if (self.printed.len() + payload.len()) as u64 > most {
                    return Ok(Some(End::Stopped(ExitClass::Output)));
                }
                let value = serde_json::from_slice(&payload);
                self.result = Some(value.map_err(|e| frame::broken(format!("a result that is not JSON: {e}")))?);
                Ok(None)
            }
            Kind::Done => {
                let done: Done =
                    serde_json::from_slice(&payload).map_err(|e| frame::broken(format!("its last word: {e}")))?;
                match done.exit {
                    ExitClass::Ok if self.result.is_none() => Err(frame::broken("success without a result")),
                    _ => Ok(Some(End::Done(done))),
                }
            }
            Kind::Ready | Kind::Job | Kind::Call | Kind::Reply | Kind::Result | Kind::Attempt => {
                Err(frame::broken(format!("a frame {kind:?} out of turn")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{Broker, Caller, Nesting, Wanted};
    use crate::check::check;
    use jarvis_protocol::{CapabilityName, Grants, Limits, Runtime, Subject};
    use tokio::io::{AsyncReadExt, DuplexStream};

    /// Talks to a worker that says `lies`, whatever it is asked.
    async fn hear(lies: Vec<u8>) -> (End, Talk) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let liar = tokio::spawn(lie(theirs, lies));
        let outcome = hear_on(ours, 1000).await;
        liar.abort();
        outcome
    }

    async fn hear_on(ours: DuplexStream, output_bytes: u64) -> (End, Talk) {
        let plan = plan(output_bytes);
        let checked = check(&plan.code, plan.runtime).unwrap();
        let broker = Broker::default();
        let mut talk = Talk::default();
        let end =
            converse(ours, &mut talk, &plan, &checked, &broker.desk(&plan).unwrap(), &CancellationToken::new()).await;
        (end, talk)
    }

    fn plan(output_bytes: u64) -> ExecPlan {
        ExecPlan {
            subject: Subject::Candidate { name: CapabilityName::new("probe").unwrap(), digest: String::new() },
            runtime: Runtime::Typescript,
            code: "export default () => 1".to_owned(),
            args: Value::Null,
            grants: Grants::default(),
            limits: Limits { timeout_ms: 300, memory_mb: 16, output_bytes },
            dependencies: Vec::new(),
            fixed: None,
        }
    }

    async fn lie(mut socket: DuplexStream, lies: Vec<u8>) {
        let _ = socket.write_all(&lies).await;
        let mut sink = Vec::new();
        let _ = socket.read_to_end(&mut sink).await;
    }

    fn done(exit: &str) -> Vec<u8> {
        let text = format!(r#"{{"exit":"{exit}","fault":null,"cpu_us":1,"peak_memory_kb":1}}"#);
        frame::encode(Kind::Done, text.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn a_worker_that_breaks_the_protocol_is_found_out() {
        for lies in [
            b"\xff\xff\xff\xff\x03garbage".to_vec(),
            b"\x00\x00\x00\x00\x03".to_vec(),
            b"\x02\x00\x00\x00\x63x".to_vec(),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            frame::encode(Kind::Job, b"{}").unwrap(),
            frame::encode(Kind::Reply, b"{}").unwrap(),
            frame::encode(Kind::Call, b"\x01").unwrap(),
            frame::encode(Kind::Call, b"\x01\0\0\0\xff\xff\xff\xff").unwrap(),
            frame::encode(Kind::Call, &frame::pack(1, &"x".repeat(frame::MOST_HEAD + 1), &[])).unwrap(),
            frame::encode(Kind::Result, b"{not json").unwrap(),
            [frame::encode(Kind::Result, b"1").unwrap(), frame::encode(Kind::Result, b"2").unwrap()].concat(),
            frame::encode(Kind::Done, b"{}").unwrap(),
            done("ok"),
            done("no such end"),
            frame::encode(Kind::Ready, br#"{"layers":["everything"],"missing":null}"#).unwrap(),
            frame::encode(Kind::Attempt, b"open a file").unwrap(),
            frame::encode(Kind::Result, "[".repeat(900).as_bytes()).unwrap(),
            frame::encode(Kind::Result, b"\"\xff\"").unwrap(),
            frame::encode(Kind::Call, b"\x01\0\0\0\x02\0\0\0\xff\xff").unwrap(),
            // One byte more than a frame of this job may have.
            (frame::most(1000) as u32 + 2).to_le_bytes().into_iter().chain([Kind::Print as u8]).collect(),
        ] {
            let (end, _) = hear(lies.clone()).await;
            assert!(matches!(end, End::Broken(_)), "{lies:?}: {end:?}");
        }
    }

    #[tokio::test]
    async fn a_worker_that_floods_or_hangs_or_sends_half_a_frame_is_stopped() {
        let flood = frame::encode(Kind::Print, &[b'x'; 900]).unwrap().repeat(3);
        let (end, talk) = hear(flood).await;
        assert!(matches!(end, End::Stopped(ExitClass::Output)), "{end:?}");
        assert_eq!(talk.printed(1000).len(), 1000);
        for silent in [Vec::new(), b"\x10\x00\x00\x00\x03half".to_vec()] {
            let (end, _) = hear(silent).await;
            assert!(matches!(end, End::Stopped(ExitClass::Timeout)), "{end:?}");
        }
    }

    /// Ids are the worker's own affair: the answer goes back with the id that came, and nothing else hangs on it.
    #[tokio::test]
    async fn requests_that_are_replayed_or_have_odd_ids_are_refused_each_for_itself() {
        let call = |id: u32| {
            let head = r#"{"op":"read","path":"/etc/passwd"}"#;
            frame::encode(Kind::Call, &frame::pack(id, head, &[])).unwrap()
        };
        let words = [call(7), call(7), call(0), call(u32::MAX), frame::encode(Kind::Result, b"1").unwrap()].concat();
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let worker = tokio::spawn(async move {
            frame::read(&mut theirs, 1 << 16).await.unwrap().unwrap();
            theirs.write_all(&words).await.unwrap();
            let mut answers = Vec::new();
            while answers.len() < 4 {
                let (kind, payload) = frame::read(&mut theirs, 1 << 16).await.unwrap().unwrap();
                assert_eq!(kind, Kind::Reply);
                answers.push(frame::unpack(payload).unwrap());
            }
            theirs.write_all(&done("ok")).await.unwrap();
            answers
        });
        let (end, _) = hear_on(ours, 1000).await;
        assert!(matches!(end, End::Done(_)), "{end:?}");
        let mut answers = worker.await.unwrap();
        answers.sort_by_key(|answer| answer.id);
        assert_eq!(answers.iter().map(|a| a.id).collect::<Vec<_>>(), [0, 7, 7, u32::MAX]);
        assert!(answers.iter().all(|a| a.head.contains("not granted") && a.body.is_empty()), "{answers:?}");
    }

    /// Counts what it is asked, and answers with the arguments.
    #[derive(Default)]
    struct Echo(std::sync::Mutex<Vec<Wanted>>);

    impl Caller for Echo {
        fn call(&self, wanted: Wanted) -> futures::future::BoxFuture<'_, Result<Value, jarvis_protocol::ScriptError>> {
            let args = wanted.args.clone();
            self.0.lock().unwrap().push(wanted);
            Box::pin(async move { Ok(args) })
        }
    }

    /// The end, what was asked of the caller, and the heads of the answers by id.
    async fn forge(words: Vec<Vec<u8>>, answers: usize) -> (End, Vec<Wanted>, Vec<(u32, String)>) {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let worker = tokio::spawn(async move {
            frame::read(&mut theirs, 1 << 16).await.unwrap().unwrap();
            theirs.write_all(&words.concat()).await.unwrap();
            let mut heard = Vec::new();
            while heard.len() < answers {
                let (_, payload) = frame::read(&mut theirs, 1 << 20).await.unwrap().unwrap();
                let packet = frame::unpack(payload).unwrap();
                heard.push((packet.id, packet.head));
            }
            theirs.write_all(&frame::encode(Kind::Result, b"1").unwrap()).await.unwrap();
            theirs.write_all(&call(9, "late", b"{}")).await.unwrap();
            theirs.write_all(&done("ok")).await.unwrap();
            heard
        });
        let plan = plan(1 << 20);
        let checked = check(&plan.code, plan.runtime).unwrap();
        let (broker, caller) = (Broker::default(), Echo::default());
        let desk = broker.desk(&plan).unwrap().among(Some(Nesting { caller: &caller, depth: 0 }));
        let mut talk = Talk::default();
        let end = converse(ours, &mut talk, &plan, &checked, &desk, &CancellationToken::new()).await;
        (end, caller.0.into_inner().unwrap(), worker.await.unwrap())
    }

    fn call(id: u32, name: &str, args: &[u8]) -> Vec<u8> {
        let head = serde_json::json!({"op": "call", "name": name}).to_string();
        frame::encode(Kind::Call, &frame::pack(id, &head, args)).unwrap()
    }

    #[tokio::test]
    async fn calls_with_forged_ids_arguments_and_names_are_answered_each_for_itself() {
        let deep = [b"{\"a\":".to_vec(), b"[".repeat(50_000), b"]".repeat(50_000), b"}".to_vec()].concat();
        let words = vec![
            call(1, "one", br#"{"__proto__":{"n":1}}"#),
            call(1, "again", b"{}"),
            call(2, "deep", &deep),
            call(3, "list", b"[]"),
            call(4, "none", b""),
            call(5, "text", b"{\"a\":\"\xff\"}"),
            call(u32::MAX, "a\u{1b}[31m\0\u{202e}", b"{}"),
        ];
        let (end, asked, answers) = forge(words, 7).await;
        assert!(matches!(end, End::Done(_)), "{end:?}");
        let names: Vec<&str> = asked.iter().map(|wanted| wanted.name.as_str()).collect();
        // What came after the result was not asked of anybody.
        assert_eq!(names, ["one", "again", "a\u{1b}[31m\0\u{202e}"]);
        assert!(asked.iter().all(|wanted| wanted.left <= Duration::from_millis(300)), "{asked:?}");
        for (id, expected) in [(2, "no data"), (3, "must be an object"), (4, "no data"), (5, "no data")] {
            let (_, head) = answers.iter().find(|(answered, _)| *answered == id).unwrap();
            assert!(head.contains("TypeError") && head.contains(expected), "{head}");
        }
    }

    #[tokio::test]
    async fn printed_bytes_that_are_no_text_are_shown_as_such() {
        let words = [
            frame::encode(Kind::Print, b"a\xff").unwrap(),
            frame::encode(Kind::Print, &"水".as_bytes()[..2]).unwrap(),
            frame::encode(Kind::Print, &"水".as_bytes()[2..]).unwrap(),
        ];
        let (_, talk) = hear(words.concat()).await;
        assert_eq!(talk.printed(1000), "a\u{fffd}水");
    }

    #[tokio::test]
    async fn requests_are_not_read_while_their_replies_are_not_taken() {
        for head in [
            format!(r#"{{"op":"secret","name":"{}"}}"#, "x".repeat(150)),
            format!(r#"{{"op":"read","path":"{}"}}"#, "x".repeat(60_000)),
        ] {
            let call = frame::encode(Kind::Call, &frame::pack(1, &head, &[])).unwrap();
            let (ours, mut theirs) = tokio::io::duplex(1 << 16);
            let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let count = std::sync::Arc::clone(&sent);
            let flood = tokio::spawn(async move {
                while theirs.write_all(&call).await.is_ok() {
                    count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
            let (end, _) = hear_on(ours, 1 << 20).await;
            flood.abort();
            assert!(matches!(end, End::Stopped(ExitClass::Timeout)), "{end:?}");
            let sent = sent.load(std::sync::atomic::Ordering::Relaxed);
            assert!((10..1000).contains(&sent), "{sent} requests were read");
        }
    }

    #[tokio::test]
    async fn an_honest_worker_is_heard() {
        let words = [
            frame::encode(Kind::Print, "水".as_bytes()).unwrap(),
            frame::encode(Kind::Result, b"[1]").unwrap(),
            done("ok"),
        ];
        let (end, talk) = hear(words.concat()).await;
        assert!(matches!(end, End::Done(_)), "{end:?}");
        assert_eq!((talk.printed(2), talk.printed(3)), (String::new(), "水".to_owned()));
        assert_eq!(talk.result, Some(serde_json::json!([1])));
    }
}
