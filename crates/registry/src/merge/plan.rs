//! What the merge of the two sides comes to, entry by entry. Looks only.

use super::entry::{Item, Outcome, settled, three_way};
use super::{Choices, MergeConflict, Side};
use crate::RegistryError;
use crate::git::{Git, INDEX, blob_id};
use crate::index::{Document, ParseError};
use crate::middle::Middle;
use crate::recover::clean;
use git2::{Commit, Oid};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// The commits that git is bringing together, as a person sees them: theirs is what came. Git's own words are the other
/// way round in a rebase, where it puts the person's commits upon the others.
pub(crate) struct Sides {
    pub middle: Middle,
    pub base: Option<Oid>,
    pub ours: Oid,
    pub theirs: Oid,
    /// How what came is called.
    words: String,
}

pub(crate) struct Row {
    pub key: String,
    pub ours: Option<Item>,
    pub theirs: Option<Item>,
    pub outcome: Outcome,
}

pub(crate) struct Plan {
    pub sides: Sides,
    pub document: Document,
    pub rows: Vec<Row>,
    pub choices: Choices,
    /// How the other side is called.
    pub words: String,
    pub now: String,
}

/// An entry as the plan leaves it, and the side that its code comes from.
pub(crate) struct Final {
    pub raw: Box<RawValue>,
    pub code: Side,
}

impl Git {
    /// None where git is in the middle of nothing that has two sides.
    fn sides(&self, middle: Middle) -> Result<Option<Sides>, git2::Error> {
        let read = |file: &str| -> Option<Oid> {
            let text = std::fs::read_to_string(self.repo().path().join(file)).ok()?;
            let mut lines = text.lines();
            let id = Oid::from_str(lines.next()?.trim()).ok()?;
            // More than one line: a merge of several branches at once, which is left to the person.
            lines.next().is_none().then_some(id)
        };
        let parent = |id: Oid| self.repo().find_commit(id).and_then(|c| c.parent_id(0)).ok();
        let Some(head) = self.head()?.map(|c: Commit<'_>| c.id()) else { return Ok(None) };
        let found = match middle {
            Middle::Merge => read("MERGE_HEAD").map(|id| (self.repo().merge_base(head, id).ok(), id)),
            Middle::Rebase => read("REBASE_HEAD").map(|id| (parent(id), id)),
            Middle::CherryPick => read("CHERRY_PICK_HEAD").map(|id| (parent(id), id)),
            Middle::Revert => read("REVERT_HEAD").and_then(|id| Some((Some(id), parent(id)?))),
            Middle::Bisect | Middle::Patches => None,
        };
        let short = |id: Oid| format!("{:.10}", id.to_string());
        Ok(found.map(|(base, picked)| {
            if middle != Middle::Rebase {
                return Sides { middle, base, ours: head, theirs: picked, words: short(picked) };
            }
            // HEAD may be a commit of the person's already, put upon what came.
            let came = read("rebase-merge/onto").or_else(|| read("rebase-apply/onto")).unwrap_or(head);
            Sides { middle, base, ours: picked, theirs: head, words: short(came) }
        }))
    }

    /// Paths in conflict that are jarvis's own; and all the others.
    pub fn unmerged(&self) -> Result<(Vec<String>, Vec<String>), RegistryError> {
        let read = || -> Result<Vec<String>, git2::Error> {
            let mut index = self.repo().index()?;
            index.read(false)?;
            let mut paths = Vec::new();
            for conflict in index.conflicts()? {
                let conflict = conflict?;
                let side = conflict.our.or(conflict.their).or(conflict.ancestor);
                paths.extend(side.map(|entry| String::from_utf8_lossy(&entry.path).into_owned()));
            }
            Ok(paths)
        };
        let paths = read().map_err(|e| self.error(e))?;
        Ok(paths.into_iter().partition(|path| path == INDEX || path.starts_with("tools/")))
    }

    /// None where nothing of jarvis's is in conflict.
    pub fn plan(&self, middle: Middle, now: &str) -> Result<Option<Plan>, RegistryError> {
        let (unmerged, _) = self.unmerged()?;
        if unmerged.is_empty() {
            return Ok(None);
        }
        let Some(sides) = self.sides(middle).map_err(|e| self.error(e))? else { return Ok(None) };
        let (_, base) = match sides.base {
            Some(id) => self.items(id, "the common ancestor")?,
            None => (Document::empty(), Vec::new()),
        };
        let (our_document, ours) = self.items(sides.ours, "this side")?;
        let (their_document, theirs) = self.items(sides.theirs, "the other side")?;
        let words = sides.words.clone();
        let map = |items: &[(String, Item)]| items.iter().cloned().collect::<HashMap<String, Item>>();
        let (base, ours_by, theirs_by) = (map(&base), map(&ours), map(&theirs));
        // The order is that of HEAD, which the next commit is put upon.
        let (document, first, then) = match middle {
            Middle::Rebase => (their_document, theirs, ours),
            _ => (our_document, ours, theirs),
        };
        let known = map(&first);
        let added = then.into_iter().filter(|(key, _)| !known.contains_key(key));
        let mut rows: Vec<Row> = Vec::new();
        for (key, _) in first.into_iter().chain(added) {
            let (ours, theirs) = (ours_by.get(&key).cloned(), theirs_by.get(&key).cloned());
            let outcome = three_way(base.get(&key), ours.as_ref(), theirs.as_ref(), &words, now);
            rows.push(Row { key, ours, theirs, outcome });
        }
        let choices = Choices::read(self, &sides);
        Ok(Some(Plan { sides, document, rows, choices, words, now: now.to_owned() }))
    }

    /// The entries of a commit by name, in order.
    fn items(&self, commit: Oid, what: &str) -> Result<(Document, Vec<(String, Item)>), RegistryError> {
        let Some(bytes) = self.content(Some(&commit.to_string()), INDEX)? else {
            return Ok((Document::empty(), Vec::new()));
        };
        let document = Document::parse(&bytes).map_err(|e| RegistryError::Git {
            root: self.root().to_owned(),
            message: match e {
                ParseError::Damaged(problem) => format!("index.json of {what} ({commit:.10}) is damaged: {problem}"),
                ParseError::Newer(format) => format!("index.json of {what} has format {format}, which is newer"),
            },
        })?;
        let tree = self.repo().find_commit(commit).and_then(|c| c.tree()).map_err(|e| self.error(e))?;
        let mut items: Vec<(String, Item)> = Vec::with_capacity(document.entries.len());
        let mut seen: HashMap<String, usize> = HashMap::new();
        for raw in &document.entries {
            let value: Value = serde_json::from_str(raw.get()).unwrap_or(Value::Null);
            let text = |key: &str| value.get(key).and_then(Value::as_str);
            let name = text("name").map_or_else(|| format!("#{}", raw.get()), str::to_owned);
            let times = seen.entry(name.clone()).or_default();
            *times += 1;
            let key = if *times == 1 { name } else { format!("{name}#{times}") };
            let path = clean(text("tool_path").unwrap_or_default());
            let code = if path.is_empty() { None } else { blob_id(&tree, &path).map_err(|e| self.error(e))? };
            items.push((key, Item { raw: raw.clone(), value, path, code }));
        }
        Ok((document, items))
    }
}

impl Plan {
    /// What is still to be chosen.
    pub fn conflicts(&self) -> Vec<MergeConflict> {
        let open = self.rows.iter().filter(|row| !self.choices.made.contains_key(&row.key));
        open.filter_map(|row| match &row.outcome {
            Outcome::Conflict(problem) => Some(MergeConflict { name: row.key.clone(), problem: problem.clone() }),
            Outcome::Take(_) | Outcome::Both(..) => None,
        })
        .collect()
    }

