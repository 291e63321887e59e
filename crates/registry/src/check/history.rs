//! The git repository of the workspace.

use super::{Cure, Level, Trouble, words};
use crate::git::{Git, INDEX, lock_files, marked};
use crate::middle::{Middle, git_dir};
use git2::{BranchType, ObjectType, Oid};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Git holds a lock for moments, an editor for the message of a commit for minutes.
const STALE: Duration = Duration::from_secs(600);
/// Commits that are looked at, the newest first.
const COMMITS: usize = 20_000;

pub(super) fn check(root: &Path, found: &mut Vec<Trouble>) {
    let about = |level, problem: String, todo: &str| Trouble::new("git", level, problem, todo);
    if std::fs::symlink_metadata(root.join(".git")).is_err() {
        if root.join(INDEX).exists() {
            let problem = "the workspace has no git history, so no earlier version can be looked at or put back; the \
                           next registration begins one";
            found.push(about(Level::Weak, problem.to_owned(), "").cured(Cure::NewHistory));
        }
        return;
    }
    locks(root, found);
    if let Some((text, branch)) = bad_head(root) {
        let problem = format!("git's HEAD cannot be read (it says `{text}`), so nothing can be registered");
        let trouble = about(Level::Broken, problem, "write the branch into .git/HEAD: ref: refs/heads/NAME");
        return found.push(match branch {
            Some(branch) => trouble.cured(Cure::Head(branch)),
            None => trouble,
        });
    }
    let git = match Git::open(root) {
        Ok(Some(git)) => git,
        Ok(None) => {
            let problem = "`.git` is no repository, so nothing can be registered and no earlier version be seen";
            return found.push(about(Level::Broken, problem.to_owned(), "").cured(Cure::NewHistory));
        }
        Err(error) => {
            let (problem, todo) = words(&error);
            return found.push(about(Level::Broken, problem, &todo).cured(Cure::NewHistory));
        }
    };
    if let Some(middle) = Middle::of(root) {
        in_the_middle(&git, middle, found);
    }
    if let Err(error) = git.head() {
        return found.push(lost_tip(&git, &error));
    }
    // Killed in the middle of its first commit, jarvis makes it again with the next write.
    if let Some(branch) = git.lost_branch().filter(|_| !marked(root)) {
        let branch = branch.trim_start_matches("refs/heads/");
        let problem = format!(
            "the branch {branch}, which HEAD names, is missing while its commits are there, so nothing can be \
             registered and no earlier version be seen"
        );
        return found.push(back(&git, problem));
    }
    if let Err(error) = git.staging() {
        let path = git.repo().path().join("index");
        let problem = format!("git's staging area cannot be read ({}), so nothing can be committed", error.message());
        let todo = format!("move {} away, then: git -C {} reset", path.display(), root.display());
        let trouble = Trouble::new("git", Level::Broken, problem, todo);
        // In the middle of something it holds what was settled so far, and is in no commit.
        found.push(if Middle::of(root).is_some() { trouble } else { trouble.cured(Cure::Staging) });
    }
    if !objects(&git, found) {
        return;
    }
    if git.repo().head_detached().unwrap_or(false) && Middle::of(root).is_none() {
        let problem = "HEAD is on no branch: what is registered now is lost from sight with the next checkout";
        let trouble = about(Level::Weak, problem.to_owned(), "git switch -c NAME");
        found.push(trouble.cured(Cure::Attach(branch_behind(&git))));
    }
}

fn locks(root: &Path, found: &mut Vec<Trouble>) {
    // With jarvis's own mark they are its own, and the next write removes them.
    if marked(root) {
        return;
    }
    for path in git_dir(root).map(|git| lock_files(&git)).unwrap_or_default() {
        let age = std::fs::metadata(&path)
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok())
            .unwrap_or_default();
        let minutes = age.as_secs() / 60;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let problem = format!("git is locked by {name} for {minutes} minutes; nothing can be committed meanwhile");
        let todo = format!("if no git is at work in {} any more: rm {}", root.display(), path.display());
        found.push(if age >= STALE {
            let problem = format!("{problem}: whoever made it has been killed");
            Trouble::new("git", Level::Broken, problem, todo).cured(Cure::StaleLock(path))
        } else {
            Trouble::new("git", Level::Weak, problem, todo)
        });
    }
}

