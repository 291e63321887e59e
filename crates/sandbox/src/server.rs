//! A program that is spoken with for as long as it lives: in the jail, by its standard streams.

use crate::broker::{Handed, Secret};
use crate::egress::EgressProxy;
use crate::error::SandboxError;
use crate::jail::{JailExit, Jailed, Stdin};
use crate::pool::lock;
use crate::process::{Processes, Ready};
use jarvis_policy::{Pattern, ProcessPermit};
use jarvis_protocol::Egress;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Of what it writes to standard error, the last bytes are kept.
const MOST_SAID: usize = 16 << 10;

/// How long the end of a jail is waited for, once it is killed.
const REPORT: Duration = Duration::from_secs(2);

/// How long what is still in the pipe is read, once it has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How it ended, and what it did with each host until then.
#[derive(Debug, Clone)]
pub struct ServerEnd {
    /// None where the jail itself is gone without a word.
    pub exit: Option<JailExit>,
    pub egress: Vec<Egress>,
}

/// One that runs. It is killed, with all it started, when this is dropped.
pub struct Server {
    pub stdin: Option<pipe::Sender>,
    pub stdout: Option<pipe::Receiver>,
    /// The isolation that is really in force.
    pub layers: Vec<String>,
    pub handed: Arc<Handed>,
    said: Arc<Mutex<VecDeque<u8>>>,
    ended: watch::Receiver<Option<ServerEnd>>,
    _stop: DropGuard,
}

impl Processes {
    /// Starts a permitted server. Values of `env` may name secrets, `${secret:NAME}`: it gets one where each host that
    /// it may reach is one that the secret may be sent to.
    pub async fn serve(
        &self,
        permit: ProcessPermit,
        program: PathBuf,
        env: Vec<(String, String)>,
    ) -> Result<Server, SandboxError> {
        let plan = permit.into_plan();
        let handed = Arc::new(Handed::default());
        let may_have = |_: &str, secret: &Secret| all_within(&plan.network, &secret.hosts);
        let env = env
            .into_iter()
            .map(|(name, value)| Ok((name, handed.fill(self.access().secrets.as_ref(), &value, may_have)?)))
            .collect::<Result<Vec<_>, SandboxError>>()?;
        let mut ready = self.ready(plan, program, env)?;
        ready.spec.stdin = Stdin::Piped;
        let Ready { spec, proxy, _over } = ready;
        let mut jailed = self.jail().spawn(spec).await?;
        let (stdin, stdout) = (jailed.stdin.take(), jailed.stdout.take());
        let layers = std::mem::take(&mut jailed.layers);
        let stop = CancellationToken::new();
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let (tell, ended) = watch::channel(None);
        tokio::spawn(watch_over(jailed, proxy, _over, Arc::clone(&said), stop.clone(), tell));
        Ok(Server { stdin, stdout, layers, handed, said, ended, _stop: stop.drop_guard() })
    }
}

impl Server {
    /// The last that it wrote to standard error, without secrets that it was handed.
    pub fn said(&self) -> String {
        let bytes: Vec<u8> = lock(&self.said).iter().copied().collect();
        self.handed.redact(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Tells of its end; may be waited for by many.
    pub fn ended(&self) -> watch::Receiver<Option<ServerEnd>> {
        self.ended.clone()
    }
}

/// Until it has ended, by itself or by a word.
async fn watch_over(
    mut jailed: Jailed,
    proxy: Option<EgressProxy>,
    _over: DropGuard,
    said: Arc<Mutex<VecDeque<u8>>>,
    stop: CancellationToken,
    tell: watch::Sender<Option<ServerEnd>>,
) {
    let stderr = jailed.stderr.take();
    let keeping = async {
        let Some(mut stderr) = stderr else { return };
        let mut part = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut part).await {
            let mut said = lock(&said);
            said.extend(&part[..count]);
            let over = said.len().saturating_sub(MOST_SAID);
            said.drain(..over);
        }
    };
    let exit = {
        let ending = async {
            tokio::select! {
                exit = jailed.wait() => return exit.ok(),
                () = stop.cancelled() => {}
            }
            jailed.kill();
            tokio::time::timeout(REPORT, jailed.wait()).await.ok()?.ok()
        };
        tokio::pin!(keeping);
        tokio::pin!(ending);
        tokio::select! {
            exit = &mut ending => {
                // Its last words may still be in the pipe.
                let _ = tokio::time::timeout(LAST_WORDS, keeping).await;
                exit
            }
            () = &mut keeping => ending.await,
        }
    };
    let egress = proxy.map(|proxy| proxy.egress()).unwrap_or_default();
    // Nobody may be left to hear it.
    let _ = tell.send(Some(ServerEnd { exit, egress }));
}

/// Whatever may be reached is where the secret may go.
fn all_within(reached: &[String], bound: &[String]) -> Result<(), String> {
    let parse = |text: &String| Pattern::parse(text).map_err(|e| e.to_string());
    let bound = bound.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    for text in reached {
        let pattern = parse(text)?;
        let inside = |wider: &Pattern| pattern.meet(wider).is_some_and(|met| met.to_string() == pattern.to_string());
        if !bound.iter().any(inside) {
            return Err(format!("the server may reach {text}, and it is bound to other hosts"));
        }
    }
    Ok(())
}
