//! A note as a file: a few `key: value` lines between two `---`, then the text. What a person wrote there and jarvis
//! does not know stays when jarvis writes the file again.

use super::types::{Note, NoteKind, USUAL_IMPORTANCE};
use jiff::civil::Date;

const KNOWN: [&str; 6] = ["id", "type", "date", "importance", "tags", "session"];

/// A file taken apart.
#[derive(Debug, Default, PartialEq)]
pub struct Document {
    /// Each key with the lines that say its value, as they are.
    fields: Vec<(String, Vec<String>)>,
    pub text: String,
}

/// What a file says; the rest is to be assumed.
#[derive(Debug, PartialEq)]
pub(crate) struct Parsed {
    pub id: Option<String>,
    pub kind: NoteKind,
    pub date: Option<Date>,
    pub importance: u8,
    pub tags: Vec<String>,
    pub session: Option<String>,
    pub text: String,
}

impl Document {
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
        let Some(rest) = text.strip_prefix("---\n") else {
            return Ok(Self { fields: Vec::new(), text: text.trim().to_owned() });
        };
        let mut fields: Vec<(String, Vec<String>)> = Vec::new();
        let mut lines = rest.split_inclusive('\n');
        let mut used = 0;
        for (number, raw) in (2..).zip(lines.by_ref()) {
            used += raw.len();
            let line = raw.trim_end();
            if line == "---" {
                return Ok(Self { fields, text: rest[used..].trim().to_owned() });
            }
            let continues = line.is_empty() || line.starts_with([' ', '\t', '-', '#']);
            match (continues, fields.last_mut(), line.split_once(':')) {
                (true, Some((_, of)), _) => of.push(line.to_owned()),
                (true, None, _) => fields.push((String::new(), vec![line.to_owned()])),
                (false, _, Some((key, _))) => {
                    let key = key.trim().to_owned();
                    if fields.iter().any(|(k, _)| *k == key) {
                        return Err(format!("line {number}: `{key}` is there twice"));
                    }
                    fields.push((key, vec![line.to_owned()]));
                }
                (false, _, None) => return Err(format!("line {number} is no `key: value`: {}", shown(line))),
            }
        }
        Err("the `---` that ends its head is missing".to_owned())
    }

    /// Of a proposal: beside the note, the ids of those like it.
    pub fn with_similar(ids: &[String]) -> Self {
        let line = (!ids.is_empty()).then(|| ("similar".to_owned(), vec![format!("similar: [{}]", ids.join(", "))]));
        Self { fields: line.into_iter().collect(), text: String::new() }
    }

    pub fn list(&self, key: &str) -> Result<Vec<String>, String> {
        let Some((_, lines)) = self.fields.iter().find(|(k, _)| k == key) else { return Ok(Vec::new()) };
        let first = lines[0].split_once(':').map_or("", |(_, v)| v.trim());
        if first.is_empty() {
            let items = lines[1..].iter().filter_map(|l| l.trim().strip_prefix('-'));
            return items.map(scalar).filter(|i| !matches!(i, Ok(i) if i.is_empty())).collect();
        }
        match first.strip_prefix('[') {
            None => Ok(vec![scalar(first)?]),
            Some(rest) => {
                let inside = rest.strip_suffix(']').ok_or_else(|| format!("`{key}`: the `]` is missing"))?;
                split(inside).map(scalar).filter(|i| !matches!(i, Ok(i) if i.is_empty())).collect()
            }
        }
    }

    /// The keys of the head, as they stand.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(key, _)| key.as_str()).filter(|key| !key.is_empty())
    }

    pub fn one(&self, key: &str) -> Result<Option<String>, String> {
        let Some((_, lines)) = self.fields.iter().find(|(k, _)| k == key) else { return Ok(None) };
        let first = lines[0].split_once(':').map_or("", |(_, v)| v);
        let value = match first.trim() {
            // A text over several lines, as YAML has it.
            block @ (">" | ">-" | "|" | "|-") => {
                let between = if block.starts_with('>') { " " } else { "\n" };
                lines[1..].iter().map(|line| line.trim()).collect::<Vec<_>>().join(between).trim().to_owned()
            }
            _ => scalar(first)?,
        };
        Ok(Some(value).filter(|v| !v.is_empty()))
    }

    pub(crate) fn note(&self) -> Result<Parsed, String> {
        let kind = match self.one("type")? {
            None => NoteKind::Note,
            Some(word) => NoteKind::parse(&word.to_lowercase()).ok_or_else(|| {
                format!("type `{}`: it is one of fact, preference, project, decision, note", shown(&word))
            })?,
        };
        let date = self.one("date")?.map(|text| {
            let day = text.get(..10).unwrap_or(&text);
            day.parse::<Date>().map_err(|_| format!("date `{}`: it is written like 2026-01-31", shown(&text)))
        });
        let importance = self.one("importance")?.map_or(Ok(USUAL_IMPORTANCE), |text| {
            text.parse()
                .ok()
                .filter(|n| (1..=5).contains(n))
                .ok_or_else(|| format!("importance `{}`: it is 1 to 5", shown(&text)))
        })?;
        let id = self.one("id")?;
        if let Some(id) = &id
            && !valid_id(id)
        {
            return Err(format!("id `{}`: letters, digits, `-` and `_`, 64 at most", shown(id)));
        }
        if self.text.is_empty() {
            return Err("it has no text".to_owned());
        }
        Ok(Parsed {
            id,
            kind,
            date: date.transpose()?,
            importance,
            tags: self.list("tags")?,
            session: self.one("session")?,
            text: self.text.clone(),
        })
    }

    /// The file of `note`, with the fields of this one that jarvis does not know.
    pub fn with(&self, note: &Note) -> String {
        let mut out = format!(
            "---\nid: {}\ntype: {}\ndate: {}\nimportance: {}\n",
            note.id,
            note.kind.as_str(),
            note.date,
            note.importance
        );
        if !note.tags.is_empty() {
            let tags: Vec<String> = note.tags.iter().map(|t| quoted(t)).collect();
            out += &format!("tags: [{}]\n", tags.join(", "));
        }
        if let Some(session) = &note.session {
            out += &format!("session: {}\n", quoted(session));
        }
        for (key, lines) in &self.fields {
            if !KNOWN.contains(&key.as_str()) {
                lines.iter().for_each(|line| out += &format!("{line}\n"));
            }
        }
        out + "---\n\n" + note.text.trim() + "\n"
    }
}

