//! The rules there are: files of the workspace and of the home, read again when they change. A file that cannot be read
//! makes everything be asked for, so that a broken one opens nothing.

use crate::folders::{Broken, Collection, Each, Folders, Found, Origin};
use crate::{ApprovalRequest, Approver, CallError, Dispatch};
use jarvis_policy::{
    Approval, Attempt, Compiled, Deny, Effect, Given, PERMISSIONS, Pattern, Reach, Reached, RuleFile, Ruling,
    SimpleCommand, judge,
};
use jarvis_protocol::{ErrorBody, ErrorKind, Grants};
use jarvis_shell::{Context, classify};
use serde::Serialize;
use std::collections::HashSet;
use std::io::{ErrorKind as IoError, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

static COLLECTION: Collection = Collection { many: "rules", each: Each::File(&["yaml", "yml"]), built_in: &[] };

/// Digests of files in which a person allowed something, one a line.
const ALLOWED: &str = ".allowed";

/// One file with its rules.
#[derive(Debug, Clone, Serialize)]
pub struct KeptRules {
    pub path: PathBuf,
    /// Of the person's home; else of the workspace.
    pub own: bool,
    /// Its `allow` counts: it is the person's own file, or they said yes to just this one.
    pub may_allow: bool,
    #[serde(flatten)]
    pub file: RuleFile,
    #[serde(skip)]
    compiled: Vec<Compiled>,
}

/// All there is.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RuleBook {
    pub files: Vec<KeptRules>,
    pub broken: Vec<Broken>,
}

/// What was read last, with what the files were then.
type LastRead = (Stamps, Arc<RuleBook>);

/// Where they lie. Cheap to clone; clones share what was read.
#[derive(Debug, Clone)]
pub struct Rules {
    folders: Folders,
    read: Arc<Mutex<Option<LastRead>>>,
}

/// By which a change is seen.
type Stamps = Vec<(PathBuf, Option<(u64, i64, i64, u64)>)>;

impl Rules {
    /// `home` is the folder of rules in jarvis's home; in a workspace they lie in `.jarvis/rules`.
    pub fn new(workspace: &Path, home: &Path) -> Rules {
        Rules { folders: Folders::new(&COLLECTION, workspace, home), read: Arc::default() }
    }

    /// As they are now.
    pub fn book(&self) -> Arc<RuleBook> {
        let stamps = self.stamps();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, book)) = read.as_ref()
            && *at == stamps
        {
            return Arc::clone(book);
        }
        let book = Arc::new(self.load());
        *read = Some((stamps, Arc::clone(&book)));
        book
    }

    /// What a person said yes to: the `allow` of just this file counts from now on.
    pub fn allow(&self, bytes: &[u8]) -> std::io::Result<()> {
        std::fs::create_dir_all(self.folders.of_home())?;
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(self.folders.of_home().join(ALLOWED))?;
        // One write, so that two processes do not mix their lines.
        file.write_all(format!("{}\n", digest(bytes)).as_bytes())?;
        file.sync_all()
    }

    fn stamps(&self) -> Stamps {
        let mut stamps = Vec::new();
        for folder in [self.folders.of_workspace(), self.folders.of_home().to_owned()] {
            let about = |path: &Path| {
                let about = path.symlink_metadata().ok()?;
                Some((about.len(), about.mtime(), about.mtime_nsec(), about.ino()))
            };
            let mut paths: Vec<PathBuf> =
                std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            paths.sort();
            let above = folder.parent().unwrap_or(&folder).to_owned();
            stamps.extend([above, folder].into_iter().chain(paths).map(|path| (path.clone(), about(&path))));
        }
        stamps
    }

    fn load(&self) -> RuleBook {
        let mut book = RuleBook::default();
        let allowed = self.allowed(&mut book);
        let (mut listed, broken) = self.folders.list();
        book.broken.extend(broken);
        // The person's own first: where an id is there twice, the file of the workspace is the one that does not count.
        listed.sort_by_key(|found| found.origin != Origin::Home);
        for found in &listed {
            let Some(path) = &found.path else { continue };
            let kept = kept(found, path, &allowed);
            match kept.and_then(|kept| conflict(&book, &kept).map_or(Ok(kept), Err)) {
                Ok(kept) => book.files.push(kept),
                Err(problem) => book.broken.push(Broken { path: path.clone(), problem }),
            }
        }
        book
    }

    fn allowed(&self, book: &mut RuleBook) -> HashSet<String> {
        let path = self.folders.of_home().join(ALLOWED);
        match std::fs::read_to_string(&path) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(error) if error.kind() == IoError::NotFound => HashSet::new(),
            Err(error) => {
                book.broken.push(Broken { path, problem: error.to_string() });
                HashSet::new()
            }
        }
    }
}

