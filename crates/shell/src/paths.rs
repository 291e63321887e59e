//! From the text of a path to what it is, and from that to a verdict on reading, writing and deleting it.

use crate::Context;
use crate::pattern::{is_everything, matches, path_matches, under_matches};
use crate::places::*;
use crate::verdict::Finding;

/// Stands for text that is not known, inside an argument.
pub(crate) const UNKNOWN: char = '\u{FFFC}';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A relative path in an unknown folder, or with an unknown part.
    Unknown,
    Workspace,
    WorkspaceFile,
    WorkspaceSecret,
    GitInternal,
    GitRuns,
    Temporary,
    TemporaryFile,
    HarmlessDevice,
    Device,
    Socket,
    System,
    SystemFile,
    SharedRoot,
    SharedFile,
    Home,
    HomeFile,
    OtherHome,
    Secret,
    PublicKey,
    Startup,
    History,
    /// A folder that holds the workspace or the home.
    Above,
    Other,
}

#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub workspace: String,
    pub home: String,
}

impl Paths {
    /// A workspace that is the whole machine, a part of the system or a folder above the home is none at all: then
    /// nothing counts as being inside it, and every relative path is unknown.
    pub fn new(context: &Context) -> Paths {
        let home = context.home.to_string_lossy().trim_end_matches('/').to_owned();
        let none = format!("/{UNKNOWN}");
        let given = context.workspace.to_string_lossy();
        let paths = Paths { workspace: none.clone(), home };
        let workspace = paths.absolute(&given, None).filter(|w| given.starts_with('/') && !w.contains(UNKNOWN));
        let fits = |w: &String| {
            let system = SYSTEM.iter().any(|s| w == s || inside(w, s).is_some())
                && !SHARED.iter().any(|s| inside(w, s).is_some());
            let root = w == "/" || SHARED.iter().chain(HOMES).chain(TEMPORARY).any(|s| w == s);
            !root && !system && inside(&paths.home, w).is_none()
        };
        Paths { workspace: workspace.filter(fits).unwrap_or(none), ..paths }
    }

