//! Lines that match a pattern, in the files below a folder; what .gitignore names is left out. Each file is opened as
//! any other that is read: beneath what is granted, never by a link.

use super::ToolError;
use crate::broker::Files;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, sinks};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Longer files are not looked into.
const MOST_FILE: usize = 8 << 20;
/// Files looked into, at most.
const MOST_FILES: usize = 50_000;
/// Characters shown of one line.
const LINE_CHARS: usize = 400;

/// What to look for.
#[derive(Debug, Clone)]
pub struct SearchWish {
    /// Absolute; a folder, or one file.
    pub root: PathBuf,
    /// A regular expression.
    pub pattern: String,
    pub ignore_case: bool,
    /// Only files whose name fits, such as `*.rs`.
    pub glob: Option<String>,
    /// Matches given, at most.
    pub most: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Below the root of the search; the file's own name where the root is a file.
    pub path: PathBuf,
    /// From 1.
    pub line: u64,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Searched {
    pub matches: Vec<Match>,
    /// Files looked into.
    pub files: usize,
    /// There is more than was given or looked into.
    pub more: bool,
}

pub(super) fn run(files: &Files, wish: &SearchWish, cancel: &CancellationToken) -> Result<Searched, ToolError> {
    let wrong = |message: String| ToolError::new("TypeError", message);
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(wish.ignore_case)
        .line_terminator(Some(b'\n'))
        .build(&wish.pattern)
        .map_err(|e| wrong(format!("the pattern is no regular expression: {e}")))?;
    let mut walk = WalkBuilder::new(&wish.root);
    // Only what lies below counts, also where there is no git repository.
    walk.follow_links(false).parents(false).git_global(false).require_git(false).hidden(false);
    walk.filter_entry(|entry| entry.file_name() != ".git");
    walk.sort_by_file_path(Ord::cmp);
    if let Some(glob) = &wish.glob {
        let mut overrides = OverrideBuilder::new(&wish.root);
        overrides.add(glob).map_err(|e| wrong(format!("the glob cannot be used: {e}")))?;
        walk.overrides(overrides.build().map_err(|e| wrong(format!("the glob cannot be used: {e}")))?);
    }
    // Asked first, so that a refusal is told instead of an empty result.
    files.reachable_root(&wish.root.to_string_lossy())?;
    let mut searcher = SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).line_number(true).build();
    let mut found = Searched::default();
    for entry in walk.build() {
        if cancel.is_cancelled() {
            return Err(ToolError::new("CancelledError", "cancelled"));
        }
        // What cannot be looked at is left out, as it is in a listing.
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        if found.files >= MOST_FILES {
            found.more = true;
            break;
        }
        let Some(path) = entry.path().to_str() else { continue };
        let Ok((_, bytes)) = files.read(path, MOST_FILE) else { continue };
        found.files += 1;
        let below = entry.path().strip_prefix(&wish.root).unwrap_or(entry.path()).to_owned();
        let below = if below.as_os_str().is_empty() { PathBuf::from(entry.file_name()) } else { below };
        if !lines(&mut searcher, &matcher, &bytes, below, wish.most, &mut found)? {
            found.more = true;
            break;
        }
    }
    Ok(found)
}

/// False: there is no room for another match.
fn lines(
    searcher: &mut Searcher,
    matcher: &grep_regex::RegexMatcher,
    bytes: &[u8],
    path: PathBuf,
    most: usize,
    found: &mut Searched,
) -> Result<bool, ToolError> {
    let mut room = true;
    let sink = sinks::Lossy(|line, text| {
        if found.matches.len() >= most {
            room = false;
            return Ok(false);
        }
        let text: String = text.trim_end_matches(['\n', '\r']).chars().take(LINE_CHARS).collect();
        found.matches.push(Match { path: path.clone(), line, text });
        Ok(true)
    });
    searcher
        .search_slice(matcher, bytes, sink)
        .map_err(|e| ToolError::new("Error", format!("the search failed: {e}")))?;
    Ok(room)
}
