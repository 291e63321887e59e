//! Whether something registered does what a draft does already. Their words and kinds of arguments say so, unless the
//! answers that are recorded for the two speak against it: 19 percent for Germany is not 20 percent for France.

use crate::library::{Runs, rename};
use crate::verify::same;
use crate::{Draft, Forge, ForgeError, registry_error};
use jarvis_protocol::{Capability, Example, Status};
use jarvis_registry::health::{Fit, Renamed, Subject, fit};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Runs of what is registered that one draft is worth.
const MOST_RUNS: u32 = 3;
/// What takes longer is not compared.
const QUICK_MS: u64 = 2_000;

impl Forge {
    /// What is registered and does the same already, with arguments that go together.
    pub fn duplicate_of(&self, capability: &Capability) -> Result<Option<Capability>, ForgeError> {
        Ok(self.similar(capability)?.next())
    }

    fn similar(&self, capability: &Capability) -> Result<impl Iterator<Item = Capability> + use<>, ForgeError> {
        let similar = self.dispatch().registry().find_similar(capability).map_err(registry_error)?;
        Ok(similar.into_iter().map(|hit| hit.capability).filter(|found| found.status == Status::Active))
    }

    pub(crate) async fn refuse_duplicate(&self, draft: &Draft, cancel: &CancellationToken) -> Result<(), ForgeError> {
        let mut runs = Runs(MOST_RUNS);
        for found in self.similar(&draft.capability)? {
            if draft.instead_of.as_ref() == Some(&found.name) {
                return Ok(());
            }
            if !self.answers_differ(&found, &draft.capability, &mut runs, cancel).await? {
                let why = format!("{} ({})", found.capability, found.signature());
                return Err(ForgeError::Duplicate { why, name: found.name });
            }
        }
        Ok(())
    }

    /// Whether answers tell the two apart, in whichever way the draft's arguments are those of `found`.
    async fn answers_differ(
        &self,
        found: &Capability,
        draft: &Capability,
        runs: &mut Runs,
        cancel: &CancellationToken,
    ) -> Result<bool, ForgeError> {
        let ways = match fit(found, draft, &Renamed::new()) {
            Ok(Fit::Plain(renamed)) => vec![renamed],
            Ok(Fit::Open(ways)) => ways,
            // Calls that both take are compared as they are.
            Err(_) => vec![Renamed::new()],
        };
        let mut runnable = None;
        for way in &ways {
            if records_differ(found, draft, way) {
                continue;
            }
            let subject = match &runnable {
                Some(read) => read,
                None => runnable.insert(self.runnable(found).await?),
            };
            let Some(subject) = subject else { return Ok(false) };
            if !self.runs_differ(subject, draft, way, runs, cancel).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// As it can be run here: unchanged, quickly, and reaching nothing.
    async fn runnable(&self, found: &Capability) -> Result<Option<Subject>, ForgeError> {
        if !found.grants.is_empty() || !found.dependencies.is_empty() {
            return Ok(None);
        }
        let mut capability = found.clone();
        capability.limits.timeout_ms = capability.limits.timeout_ms.min(QUICK_MS);
        let code = self.code_state(found, &[]).await?;
        let subject = Subject { capability, stats: Default::default(), versions: Vec::new(), builds: Vec::new(), code };
        let pure = subject.sound().is_some_and(|source| source.pure);
        Ok(pure.then_some(subject))
    }

    /// Does what is registered give another answer to a call whose answer the draft states?
    async fn runs_differ(
        &self,
        subject: &Subject,
        draft: &Capability,
        way: &Renamed,
        runs: &mut Runs,
        cancel: &CancellationToken,
    ) -> Result<bool, ForgeError> {
        for (args, expected) in stated(&draft.examples, way) {
            if jarvis_dispatch::check_arguments(&subject.capability.parameters, &args).is_err() {
                continue;
            }
            if !runs.take() {
                break;
            }
            // That it fails says nothing about what it is for.
            let got = self.answer(subject, args, cancel).await?;
            if got.is_some_and(|got| !same(expected, &got)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Is another answer on record for the same call?
fn records_differ(found: &Capability, draft: &Capability, way: &Renamed) -> bool {
    let known = |args: &Value| found.examples.iter().filter(|e| same(&e.args, args)).find_map(|e| e.returns.as_ref());
    stated(&draft.examples, way).any(|(args, expected)| known(&args).is_some_and(|known| !same(known, expected)))
}

/// Calls with a known answer, in the words of the other.
fn stated<'a>(examples: &'a [Example], way: &'a Renamed) -> impl Iterator<Item = (Value, &'a Value)> {
    examples.iter().filter_map(|e| Some((rename(&e.args, way), e.returns.as_ref()?)))
}