    /// Absolute and without `.`, `..` and doubled slashes; None when a part that matters is not known.
    pub fn absolute(&self, text: &str, folder: Option<&str>) -> Option<String> {
        let text = text.trim_end_matches('\r');
        let tilde = text.strip_prefix('~').map(|rest| rest.split_once('/').unwrap_or((rest, "")));
        let joined = match tilde {
            Some(("", rest)) => format!("{}/{rest}", self.home),
            Some(("root", rest)) => format!("/root/{rest}"),
            Some(("+", rest)) => format!("{}/{rest}", folder?),
            Some((user, rest)) if user.starts_with(['+', '-']) || user.contains(UNKNOWN) => {
                format!("/{UNKNOWN}/{rest}")
            }
            Some((user, rest)) if user.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)) => {
                format!("/home/{user}/{rest}")
            }
            _ if text.starts_with('/') => text.to_owned(),
            _ => format!("{}/{text}", folder?),
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in joined.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    // What `..` leaves is not known either.
                    if parts.pop().is_some_and(|p| p.contains(UNKNOWN)) {
                        return None;
                    }
                }
                _ => parts.push(part),
            }
        }
        // Other names of the same places.
        if let [first, rest @ ..] = parts.as_slice()
            && *first == "private"
            && matches!(rest.first(), Some(&("etc" | "tmp" | "var")))
        {
            parts.remove(0);
        }
        if let ["proc", _, "root" | "cwd", rest @ ..] | ["proc", _, "task", _, "root" | "cwd", rest @ ..] =
            parts.as_slice()
        {
            if parts[2] == "cwd" || parts.get(4) == Some(&"cwd") {
                return self.absolute(&rest.join("/"), Some(folder?));
            }
            parts = rest.to_vec();
        }
        Some(format!("/{}", parts.join("/")))
    }

    /// What the path is. A glob is the most dangerous of what it can match.
    pub fn place(&self, text: &str, glob: bool, folder: Option<&str>) -> Place {
        let Some(path) = self.absolute(text, folder) else { return unknown_place(text) };
        let is = |place: &str| if glob { path_matches(&path, place) } else { path == place };
        let under = |place: &str| {
            if glob { under_matches(&path, place) } else { path == place || inside(&path, place).is_some() }
        };
        if let Some(place) = self.special(&path, glob, &is, &under) {
            return place;
        }
        // An unknown part may hide slashes and `..`, but what starts in the system's folders is no less theirs.
        if let Some(at) = path.find(UNKNOWN) {
            let folder = path[..at].rfind('/').map_or("/", |slash| &path[..slash]);
            return match self.place(&format!("{folder}/x"), glob, None) {
                place @ (Place::SystemFile | Place::Secret | Place::Startup | Place::Device | Place::Socket) => place,
                _ => unknown_place(&path[at..]),
            };
        }
        let everything_in = |folder: &str| {
            glob && path.rsplit_once('/').is_some_and(|(parent, last)| {
                let parent = if parent.is_empty() { "/" } else { parent };
                parent == folder && is_everything(last)
            })
        };
        // A pattern like `/???` also matches harmless places; the others count.
        if everything_in("/") || (glob && SYSTEM.iter().chain(HOMES).any(|s| is(s))) {
            return Place::System;
        }
        if is(&self.home) || everything_in(&self.home) {
            return Place::Home;
        }
        if is(&self.workspace) || everything_in(&self.workspace) {
            return Place::Workspace;
        }
        if let Some(rest) = inside(&path, &self.workspace) {
            return workspace_place(rest);
        }
        if TEMPORARY.iter().any(|t| is(t) || everything_in(t)) {
            return Place::Temporary;
        }
        // A pattern may also match worse places.
        let elsewhere = glob
            && (SYSTEM.iter().chain(SHARED).chain(HOMES).any(|s| *s != "/var" && under(s))
                || under("/root")
                || under(&self.home));
        if TEMPORARY.iter().any(|t| under(t)) && !above(&path, &self.workspace) && !elsewhere {
            return Place::TemporaryFile;
        }
        if path == "/root" {
            return Place::Home;
        }
        if path == "/" || everything_in("/") || HOMES.iter().any(|h| is(h) || everything_in(h)) {
            return Place::System;
        }
        if above(&path, &self.workspace) || above(&path, &self.home) {
            return Place::Above;
        }
        if SHARED.iter().any(|s| is(s) || everything_in(s)) {
            return Place::SharedRoot;
        }
        if SYSTEM.iter().any(|s| is(s) || everything_in(s)) {
            return Place::System;
        }
        if glob && SYSTEM.iter().any(|s| under(s)) {
            return Place::SystemFile;
        }
        if SHARED.iter().any(|s| *s != "/var" && under(s)) {
            return Place::SharedFile;
        }
        if SYSTEM.iter().any(|s| under(s)) {
            return Place::SystemFile;
        }
        if under("/var") {
            return Place::SharedFile;
        }
        if inside(&path, &self.home).is_some() {
            return Place::HomeFile;
        }
        if inside(&path, "/root").is_some() || HOMES.iter().any(|h| under(h)) {
            return Place::OtherHome;
        }
        Place::Other
    }

    /// Secrets, start-up files and devices, wherever they lie.
    fn special(
        &self,
        path: &str,
        glob: bool,
        is: &dyn Fn(&str) -> bool,
        under: &dyn Fn(&str) -> bool,
    ) -> Option<Place> {
        if path.starts_with("/dev/tcp") || path.starts_with("/dev/udp") {
            return Some(Place::Socket);
        }
        if SYSTEM_SECRETS.iter().any(|s| under(s)) {
            return Some(Place::Secret);
        }
        let process: Vec<&str> = path.split('/').collect();
        let what = match process.as_slice() {
            ["", "proc", _, "task", _, what, ..] | ["", "proc", _, what, ..] => Some(*what),
            _ => None,
        };
        if let Some(what) = what
            && PROCESS_SECRETS.iter().any(|s| if glob { crate::pattern::matches(what, s) } else { what == *s })
        {
            return Some(Place::Secret);
        }
        if HARMLESS_DEVICES.iter().any(|d| is(d)) && !glob || under("/dev/fd") || under("/dev/pts") {
            return Some(Place::HarmlessDevice);
        }
        if under("/dev") && !is("/dev") && !TEMPORARY.iter().any(|t| under(t)) {
            return Some(Place::Device);
        }
        // With the home as workspace its start-up files stay what they are.
        let in_workspace = inside(path, &self.workspace).is_some() && self.workspace != self.home;
        let homes = [self.home.clone(), "/root".to_owned()].into_iter().chain(home_of(path));
        for home in homes {
            // The part below the home folder, with a leading slash.
            let rest = match inside(path, &home) {
                Some(rest) => format!("/{rest}"),
                None if glob && under_matches(path, &home) => {
                    let depth = home.matches('/').count() + 1;
                    path.split('/').skip(depth).map(|part| format!("/{part}")).collect()
                }
                None => continue,
            };
            // Without case, as some file systems compare names.
            let small = rest.to_lowercase();
            let under_entry = |entry: &str| {
                let entry = entry.to_lowercase();
                if glob {
                    under_matches(&rest, &entry) || under_matches(&small, &entry)
                } else {
                    small[1..].strip_prefix(&entry).is_some_and(|r| r.is_empty() || r.starts_with('/'))
                }
            };
            let listed = |list: &[&str]| list.iter().any(|entry| under_entry(entry));
            // A workspace inside a secret folder was chosen by the person.
            let chosen =
                in_workspace && !glob && inside(&self.workspace, &home).is_some_and(|w| HOME_SECRETS.contains(&w));
            if listed(HOME_SECRETS) && !chosen {
                return Some(if path.ends_with(".pub") { Place::PublicKey } else { Place::Secret });
            }
            if in_workspace {
                continue;
            }
            if listed(HOME_HISTORY) {
                return Some(Place::History);
            }
            if listed(HOME_STARTUP) {
                return Some(Place::Startup);
            }
        }
        None
    }

    /// Whether an agent, editor or tool runs or obeys the file when it starts in the workspace.
    fn obeyed(&self, text: &str, glob: bool, folder: Option<&str>) -> bool {
        let Some(path) = self.absolute(text, folder) else { return false };
        let below = inside(&path, &self.workspace).unwrap_or_default().to_lowercase();
        below.split('/').any(|part| {
            let named = |name: &&str| part == *name || glob && part.starts_with('.') && matches(part, name);
            !part.is_empty() && WORKSPACE_STARTUP.iter().any(named)
        })
    }

    pub fn delete(&self, text: &str, glob: bool, folder: Option<&str>) -> Finding {
        match self.place(text, glob, folder) {
            Place::WorkspaceFile if self.obeyed(text, glob, folder) => {
                Finding::ask(format!("deletes {text}, which an agent, editor or tool obeys"))
            }
            Place::WorkspaceFile | Place::TemporaryFile => {
                Finding::allow("deletes within the workspace or the temporary folder")
            }
            Place::WorkspaceSecret => Finding::ask(format!("deletes {text}, which may hold keys")),
            Place::Workspace => Finding::ask("deletes everything in the workspace"),
            Place::GitInternal | Place::GitRuns => Finding::ask("deletes git's own files, and with them the history"),
            Place::Temporary => Finding::ask("deletes everything in the temporary folder"),
            Place::Unknown => Finding::ask("deletes something that cannot be told from the command"),
            Place::HomeFile => Finding::ask(format!("deletes {text} in the home folder, outside the workspace")),
            Place::SharedFile | Place::Other | Place::PublicKey => {
                Finding::ask(format!("deletes {text}, outside the workspace"))
            }
            Place::Home => Finding::deny("deletes a home folder"),
            Place::OtherHome => Finding::deny("deletes in another person's home folder"),
            Place::System | Place::SystemFile | Place::SharedRoot => {
                Finding::deny(format!("deletes {text}, which belongs to the system"))
            }
            Place::Above => {
                Finding::deny(format!("deletes {text}, a folder that holds the workspace or the home folder"))
            }
            Place::HarmlessDevice | Place::Device | Place::Socket => {
                Finding::deny(format!("deletes the device {text}"))
            }
            Place::Secret => Finding::deny(format!("deletes keys or passwords ({text})")),
            Place::Startup => Finding::deny(format!("deletes the start-up file {text}")),
            Place::History => Finding::deny("deletes the history of commands"),
        }
    }

    pub fn write(&self, text: &str, glob: bool, folder: Option<&str>) -> Finding {
        match self.place(text, glob, folder) {
            Place::WorkspaceFile if self.obeyed(text, glob, folder) => {
                Finding::ask(format!("writes {text}, which an agent, editor or tool runs or obeys when it starts"))
            }
            // With it and two folders any folder is a repository, whose settings name programs.
            Place::WorkspaceFile | Place::TemporaryFile
                if self.absolute(text, folder).is_some_and(|p| p.to_lowercase().ends_with("/head")) =>
            {
                Finding::ask("writes HEAD, which makes a folder a git repository")
            }
            Place::Workspace | Place::WorkspaceFile | Place::Temporary | Place::TemporaryFile => {
                Finding::allow("writes within the workspace or the temporary folder")
            }
            Place::HarmlessDevice => Finding::allow("writes to a device that holds nothing"),
            Place::WorkspaceSecret => Finding::ask(format!("writes {text}, which may hold keys")),
            Place::GitInternal => Finding::ask("writes into git's own files"),
            Place::GitRuns => Finding::ask(format!("writes {text}, which git runs or obeys")),
            Place::Unknown => Finding::ask("writes to a file that cannot be told from the command"),
            Place::Home | Place::HomeFile => {
                Finding::ask(format!("writes {text} in the home folder, outside the workspace"))
            }
            Place::SharedRoot | Place::SharedFile | Place::Other | Place::Above | Place::PublicKey => {
                Finding::ask(format!("writes {text}, outside the workspace"))
            }
            Place::OtherHome => Finding::deny("writes in another person's home folder"),
            Place::System | Place::SystemFile => Finding::deny(format!("writes {text}, which belongs to the system")),
            Place::Device => Finding::deny(format!("writes to the device {text}")),
            Place::Socket => Finding::deny("opens a network connection by redirection, as reverse shells do"),
            Place::Secret => Finding::deny(format!("writes keys or passwords ({text})")),
            Place::Startup => Finding::deny(format!("writes {text}, which is run or obeyed at the next start")),
            Place::History => Finding::deny("rewrites the history of commands"),
        }
    }

    /// Reading: everything the jail shows may be read, but a secret is refused by name already.
    pub fn read(&self, text: &str, glob: bool, folder: Option<&str>) -> Finding {
        match self.place(text, glob, folder) {
            Place::Secret => Finding::deny(format!("reads keys or passwords ({text})")),
            Place::Socket => Finding::deny("opens a network connection by redirection, as reverse shells do"),
            Place::WorkspaceSecret => Finding::ask(format!("reads {text}, which may hold keys")),
            Place::History => Finding::ask(format!("reads {text}, the history of what was typed")),
            Place::Device => Finding::ask(format!("reads the device {text}")),
            Place::OtherHome => Finding::ask(format!("reads {text}, in another person's home folder")),
            _ => Finding::allow("only reads"),
        }
    }

    /// Reading with all that is inside: a folder that holds secrets is a question.
    pub fn read_all(&self, text: &str, glob: bool, folder: Option<&str>) -> Finding {
        let found = self.read(text, glob, folder);
        match self.place(text, glob, folder) {
            Place::Home | Place::Above | Place::System if found.verdict == crate::Verdict::Allow => {
                let path = self.absolute(text, folder).unwrap_or_default();
                let harmless = ["/usr", "/lib", "/lib64", "/bin", "/sbin", "/sys", "/boot"].contains(&path.as_str());
                if harmless { found } else { Finding::ask(format!("reads all of {text}, keys and passwords with it")) }
            }
            _ => found,
        }
    }
}

