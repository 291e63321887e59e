//! Conversations at random: whatever a model answers and wherever it is cancelled, cut off or killed, no request and no
//! history holds a call without its result, and what is on disk is what was said.

use crate::bench::Bench;
use futures::future::BoxFuture;
use jarvis_agent::{Mode, Record, Session, SessionParts, Strategy, TurnEnd, TurnLimits};
use jarvis_dispatch::DenyAll;
use jarvis_memory::{NewSession, SessionStore, mend};
use jarvis_model::{Backend, Completion, Delta, Finish, MalformedCall, ModelError, ModelHandle, Request, Traits};
use jarvis_policy::Policy;
use jarvis_protocol::{Message, ToolCall};
use jarvis_testkit::text;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// The same choices for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Answers anything a provider has been seen to answer.
struct Wild {
    dice: Mutex<Dice>,
    cancel: Mutex<CancellationToken>,
}

#[track_caller]
fn assert_valid(messages: &[Message], what: &str) {
    let (mended, interrupted) = mend(messages.to_vec());
    assert_eq!(interrupted, 0, "{what}: a call has no result: {messages:#?}");
    assert_eq!(mended, messages, "{what}: a result stands where it answers no call");
}

impl Wild {
    fn reply(&self, dice: &mut Dice) -> Result<Completion, ModelError> {
        let words = ["", "好的。", "on it", "第一步：查找 🙂", "é\u{0}\u{202e}"];
        let said = words[dice.roll(words.len() as u64) as usize];
        let ids = ["1", "2", "call_1", "", "长长的标识"];
        let mut reply = text(said)?;
        match dice.roll(12) {
            0..=3 => return text(&format!("answer {} 完", dice.roll(1000))),
            4 => return Err(ModelError::Protocol { message: "not today".to_owned() }),
            5 => {
                self.cancel.lock().unwrap().cancel();
                return Err(ModelError::Cancelled);
            }
            // Cancelled while its calls run.
            6 => self.cancel.lock().unwrap().cancel(),
            7 => return Ok(Completion { finish: Finish::Length, ..reply }),
            _ => {}
        }
        for _ in 0..=dice.roll(4) {
            let id = ids[dice.roll(ids.len() as u64) as usize].to_owned();
            let (name, args): (&str, Value) = match dice.roll(6) {
                0 => ("list_capabilities", json!({"query": format!("查找 {}", dice.roll(50))})),
                1 => ("list_capabilities", json!({})),
                2 => ("no_such_tool", json!({"a": [1, null]})),
                3 => ("execute_capability", json!({"name": "nobody", "args": {"n": dice.roll(50)}})),
                4 => ("", json!({})),
                _ => {
                    let (arguments, problem) = ("{\"query\": \"半".to_owned(), "EOF".to_owned());
                    let name = "list_capabilities".to_owned();
                    reply.malformed_calls.push(MalformedCall { id, name, arguments, problem });
                    continue;
                }
            };
            reply.tool_calls.push(ToolCall { id, name: name.to_owned(), args });
        }
        reply.finish = Finish::ToolCalls;
        Ok(reply)
    }
}

impl Backend for Wild {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let sent: Vec<Message> = request.messages[1..].to_vec();
        assert_valid(&sent, "a request");
        let reply = self.reply(&mut self.dice.lock().unwrap());
        Box::pin(async move { reply })
    }
}

fn session(bench: &Bench, wild: &Arc<Wild>) -> Session {
    let traits = Traits { native_tools: true, grammar: false, context_tokens: 9_000 };
    Session::new(SessionParts {
        id: "wild".to_owned(),
        model: ModelHandle::new("test/wild", traits, wild.clone()),
        forge: bench.forge(Policy::closed()),
        mode: Mode::Auto,
        limits: TurnLimits { max_rounds: 6, ..TurnLimits::STANDARD },

        strategy: Strategy::Window,
        builtins: false,
        zone: jiff::tz::TimeZone::UTC,
    })
}

#[tokio::test]
async fn no_conversation_at_random_leaves_a_call_without_its_result() {
    let (mut failed, mut cancelled, mut resumed) = (0, 0, 0);
    for seed in 1..=12u64 {
        let bench = Bench::new();
        let store = SessionStore::open(&bench.home.path().join("sessions.db")).unwrap();
        let wild = Arc::new(Wild {
            dice: Mutex::new(Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))),
            cancel: Mutex::new(CancellationToken::new()),
        });
        let mut talk = session(&bench, &wild).recorded(Record::new(store.clone(), NewSession::default()));
        for turn in 0..30 {
            let cancel = CancellationToken::new();
            *wild.cancel.lock().unwrap() = cancel.clone();
            let end = talk.turn(format!("问题 {turn}"), &mut |_| {}, &mut DenyAll, &cancel).await;
            failed += usize::from(matches!(end, TurnEnd::Failed(_)));
            cancelled += usize::from(cancel.is_cancelled());
            assert_valid(talk.history(), &format!("seed {seed}, turn {turn}"));
            let id = talk.id().to_owned();
            let loaded = store.load(&id).unwrap();
            assert_eq!((loaded.interrupted, &loaded.messages[..]), (0, talk.history()), "seed {seed}, turn {turn}");
            if turn % 7 == 6 {
                // Another process goes on with it.
                drop(talk);
                let (writer, loaded) = store.resume(&id).unwrap();
                talk = session(&bench, &wild).resumed(store.clone(), writer, loaded);
                resumed += 1;
            }
        }
    }
    assert!(
        failed > 10 && cancelled > 10 && resumed == 48,
        "{failed} failed, {cancelled} cancelled, {resumed} resumed"
    );
}
