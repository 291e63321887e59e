//! A control group for each jail, where the launcher may make one: for its memory and its number of processes.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PREFIX: &str = "jarvis-jail-";

/// Where groups can be made. Empty where none can.
#[derive(Debug, Default)]
pub(super) struct Groups {
    memory: Option<Controller>,
    pids: Option<Controller>,
    cpu: Option<Controller>,
}

#[derive(Debug, Clone)]
struct Controller {
    parent: PathBuf,
    unified: bool,
}

/// The groups of one jail.
#[derive(Debug, Default)]
pub(super) struct Group {
    folders: Vec<PathBuf>,
    /// To be written to by the jail's first process: it joins.
    pub doors: Vec<File>,
    pub memory: bool,
    pub pids: bool,
    /// Counts processes that were killed for their memory.
    events: Option<File>,
    limit_memory: Option<(PathBuf, bool)>,
    limit_pids: Option<PathBuf>,
}

impl Groups {
    /// Tries what can be had, from the launcher's own group and the one above.
    pub(super) fn find() -> Groups {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let find = |name| candidates(&mounts, &own, name).into_iter().find(|c| c.works(name));
        let groups = Groups { memory: find("memory"), pids: find("pids"), cpu: find("cpu") };
        // What a launcher left behind that was killed; a group in use cannot be removed.
        for controller in [&groups.memory, &groups.pids, &groups.cpu].into_iter().flatten() {
            for entry in std::fs::read_dir(&controller.parent).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let owner =
                    name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
                // Another launcher may have made it just now.
                if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                    let _ = std::fs::remove_dir(entry.path());
                }
            }
        }
        groups
    }

    /// A new group, yet without limits. What fails is left out, and watched by other means.
    pub(super) fn make(&self, id: u64) -> Group {
        let mut group = Group::default();
        let name = format!("{PREFIX}{}-{id}", std::process::id());
        if let Some(controller) = &self.memory
            && let Ok(folder) = group.enter(controller, &name)
        {
            group.memory = true;
            let events = if controller.unified { "memory.events" } else { "memory.oom_control" };
            group.events = File::open(folder.join(events)).ok();
            group.pids = controller.unified && folder.join("pids.max").exists();
            group.limit_memory = Some((folder.clone(), controller.unified));
            group.limit_pids = group.pids.then_some(folder);
        }
        if !group.pids
            && let Some(controller) = &self.pids
            && let Ok(folder) = group.enter(controller, &name)
        {
            group.pids = true;
            group.limit_pids = Some(folder);
        }
        group
    }

    pub(super) fn has_cpu(&self) -> bool {
        self.cpu.is_some()
    }

    /// Only where it is asked for: to move a process takes long.
    pub(super) fn limit_cpu(&self, group: &mut Group, pid: i32, percent: u64) -> std::io::Result<()> {
        const PERIOD_US: u64 = 100_000;
        let controller = self.cpu.as_ref().ok_or(std::io::ErrorKind::Unsupported)?;
        let name =
            group.folders.first().and_then(|folder| folder.file_name()).map(|name| name.to_string_lossy().into_owned());
        let folder = controller.parent.join(name.unwrap_or_else(|| format!("{PREFIX}{}-cpu{pid}", std::process::id())));
        if !group.folders.contains(&folder) {
            std::fs::create_dir(&folder)?;
            group.folders.push(folder.clone());
        }
        let quota = (percent * PERIOD_US / 100).max(1000);
        match controller.unified {
            true => std::fs::write(folder.join("cpu.max"), format!("{quota} {PERIOD_US}"))?,
            false => std::fs::write(folder.join("cpu.cfs_quota_us"), quota.to_string())?,
        }
        std::fs::write(folder.join("cgroup.procs"), pid.to_string())
    }
}

impl Group {
    fn enter(&mut self, controller: &Controller, name: &str) -> std::io::Result<PathBuf> {
        let folder = controller.parent.join(name);
        std::fs::create_dir(&folder)?;
        let door = File::options().write(true).open(folder.join("cgroup.procs"));
        self.folders.push(folder.clone());
        self.doors.push(door?);
        Ok(folder)
    }

    /// The calling process joins.
    pub(super) fn join(&mut self) -> std::io::Result<()> {
        self.doors.drain(..).try_for_each(|mut door| door.write_all(b"0"))
    }

    /// False where the kernel does not take one of them.
    pub(super) fn limit(&self, memory_mb: u64, pids: u32) -> bool {
        let memory = self.limit_memory.as_ref().is_none_or(|(folder, unified)| {
            let bytes = (memory_mb << 20).to_string();
            let (most, swap) = match unified {
                true => ("memory.max", "memory.swap.max"),
                false => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
            };
            let limited = std::fs::write(folder.join(most), &bytes).is_ok();
            // Where swap is counted: none beside.
            let _ = std::fs::write(folder.join(swap), if *unified { "0" } else { &bytes });
            limited
        });
        // The jail's first process counts.
        let pids = pids.saturating_add(1).to_string();
        memory && self.limit_pids.as_ref().is_none_or(|folder| std::fs::write(folder.join("pids.max"), pids).is_ok())
    }

