//! Runs permitted processes: the permit becomes a jail, and where hosts were allowed, a proxy is its only way out.

use crate::broker::Access;
use crate::egress::{EgressPolicy, EgressProxy, ProxyLimits, ProxyListener, system};
use crate::error::SandboxError;
use crate::jail::{Jail, JailConfig, JailLimits, JailNetwork, JailOutcome, JailSpec, JailStream, ServeProxy, Stdin};
use crate::probe::Layer;
use jarvis_policy::ProcessPermit;
use jarvis_protocol::{Egress, Preset, ProcessLimits, ProcessPlan};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How a permitted process ended, what it printed, and what it did with each host.
#[derive(Debug, Clone)]
pub struct ProcessDone {
    pub outcome: JailOutcome,
    pub egress: Vec<Egress>,
}

/// A jail that is to be started. Its proxy ends when this is dropped.
pub(crate) struct Ready {
    pub spec: JailSpec,
    pub proxy: Option<EgressProxy>,
    pub _over: DropGuard,
}

/// Cheap to clone; starts nothing before the first process.
#[derive(Clone)]
pub struct Processes {
    jail: Jail,
    access: Access,
    home: Option<PathBuf>,
}

impl Processes {
    /// `access` as for capabilities: the workspace, and what is never shown. `home` is the person's home folder.
    pub fn new(config: JailConfig, access: Access, home: Option<PathBuf>) -> Processes {
        Processes { jail: Jail::new(config), access, home }
    }

    /// Which layers a jail has here, tried in one whose workspace is a new folder in `scratch`.
    pub async fn probe(&self, scratch: &Path) -> Vec<Layer> {
        self.jail.probe(scratch).await
    }

    /// Runs it to its end; `on_output` hears of output as it comes. `program` is the file that the plan's first word
    /// names, and `env` what is added to the standard environment; nothing else is inherited.
    pub async fn run(
        &self,
        permit: ProcessPermit,
        program: PathBuf,
        env: Vec<(String, String)>,
        stdin: Stdin,
        cancel: &CancellationToken,
        on_output: impl FnMut(JailStream, &[u8]) + Send,
    ) -> Result<ProcessDone, SandboxError> {
        let Ready { mut spec, proxy, _over } = self.ready(permit.into_plan(), program, env)?;
        spec.stdin = stdin;
        let outcome = self.jail.run(spec, cancel, on_output).await?;
        Ok(ProcessDone { outcome, egress: proxy.map(|proxy| proxy.egress()).unwrap_or_default() })
    }

    /// The jail of a plan, and its way out if it has one.
    pub(crate) fn ready(
        &self,
        plan: ProcessPlan,
        program: PathBuf,
        env: Vec<(String, String)>,
    ) -> Result<Ready, SandboxError> {
        let policy = EgressPolicy::parse(&plan.network).map_err(|e| SandboxError::Spec {
            what: format!("network: {e}"),
            fix: "for example api.example.com".to_owned(),
        })?;
        let resolver = self.access.resolver.clone().unwrap_or_else(system);
        let proxy =
            (!plan.network.is_empty()).then(|| EgressProxy::with_resolver(policy, ProxyLimits::STANDARD, resolver));
        // Ends the proxy with this run, whatever ends it.
        let serving = CancellationToken::new();
        let mut spec = self.spec(plan, program);
        spec.env.extend(env.into_iter().map(|(name, value)| (name.into(), value.into())));
        if let Some(proxy) = &proxy {
            spec.network = JailNetwork::Proxy { serve: serve(proxy, &serving) };
        }
        Ok(Ready { spec, proxy, _over: serving.drop_guard() })
    }

    pub(crate) fn jail(&self) -> &Jail {
        &self.jail
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    fn spec(&self, plan: ProcessPlan, program: PathBuf) -> JailSpec {
        let workspace = self.access.workspace.clone().unwrap_or_else(|| plan.dir.clone());
        let mut spec = JailSpec::new(program, workspace).args(plan.argv.into_iter().skip(1));
        spec.dir = plan.dir;
        spec.preset = plan.preset;
        // A jail has a `/proc` and a `/dev` of its own, and no `/sys`.
        let own = ["/proc", "/dev", "/sys"].map(Path::new);
        spec.hidden = self.access.denied.iter().filter(|path| !own.contains(&path.as_path())).cloned().collect();
        spec.read_only = plan.read;
        if let (Preset::ReadOnly, Some((first, rest))) = (plan.preset, plan.write.split_first()) {
            // What can be written takes the place of the workspace, which stays to be read.
            spec.preset = Preset::WorkspaceWrite;
            spec.read_only.push(std::mem::replace(&mut spec.workspace, first.clone()));
            spec.read_only.retain(|path| !plan.write.contains(path));
            spec.read_write = rest.to_vec();
        }
        spec.home = self.home.clone();
        spec.limits = limits(&plan.limits);
        spec
    }
}

fn serve(proxy: &EgressProxy, until: &CancellationToken) -> ServeProxy {
    let (proxy, until) = (proxy.clone(), until.clone());
    Arc::new(move |listener| {
        let (proxy, until) = (proxy.clone(), until.clone());
        tokio::spawn(async move {
            if let Err(error) = proxy.serve(ProxyListener::Tcp(listener), &until).await {
                tracing::warn!(%error, "the proxy of a jail ended");
            }
        });
    })
}

fn limits(limits: &ProcessLimits) -> JailLimits {
    JailLimits {
        wall_ms: limits.timeout_ms,
        // As if all cores were busy all the time: the wall clock is what bounds.
        cpu_ms: limits.timeout_ms.saturating_mul(8),
        memory_mb: limits.memory_mb,
        pids: u32::try_from(limits.processes).unwrap_or(u32::MAX),
        file_mb: limits.file_mb,
        disk_mb: limits.disk_mb,
        open_files: JailLimits::STANDARD.open_files,
        output_bytes: limits.output_bytes,
    }
}