    /// The entry as it will stand in the file; none where it is gone. What is still to be chosen stays as it is here.
    pub fn entry(&self, row: &Row) -> Option<Final> {
        let side = match &row.outcome {
            Outcome::Both(raw, code) => return Some(Final { raw: raw.clone(), code: *code }),
            Outcome::Take(side) => return row.side(*side).map(|item| Final { raw: item.raw.clone(), code: *side }),
            Outcome::Conflict(_) => match self.choices.made.get(&row.key) {
                Some(side) => *side,
                None => {
                    let side = if row.ours.is_some() { Side::Ours } else { Side::Theirs };
                    return row.side(side).map(|item| Final { raw: item.raw.clone(), code: side });
                }
            },
        };
        let words = match side {
            Side::Ours => "the version here".to_owned(),
            Side::Theirs => format!("the version of {}", self.words),
        };
        let raw = settled(row.side(side)?, row.side(side.other()), &words, &self.now);
        Some(Final { raw, code: side })
    }

    pub fn open(&self, row: &Row) -> bool {
        matches!(row.outcome, Outcome::Conflict(_)) && !self.choices.made.contains_key(&row.key)
    }
}

impl Row {
    pub fn side(&self, side: Side) -> Option<&Item> {
        match side {
            Side::Ours => self.ours.as_ref(),
            Side::Theirs => self.theirs.as_ref(),
        }
    }
}