    pub(super) fn out_of_memory(&self) -> bool {
        self.events.as_ref().is_some_and(out_of_memory)
    }

    /// For the jail's first process, which cannot see the group itself.
    pub(super) fn take_events(&mut self) -> Option<File> {
        self.events.take()
    }

    /// False while the kernel still holds one of them.
    pub(super) fn remove(&mut self) -> bool {
        self.folders
            .retain(|folder| std::fs::remove_dir(folder).is_err_and(|e| e.kind() != std::io::ErrorKind::NotFound));
        self.folders.is_empty()
    }
}

/// Whether the kernel has killed a process of the group for its memory.
pub(super) fn out_of_memory(events: &File) -> bool {
    let mut text = [0u8; 512];
    let count = events.read_at(&mut text, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..count]);
    let killed = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    killed.and_then(|count| count.trim().parse::<u64>().ok()).is_some_and(|count| count > 0)
}

impl Controller {
    /// Makes a group and takes it away again.
    fn works(&self, name: &str) -> bool {
        if self.unified && !self.handed_down(name) {
            return false;
        }
        let folder = self.parent.join(format!("{PREFIX}{}-try", std::process::id()));
        if std::fs::create_dir(&folder).is_err() {
            return false;
        }
        let limit = match (name, self.unified) {
            ("memory", true) => "memory.max",
            ("memory", false) => "memory.limit_in_bytes",
            ("cpu", true) => "cpu.max",
            ("cpu", false) => "cpu.cfs_quota_us",
            _ => "pids.max",
        };
        // Writable is not enough: to move a process needs the right to the group that it comes from.
        let limited = File::options().write(true).open(folder.join(limit)).is_ok();
        let moved = limited && may_move(&folder);
        std::fs::remove_dir(&folder).is_ok() && moved
    }

    /// Controllers reach a group only where the one above passes them on.
    fn handed_down(&self, name: &str) -> bool {
        let file = self.parent.join("cgroup.subtree_control");
        let has = || std::fs::read_to_string(&file).unwrap_or_default().split_whitespace().any(|c| c == name);
        has() || (std::fs::write(&file, format!("+{name}")).is_ok() && has())
    }
}

/// Moves a child of the launcher there, which ends at once.
fn may_move(folder: &Path) -> bool {
    let Ok(mut door) = File::options().write(true).open(folder.join("cgroup.procs")) else { return false };
    // Sound: the launcher has one thread; the child only writes to an open file and ends.
    unsafe {
        match libc::fork() {
            -1 => false,
            0 => libc::_exit(i32::from(door.write_all(b"0").is_err())),
            child => {
                let mut status = 0;
                libc::waitpid(child, &mut status, 0) == child
                    && libc::WIFEXITED(status)
                    && libc::WEXITSTATUS(status) == 0
            }
        }
    }
}

/// Groups that could be the parent: the own one, then the one above, where the version 2 wants no processes.
fn candidates(mounts: &str, own: &str, name: &str) -> Vec<Controller> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let unified = controllers.is_empty();
        if !unified && !controllers.split(',').any(|controller| controller == name) {
            continue;
        }
        let Some(mount) = mounts.lines().find_map(|line| mount_point(line, unified, name)) else { continue };
        let own = mount.join(path.trim_start_matches('/'));
        found.push(Controller { parent: own.clone(), unified });
        if unified && let Some(above) = own.parent().filter(|above| above.starts_with(&mount)) {
            found.push(Controller { parent: above.to_owned(), unified });
        }
    }
    found
}

fn mount_point(line: &str, unified: bool, name: &str) -> Option<PathBuf> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let kind = right.next()?;
    let options = right.nth(1).unwrap_or_default();
    let fits = match unified {
        true => kind == "cgroup2",
        false => kind == "cgroup" && options.split(',').any(|option| option == name),
    };
    fits.then(|| left.split(' ').nth(4).map(PathBuf::from)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "5:memory:/a/b\n0::/user.slice/app.slice/term.scope\n";
    const MOUNTS: &str = "30 25 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
                          31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn both_versions_are_found() {
        let parents: Vec<_> = candidates(MOUNTS, OWN, "memory").into_iter().map(|c| c.parent).collect();
        let wanted = ["memory/a/b", "unified/user.slice/app.slice/term.scope", "unified/user.slice/app.slice"];
        assert_eq!(parents, wanted.map(|path| PathBuf::from("/sys/fs/cgroup").join(path)));
        let parents = candidates(MOUNTS, OWN, "pids");
        assert!(parents.iter().all(|c| c.unified) && parents.len() == 2, "{parents:?}");
        assert!(candidates("", OWN, "memory").is_empty() && candidates(MOUNTS, "", "memory").is_empty());
    }
}
