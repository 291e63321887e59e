//! Takes every authority from the process that calls it, and says which layers are really in force.

mod attempt;
mod filter;
mod landlock;
mod limits;
mod namespaces;

pub(crate) use attempt::{ATTEMPTS, attempt};
pub(crate) use filter::Filter;
pub(crate) use landlock::IN_PART;
pub(crate) use limits::{bound_job, bound_process};

/// Why there is no isolation, and what a person can do about it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Missing {
    pub missing: String,
    pub fix: String,
}

/// A layer that cannot be had here, though others make up for it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Lacking {
    pub name: String,
    pub why: String,
    pub fix: String,
}

const NAMESPACES_FIX: &str = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or \
                              kernel.apparmor_restrict_unprivileged_userns=0); in a container, allow `unshare`";
const LANDLOCK_FIX: &str = "use Linux 5.13 or newer with Landlock (lsm=landlock,… on the kernel's command line)";

/// Everything that is inherited by children: namespaces, an empty root, Landlock, no privileges. One of namespaces and
/// Landlock must hold. The process must have a single thread.
///
/// The caller has to fork afterwards: only its child is in the new process-id namespace.
pub(crate) fn enter() -> Result<(Vec<String>, Vec<Lacking>), Missing> {
    let mut layers = Vec::new();
    let mut lacking = Vec::new();
    match namespaces::enter() {
        Ok(()) => layers.extend(["namespaces".to_owned(), "empty root".to_owned()]),
        Err(why) => lacking.push(Lacking { name: "namespaces".to_owned(), why, fix: NAMESPACES_FIX.to_owned() }),
    }
    namespaces::drop_privileges().map_err(|e| Missing {
        missing: format!("privileges cannot be given up: {e}"),
        fix: "start jarvis as an ordinary user".to_owned(),
    })?;
    layers.push("no new privileges".to_owned());
    match landlock::enter() {
        Ok(name) => layers.push(name.to_owned()),
        Err(why) => lacking.push(Lacking { name: "landlock".to_owned(), why, fix: LANDLOCK_FIX.to_owned() }),
    }
    match lacking.as_slice() {
        [first, second] => Err(Missing {
            missing: format!("neither {} ({}) nor {} ({})", first.name, first.why, second.name, second.why),
            fix: format!("{}; or {}", first.fix, second.fix),
        }),
        _ => Ok((layers, lacking)),
    }
}