impl RuleBook {
    /// The file of a rule.
    pub fn path_of(&self, id: &str) -> Option<&Path> {
        self.files.iter().find(|kept| kept.file.rules.iter().any(|rule| rule.id == id)).map(|kept| kept.path.as_path())
    }

    /// What they together say; none: nothing.
    pub fn judge(&self, attempt: &Attempt) -> Option<Ruling> {
        let counting = self.files.iter().flat_map(|kept| {
            kept.compiled.iter().filter(|rule| kept.may_allow || rule.rule().action.effect() != Effect::Allow)
        });
        let ruling = judge(counting, attempt);
        let Some(broken) = self.broken.first() else { return ruling };
        if ruling.as_ref().is_some_and(|ruling| ruling.effect >= Effect::Ask) {
            return ruling;
        }
        let name = broken.path.display();
        let reason = format!("the rules in {name} cannot be read ({}), so everything is asked for", broken.problem);
        Some(Ruling { effect: Effect::Ask, rule: name.to_string(), reason })
    }
}

/// Reads one file of rules, and decides the examples of each. The error is for whoever wrote it.
pub fn check_rules(bytes: &[u8], workspace: &Path, home: &Path) -> Result<RuleFile, String> {
    let (file, compiled) = parse(bytes)?;
    for rule in &compiled {
        check_examples(rule, workspace, home)?;
    }
    Ok(file)
}

/// One that holds and one that does not, at least; each as the rule itself decides it.
fn check_examples(rule: &Compiled, workspace: &Path, home: &Path) -> Result<(), String> {
    let id = &rule.rule().id;
    for example in &rule.rule().examples {
        let held = rule.matches(&attempt_of(&example.given, workspace, home));
        if held != example.expect {
            let given = serde_json::to_string(&example.given).unwrap_or_default();
            let says = if held { "holds" } else { "does not hold" };
            return Err(format!("rule `{id}`: the condition {says} for its example {given}, which expects otherwise"));
        }
    }
    for expect in [true, false] {
        if !rule.rule().examples.iter().any(|example| example.expect == expect) {
            return Err(format!("rule `{id}` has no example with expect: {expect}; one of each is needed"));
        }
    }
    Ok(())
}

/// An example as the call that it stands for.
pub fn attempt_of(given: &Given, workspace: &Path, home: &Path) -> Attempt {
    Attempt {
        tools: vec![given.tool.clone()],
        paths: given.path.as_ref().map(|path| places(path, workspace)).unwrap_or_default(),
        hosts: given.host.as_ref().map(|host| vec![plain_host(host)]).unwrap_or_default(),
        commands: given.command.as_ref().map(|line| commands(line, workspace, workspace, home)).unwrap_or_default(),
        ..Attempt::default()
    }
}

fn kept(found: &Found, path: &Path, allowed: &HashSet<String>) -> Result<KeptRules, String> {
    let text = found.read()?;
    let (file, compiled) = parse(text.as_bytes())?;
    let own = found.origin == Origin::Home;
    let may_allow = own || allowed.contains(&digest(text.as_bytes()));
    Ok(KeptRules { path: path.to_owned(), own, may_allow, file, compiled })
}

fn parse(bytes: &[u8]) -> Result<(RuleFile, Vec<Compiled>), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no UTF-8 text".to_owned())?;
    let file: RuleFile = serde_saphyr::from_str(text)
        .map_err(|e| format!("it is no YAML of rules: {}", e.to_string().lines().next().unwrap_or_default()))?;
    if file.domain != PERMISSIONS {
        return Err(format!("the domain `{}` is not known; it is {PERMISSIONS}", file.domain));
    }
    let mut compiled = Vec::new();
    for rule in &file.rules {
        let id = rule.id.clone();
        compiled.push(Compiled::new(rule.clone()).map_err(|problem| format!("rule `{id}`: {problem}"))?);
    }
    Ok((file, compiled))
}