/// Also keeps an id from being a path.
pub(crate) fn valid_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// At commas outside of quotes.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let mut escaped = false;
    text.split(move |c: char| {
        let inside = quote.is_some();
        match (c, quote) {
            (_, Some('"')) if escaped => escaped = false,
            ('\\', Some('"')) => escaped = true,
            (c, Some(q)) if c == q => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            _ => {}
        }
        // Chinese input methods write `，` and `、`.
        !inside && matches!(c, ',' | '，' | '、')
    })
}

fn scalar(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.starts_with('"') {
        return serde_json::from_str(text).map_err(|_| format!("{} is not closed, or has a wrong escape", shown(text)));
    }
    if let Some(rest) = text.strip_prefix('\'') {
        let inside = rest.strip_suffix('\'').ok_or_else(|| format!("{} is not closed", shown(text)))?;
        return Ok(inside.replace("''", "'"));
    }
    // A comment, as YAML has it.
    Ok(text.split(" #").next().unwrap_or_default().trim().to_owned())
}

/// In quotes where it would be read as something else.
fn quoted(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+' | ' '))
        && text.starts_with(char::is_alphanumeric)
        && !text.ends_with(' ');
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Parsed, String> {
        Document::parse(text).and_then(|d| d.note())
    }

    #[test]
    fn heads_as_people_and_editors_write_them() {
        let note = parse("---\r\nid: a-1\r\ntype: Fact\r\ndate: 2026-02-05 10:00\r\nimportance: 4 # much\r\ntags:\r\n  - 翻译\r\n  - \"a: b\"\r\n---\r\n\r\n正文\r\n").unwrap();
        assert_eq!((note.id.as_deref(), note.kind, note.importance), (Some("a-1"), NoteKind::Fact, 4));
        assert_eq!(note.tags, ["翻译", "a: b"]);
        assert_eq!((note.date, note.text.as_str()), (Some(jiff::civil::date(2026, 2, 5)), "正文"));
        assert_eq!(parse("---\ntags: [a, 'it''s, b'，文档]\n---\nx").unwrap().tags, ["a", "it's, b", "文档"]);
        assert_eq!(parse("---\ntags: one\n---\nx").unwrap().tags, ["one"]);
        let bare = parse("# A heading\n\n--- no head").unwrap();
        assert_eq!((bare.kind, bare.id, bare.text.as_str()), (NoteKind::Note, None, "# A heading\n\n--- no head"));
    }

    #[test]
    fn a_broken_head_says_what_is_wrong() {
        for (text, part) in [
            ("---\ntype: fact\nno end", "line 3"),
            ("---\ntype: fact\n", "`---`"),
            ("---\ntype: fac\n---\nx", "fac"),
            ("---\nimportance: 9\n---\nx", "1 to 5"),
            ("---\ndate: soon\n---\nx", "soon"),
            ("---\nid: ../../pwn\n---\nx", "id"),
            ("---\nid: a\nid: b\n---\nx", "twice"),
            ("---\ntags: [a\n---\nx", "]"),
            ("---\ntags: \"a\n---\nx", "closed"),
            ("---\nid: a\n---\n", "no text"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_jarvis_does_not_know_stays_in_the_file() {
        let text = "---\n# mine\naliases:\n  - x\nid: a\ncssclass: wide\n---\n\nold\n";
        let document = Document::parse(text).unwrap();
        let parsed = document.note().unwrap();
        let note = Note {
            id: "a".to_owned(),
            kind: parsed.kind,
            date: jiff::civil::date(2026, 1, 1),
            importance: 2,
            tags: vec![],
            session: None,
            text: "new".to_owned(),
            path: None,
        };
        let again = document.with(&note);
        for part in ["# mine\n", "aliases:\n  - x\n", "cssclass: wide\n", "importance: 2\n", "\nnew\n"] {
            assert!(again.contains(part), "{part}: {again}");
        }
        assert_eq!(parse(&again).unwrap().text, "new");
    }

    proptest! {
        #[test]
        fn a_note_comes_back_from_its_file(text in "\\PC{1,60}(\n---\n)?\\PC{0,20}", tags in prop::collection::vec("\\PC{1,12}", 0..4), session in prop::option::of("[a-z:# \"']{1,8}")) {
            let trimmed = text.trim().to_owned();
            prop_assume!(!trimmed.is_empty());
            let tags: Vec<String> = tags.iter().map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect();
            let session = session.map(|s| s.trim().to_owned()).filter(|s| !s.is_empty());
            let note = Note { id: "n-1".to_owned(), kind: NoteKind::Decision, date: jiff::civil::date(2026, 1, 2), importance: 5,
                tags: tags.clone(), session: session.clone(), text: trimmed.clone(), path: None };
            let parsed = parse(&Document::default().with(&note)).unwrap();
            prop_assert_eq!(parsed.text, trimmed);
            prop_assert_eq!(parsed.tags, tags);
            prop_assert_eq!(parsed.session, session);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(---\n)?(\\PC|\n){0,80}(---)?") {
            let _ = parse(&text);
        }
    }
}