/// A path whose beginning is not known may still end in the name of a secret.
fn unknown_place(text: &str) -> Place {
    let text = format!("/{}/", text.to_lowercase());
    let secret = HOME_SECRETS.iter().any(|s| text.contains(&format!("/{}/", s.to_lowercase())));
    if secret { Place::WorkspaceSecret } else { Place::Unknown }
}

fn workspace_place(rest: &str) -> Place {
    let small = rest.to_lowercase();
    let rest = small.as_str();
    let mut parts = rest.split('/');
    if let Some(git) = rest.strip_prefix(".git") {
        match git.strip_prefix('/') {
            None if git.is_empty() => return Place::GitInternal,
            Some(inner) if GIT_RUNS.iter().any(|r| inner == *r || inside(inner, r).is_some()) => return Place::GitRuns,
            Some(_) => return Place::GitInternal,
            None => {}
        }
    }
    if parts.any(|p| p.ends_with(".git")) {
        return Place::GitInternal;
    }
    let name = rest.rsplit('/').next().unwrap_or(rest);
    if WORKSPACE_SECRETS.contains(&name) { Place::WorkspaceSecret } else { Place::WorkspaceFile }
}

/// The rest of `path` below `folder`.
pub(crate) fn inside<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    path.strip_prefix(folder).and_then(|rest| if folder == "/" { Some(rest) } else { rest.strip_prefix('/') })
}

fn above(path: &str, folder: &str) -> bool {
    inside(folder, path).is_some()
}

/// `/home/anybody` of a path below it.
fn home_of(path: &str) -> Option<String> {
    let mut parts = path.split('/');
    let (_, homes, user) = (parts.next()?, parts.next()?, parts.next()?);
    HOMES.contains(&format!("/{homes}").as_str()).then(|| format!("/{homes}/{user}"))
}
