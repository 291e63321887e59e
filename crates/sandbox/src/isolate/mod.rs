//! Takes every authority from the process that calls it, and says which layers are really in force.

mod filter;
mod landlock;
mod limits;
mod namespaces;

pub(crate) use filter::Filter;
pub(crate) use limits::{bound_job, bound_process};

/// Why there is no isolation, and what a person can do about it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Missing {
    pub missing: String,
    pub fix: String,
}

/// Everything that is inherited by children: namespaces, an empty root, Landlock, no privileges. One of namespaces and
/// Landlock must hold. The process must have a single thread.
///
/// The caller has to fork afterwards: only its child is in the new process-id namespace.
pub(crate) fn enter() -> Result<Vec<String>, Missing> {
    let mut layers = Vec::new();
    let namespaces = namespaces::enter();
    if namespaces.is_ok() {
        layers.push("namespaces".to_owned());
        layers.push("empty root".to_owned());
    }
    let privileges = namespaces::drop_privileges();
    privileges.map_err(|e| Missing {
        missing: format!("privileges cannot be given up: {e}"),
        fix: "run on Linux 5.13 or newer".to_owned(),
    })?;
    layers.push("no new privileges".to_owned());
    let landlock = landlock::enter();
    if landlock.is_ok() {
        layers.push("landlock".to_owned());
    }
    if let (Err(first), Err(second)) = (&namespaces, &landlock) {
        return Err(Missing {
            missing: format!("neither namespaces ({first}) nor Landlock ({second}) can be had"),
            fix: "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or \
                  kernel.apparmor_restrict_unprivileged_userns=0), or use Linux 5.13 or newer with Landlock; in a \
                  container, allow the unshare or landlock system calls"
                .to_owned(),
        });
    }
    Ok(layers)
}