/// What stands in a HEAD that says nothing, and the branch that it must have meant.
fn bad_head(root: &Path) -> Option<(String, Option<String>)> {
    let git = git_dir(root)?;
    let bytes = std::fs::read(git.join("HEAD"));
    let text = bytes.as_ref().map(|b| String::from_utf8_lossy(b).trim().to_owned()).unwrap_or_default();
    if text.starts_with("ref: refs/") || Oid::from_str(&text).is_ok() && text.len() >= 40 {
        return None;
    }
    // A folder without these was never a repository.
    if !git.join("objects").is_dir() || !git.join("refs").is_dir() {
        return None;
    }
    let heads = std::fs::read_dir(git.join("refs/heads")).into_iter().flatten().flatten();
    let mut branches: Vec<String> = heads.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    let packed = std::fs::read_to_string(git.join("packed-refs")).unwrap_or_default();
    branches.extend(packed.lines().filter_map(|line| Some(line.split_once(" refs/heads/")?.1.to_owned())));
    branches.sort();
    branches.dedup();
    let branch = match branches.as_slice() {
        [one] => Some(one.clone()),
        several => several.iter().find(|branch| *branch == "main").cloned(),
    };
    let shown: String = text.chars().take(60).collect();
    Some((shown, branch))
}

fn in_the_middle(git: &Git, middle: Middle, found: &mut Vec<Trouble>) {
    let root = git.root();
    let what = middle.as_str();
    let problem = format!(
        "git is in the middle of a {what}: nothing is registered until it ends, so that no commit of jarvis gets into it; \
         what is registered goes on working"
    );
    let trouble = Trouble::new("git", Level::Broken, problem, middle.way_out(root));
    found.push(match (git.plan(middle, ""), git.unmerged()) {
        (Ok(Some(plan)), _) => {
            // What is left to choose is told entry by entry, and done by hand.
            let pending = plan.choices.written.is_none() || plan.conflicts().is_empty();
            match (pending, plan.conflicts().len()) {
                (true, _) => trouble.cured(Cure::Merge(middle)),
                (false, n) => Trouble {
                    todo: format!("choose for the {n} in conflict: jarvis cap merge NAME --ours, or --theirs"),
                    ..trouble
                },
            }
        }
        (Ok(None), Ok((ours, others))) if middle == Middle::Merge && ours.is_empty() && others.is_empty() => {
            trouble.cured(Cure::Merge(middle))
        }
        (Ok(None), _) => trouble,
        (Err(error), _) => {
            Trouble { problem: format!("{}; its capabilities cannot be merged: {error}", trouble.problem), ..trouble }
        }
    });
}

/// HEAD names a commit that is not there or cannot be read.
fn lost_tip(git: &Git, error: &git2::Error) -> Trouble {
    back(git, format!("the last commit cannot be read ({}), so nothing can be registered", error.message()))
}

fn back(git: &Git, problem: String) -> Trouble {
    let trouble = Trouble::new("git", Level::Broken, problem, "");
    trouble.cured(git.last_whole().map_or(Cure::NewHistory, Cure::Tip))
}

/// False where the last commit is not whole.
fn objects(git: &Git, found: &mut Vec<Trouble>) -> bool {
    let Ok(Some(head)) = git.head() else { return true };
    let tree = match head.tree() {
        Ok(tree) => tree,
        Err(error) => {
            found.push(lost_tip(git, &error));
            return false;
        }
    };
    let mut whole = true;
    for (id, path) in git.broken(&tree) {
        whole = false;
        let problem = format!("git's copy of {path} is damaged or missing (object {id:.10})");
        let todo = format!("fetch it from where it was pushed to, or register {path} again");
        let trouble = Trouble::new("git", Level::Broken, problem, todo);
        let here = std::fs::read(git.root().join(&path)).ok();
        let same = here.is_some_and(|bytes| Oid::hash_object(ObjectType::Blob, &bytes).is_ok_and(|have| have == id));
        found.push(if same { trouble.cured(Cure::Object(id, path)) } else { trouble });
    }
    if let Err(error) = commits(git) {
        let problem = format!("versions before a damaged commit can not be looked at: {}", error.message());
        found.push(Trouble::new("git", Level::Weak, problem, "fetch the history from where it was pushed to"));
    }
    whole
}

fn commits(git: &Git) -> Result<(), git2::Error> {
    let mut walk = git.repo().revwalk()?;
    walk.push_head()?;
    walk.take(COMMITS).try_for_each(|id| git.repo().find_commit(id?).map(|_| ()))
}

/// A branch that HEAD has left behind, and that can be brought up without losing anything.
fn branch_behind(git: &Git) -> Option<String> {
    let head = git.head().ok()??.id();
    let branches = git.repo().branches(Some(BranchType::Local)).ok()?.flatten();
    let mut behind: Vec<String> = branches
        .filter_map(|(branch, _)| {
            let tip = branch.get().peel_to_commit().ok()?.id();
            let reached = tip == head || git.repo().graph_descendant_of(head, tip).unwrap_or(false);
            if reached { branch.name().ok().flatten().map(str::to_owned) } else { None }
        })
        .collect();
    behind.sort_by_key(|name| name != "main");
    behind.into_iter().next()
}