/// Ids are used once.
fn conflict(book: &RuleBook, kept: &KeptRules) -> Option<String> {
    let mut seen = HashSet::new();
    kept.file.rules.iter().find_map(|rule| {
        let other = book.files.iter().find(|other| other.file.rules.iter().any(|r| r.id == rule.id));
        let twice = !seen.insert(&rule.id);
        let other = other.map(|other| other.path.display().to_string());
        let (a, b) = (other.or(twice.then(|| kept.path.display().to_string()))?, kept.path.display());
        Some(format!("[RULE_CONFLICT] rule-id {} duplicated in file {a} and {b}", rule.id))
    })
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// A path as rules may name it: absolute, and relative where it lies in the workspace.
fn places(path: &str, workspace: &Path) -> Vec<String> {
    places_from(path, workspace, workspace)
}

/// The same of one that is relative to this folder.
fn places_from(path: &str, folder: &Path, workspace: &Path) -> Vec<String> {
    let full = full_path(path, folder);
    let below = full.strip_prefix(workspace).ok().map(|below| below.to_string_lossy().into_owned());
    below.into_iter().chain([full.to_string_lossy().into_owned()]).collect()
}

/// Where a path that is relative to the workspace leads, by its words alone: no link is followed.
pub fn full_path(path: &str, workspace: &Path) -> PathBuf {
    let mut full = if Path::new(path).is_absolute() { PathBuf::from("/") } else { workspace.to_owned() };
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => full.push(name),
            Component::ParentDir => {
                full.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    full
}

fn plain_host(host: &str) -> String {
    let name =
        host.rsplit_once(':').filter(|(_, port)| port.chars().all(|c| c.is_ascii_digit())).map_or(host, |(h, _)| h);
    name.trim_end_matches('.').to_lowercase()
}

/// An attempt at what a grant reaches.
fn to_host(attempt: &Attempt, grant: &str) -> Attempt {
    let mut attempt = attempt.clone();
    match Pattern::parse(grant).map(|pattern| pattern.reached()) {
        Ok(Reached::One(host)) => attempt.hosts.push(host),
        Ok(Reached::Ending(ending)) => attempt.endings.push(ending),
        Err(_) => attempt.hosts.push(plain_host(grant)),
    }
    attempt
}

/// The simple commands of a line that begins in `dir`, each with the places that its words name.
fn commands(line: &str, dir: &Path, workspace: &Path, home: &Path) -> Vec<SimpleCommand> {
    let found = classify(line, &Context { workspace, home }).commands;
    // A word may be meant from any folder that the line goes to.
    let mut folders = vec![dir.to_owned()];
    let mut commands = Vec::new();
    for command in found {
        if ["cd", "pushd"].contains(&command.program.as_str())
            && let Some(to) = command.args.iter().find(|arg| !arg.starts_with('-'))
        {
            folders.extend(folders.clone().iter().map(|folder| full_path(to, folder)));
            folders.dedup();
            folders.truncate(64);
        }
        let words = || command.args.iter().filter(|arg| !arg.starts_with('-'));
        let from =
            |arg: &String| folders.iter().flat_map(|folder| places_from(arg, folder, workspace)).collect::<Vec<_>>();
        let is_folder = |arg: &&String| folders.iter().any(|folder| full_path(arg, folder).is_dir());
        commands.push(SimpleCommand {
            paths: words().flat_map(from).collect(),
            folders: words().filter(is_folder).flat_map(from).collect(),
            unknown: command.program.contains('…'),
            unknown_args: command.args.iter().any(|arg| arg.contains('…')),
            program: command.program,
            args: command.args,
        });
    }
    if commands.is_empty() {
        // A line that nobody could take apart may be anything.
        commands.push(SimpleCommand { program: line.to_owned(), unknown: true, ..SimpleCommand::default() });
    }
    commands
}

impl Dispatch {
    pub fn rules(&self) -> &Rules {
        &self.parts.rules
    }

    /// As [`check_rules`], for this workspace.
    pub fn check_rules(&self, bytes: &[u8]) -> Result<RuleFile, String> {
        let home = self.parts.home.clone().unwrap_or_else(|| PathBuf::from("/"));
        check_rules(bytes, self.workspace(), &home)
    }

    /// What rules say to a file, a host, or something that is made.
    pub(crate) fn ruling_of(&self, tool: &str, reach: &Reach) -> Option<Ruling> {
        let mut attempt = Attempt { tools: vec![tool.to_owned()], ..Attempt::default() };
        match reach {
            Reach::Read { path, .. } | Reach::Write { path, .. } | Reach::Make { path, .. } => {
                attempt.paths = places(path, self.workspace());
            }
            Reach::Fetch { host, .. } => attempt.hosts.push(plain_host(host)),
        }
        self.parts.rules.book().judge(&attempt)
    }

    /// What they say to a command line, and the hosts that it wants.
    pub(crate) fn ruling_of_line(&self, tool: &str, (line, dir): (&str, &Path), hosts: &[String]) -> Option<Ruling> {
        let home = self.parts.home.clone().unwrap_or_else(|| PathBuf::from("/"));
        let book = self.parts.rules.book();
        let attempt = Attempt {
            tools: vec![tool.to_owned()],
            commands: commands(line, dir, self.workspace(), &home),
            ..Attempt::default()
        };
        // Each host on its own: what one may, the other may not.
        let hosted = hosts.iter().map(|host| to_host(&attempt, host));
        let all = std::iter::once(attempt.clone()).chain(hosted).map(|attempt| book.judge(&attempt));
        // The worst of them; allowed only where nothing else is said.
        all.flatten().max_by_key(|ruling| ruling.effect)
    }

    /// What they say to a tool by its name alone, before it is called. A person is asked where a rule says so.
    pub async fn gate(&self, tool: &str, approver: &mut dyn Approver) -> Result<(), CallError> {
        let attempt = Attempt { tools: vec![tool.to_owned()], ..Attempt::default() };
        let Some(ruling) = self.parts.rules.book().judge(&attempt) else { return Ok(()) };
        match (ruling.effect, self.policy().approval) {
            (Effect::Allow, _) => Ok(()),
            (Effect::Ask, Approval::Auto) => self.record_decision(tool, "allowed by --approve auto", &ruling.reason),
            (Effect::Ask, Approval::Ask) => {
                let question = ApprovalRequest {
                    id: format!("{tool}-{}", self.now().as_millisecond()),
                    capability: tool.to_owned(),
                    grants: Grants::default(),
                    reason: ruling.reason.clone(),
                    before: None,
                    lasting: false,
                    call: None,
                };
                let allowed = approver.ask(&question).await;
                let decision = if allowed { "allowed by a person" } else { "nobody allowed it" };
                self.record_decision(tool, decision, &ruling.reason)?;
                if allowed {
                    return Ok(());
                }
                let body = ErrorBody::new(ErrorKind::Denied, format!("nobody allowed it: {}", ruling.reason));
                Err(CallError::RespondToModel(body.hint("run it where you can be asked, or with --approve auto")))
            }
            (Effect::Ask, Approval::Deny) | (Effect::Deny, _) => Err(self.refused(tool, denied(ruling))?),
        }
    }

    /// The same for a capability, by its name and the hosts it may reach. Nobody can be asked there, so what would be
    /// asked is refused, unless everything was allowed beforehand.
    pub(crate) fn gate_capability(&self, name: &str, grants: &Grants) -> Result<(), CallError> {
        let book = self.parts.rules.book();
        let bare = Attempt { tools: vec![name.to_owned()], ..Attempt::default() };
        // That one is run at all was asked by the tool's own name; what it reaches was not.
        let tools = vec![name.to_owned(), "execute_capability".to_owned()];
        let attempt = Attempt { tools, ..Attempt::default() };
        let hosted = grants.network.iter().map(|host| to_host(&attempt, host));
        let placed = grants.read.iter().chain(&grants.write).map(|path| (path, places(path, self.workspace()))).map(
            |(path, places)| match full_path(path, self.workspace()).is_file() {
                true => Attempt { paths: places, ..attempt.clone() },
                false => Attempt { folders: places.clone(), paths: places, ..attempt.clone() },
            },
        );
        let all = std::iter::once(bare).chain(hosted).chain(placed).filter_map(|attempt| book.judge(&attempt));
        let Some(ruling) = all.max_by_key(|ruling| ruling.effect) else { return Ok(()) };
        match ruling.effect {
            Effect::Allow => Ok(()),
            Effect::Ask if self.policy().approval == Approval::Auto => {
                self.record_decision(name, "allowed by --approve auto", &ruling.reason)
            }
            Effect::Ask | Effect::Deny => Err(self.refused(name, denied(ruling))?),
        }
    }
}

fn denied(ruling: Ruling) -> Deny {
    let hint = match ruling.effect {
        Effect::Deny | Effect::Allow => "`jarvis rule list` shows the rules; a person can change them",
        Effect::Ask => "a person would have to be asked; `jarvis rule list` shows the rules",
    };
    Deny { reason: ruling.reason, hint: Some(hint.to_owned()) }
}
