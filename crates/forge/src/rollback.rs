//! An earlier version, put back as a new one: through the same checks, verification and approval as any other.

use crate::{Accepted, Draft, Emit, Forge, ForgeError, not_found, registry_error};
use jarvis_dispatch::Approver;
use jarvis_protocol::{CapabilityName, ForgeStep, Version};
use tokio_util::sync::CancellationToken;

impl Forge {
    /// Registers the content of version `to` (without it: of the version before the current one) as the next version.
    pub async fn rollback(
        &self,
        name: &CapabilityName,
        to: Option<&Version>,
        emit: Emit<'_>,
        approver: &mut dyn Approver,
        cancel: &CancellationToken,
    ) -> Result<Accepted, ForgeError> {
        let registry = self.dispatch().registry();
        let current = registry.get(name).map_err(registry_error)?.ok_or_else(|| not_found(name))?;
        let versions: Vec<Version> =
            registry.history(name).map_err(registry_error)?.into_iter().map(|entry| entry.version).collect();
        let to = match to {
            Some(to) => to.clone(),
            None => before(&versions, &current.version)
                .ok_or_else(|| problem(format!("`{name}` has no version before {}", current.version)))?,
        };
        if to == current.version {
            return Err(problem(format!("`{name}` is at version {to} already")));
        }
        let kept = registry.at(name, &to).map_err(registry_error)?;
        let Some((capability, code)) = kept else {
            let known: Vec<String> = versions.iter().map(Version::to_string).collect();
            return Err(problem(format!("the history holds no version {to} of `{name}`; it has {}", known.join(", "))));
        };
        let change = format!("rolled back to {to}");
        let draft = Draft { capability, code, request: None, change, instead_of: None, restored: true };
        self.submit(draft, emit, approver, cancel).await
    }
}

/// The newest version that is older than `current`.
fn before(versions: &[Version], current: &Version) -> Option<Version> {
    versions.iter().filter(|version| *version < current).max().cloned()
}

fn problem(text: String) -> ForgeError {
    ForgeError::Problems { step: ForgeStep::Checked, problems: vec![text] }
}
