//! Events for a person: the answer on stdout, everything else on stderr.

mod running;

use crate::error::{Failure, Outcome, clean};
use crate::markdown::Markdown;
use crate::term::{self, Style};
use jarvis_protocol::{Event, ForgeStep, Grants, value_text};
use running::Running;
use std::io::IsTerminal;
use unicode_width::UnicodeWidthStr;

/// How many columns a value takes in a status line.
const VALUE_COLUMNS: usize = 100;
/// Of a terminal that does not say.
const USUAL_WIDTH: usize = 80;
/// How many columns one grant takes.
const GRANT_COLUMNS: usize = 200;

pub struct Show {
    json: bool,
    /// Text appears as it comes only where a person watches; a pipe gets the answer alone, once.
    live: bool,
    style: Style,
    /// Of the text that streams in, where it is laid out: on a terminal with colours.
    markdown: Option<Markdown>,
    running: Running,
    /// What has been shown of the text since the last tool call.
    shown: String,
    broken: Option<Failure>,
    /// The subagent that what is shown comes from, and its lines begin with.
    agent: String,
}

impl Show {
    pub fn new(json: bool) -> Self {
        Self {
            json,
            live: !json && std::io::stdout().is_terminal(),
            style: term::stderr_style(),
            markdown: None,
            running: Running::default(),
            shown: String::new(),
            broken: None,
            agent: String::new(),
        }
    }

    /// An output that broke is remembered and told by `finish`; a turn is not stopped by it in mid-write.
    pub fn event(&mut self, event: &Event) {
        let written = match event {
            Event::TurnFailed { error, usage, duration_ms } if self.json => {
                let (usage, duration_ms) = (*usage, *duration_ms);
                term::json(&Event::TurnFailed { error: clean(error), usage, duration_ms })
            }
            event if self.json => term::json(event),
            event => self.for_people(event),
        };
        if let Err(failure) = written {
            self.broken.get_or_insert(failure);
        }
    }

    pub fn finish(self) -> Outcome {
        self.broken.map_or(Ok(()), Err)
    }

    fn for_people(&mut self, event: &Event) -> Outcome {
        match event {
            Event::TextDelta { text } => {
                if self.live {
                    self.stream(text)?;
                }
            }
            Event::TurnCompleted { answer, stop_reason, .. } => {
                let seen = !self.shown.trim().is_empty() && self.shown.trim() == answer.trim();
                self.break_line()?;
                if !seen && !answer.is_empty() {
                    match self.live && lays_out() {
                        true => {
                            self.stream(answer)?;
                            self.break_line()?;
                        }
                        false => term::line(answer)?,
                    }
                }
                if let Some(note) = stop_reason.words() {
                    self.note(note);
                }
            }
            Event::Status { message } => self.note(message),
            Event::ToolStarted { call } => {
                self.break_line()?;
                let name = term::cut(&call.name, VALUE_COLUMNS);
                let args = self.fitting(&call.args.to_string(), "→  ".width() + name.width());
                self.note(&format!("→ {name} {args}"));
            }
            Event::ToolOutput { call_id, text } => {
                self.break_line()?;
                self.running.add(call_id, text);
                term::live::draw(&self.rows_of(call_id));
            }
            Event::ToolCompleted { call_id, name, ok, content, duration_ms } => {
                // What was seen last of a program stays above its result.
                self.rows_of(call_id).iter().for_each(term::status);
                self.running.ended(call_id);
                let mark = if *ok { self.style.green("✓") } else { self.style.red("✗") };
                let name = term::cut(name, VALUE_COLUMNS);
                let time = time(*duration_ms);
                let value = self.fitting(&value_text(content), "✓  () ".width() + name.width() + time.width());
                self.line(&format!("{mark} {name} {}", self.style.dim(&format!("({time}) {value}"))));
            }
            Event::Forge { step, capability, detail } => {
                self.break_line()?;
                let name = term::cut(capability.as_deref().unwrap_or_default(), VALUE_COLUMNS);
                let step = format!("⚒ {:<10}", step_name(*step));
                let detail = term::cut(detail, 160);
                let told = match term::status_width() {
                    Some(width) => term::cut(
                        &format!("{name}: {detail}"),
                        width.saturating_sub(self.agent.width() + step.width() + 1),
                    ),
                    None => format!("{name}: {detail}"),
                };
                self.line(&format!("{} {}", self.style.cyan(&step), self.style.dim(&told)));
            }
            Event::Capability { name, status, detail } => {
                self.break_line()?;
                let said = format!("{} is {}: {detail}", term::cut(name, VALUE_COLUMNS), status.as_str());
                self.line(&format!("{} {said}", self.style.bold("note:")));
            }
            // What it says is for the model that asked it; what it does is told.
            Event::Agent { agent, event, .. } => {
                if !matches!(**event, Event::TextDelta { .. }) {
                    self.break_line()?;
                    self.agent = format!("  {} │ ", term::cut(agent, 30));
                    let told = self.for_people(event);
                    self.agent.clear();
                    told?;
                }
            }
            Event::Notice { message } => self.line(&format!("{} {message}", self.style.bold("note:"))),
            // Failures are told by whoever runs the turn; questions by the approver; reasoning is for --json.
            Event::TurnStarted { .. }
            | Event::ReasoningDelta { .. }
            | Event::Context { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. }
            | Event::TurnFailed { .. } => self.break_line()?,
        }
        Ok(())
    }

    /// More of the text, laid out where that can be seen.
    fn stream(&mut self, text: &str) -> Outcome {
        self.shown.push_str(text);
        if !lays_out() {
            return term::text(text);
        }
        let width = term::width().unwrap_or(USUAL_WIDTH);
        let markdown = self.markdown.get_or_insert_with(|| Markdown::new(width, term::stdout_style()));
        let rows = markdown.push(text);
        if rows.is_empty() { Ok(()) } else { term::text(rows) }
    }

    /// As much of a value as a line has room for behind what takes `before` columns.
    fn fitting(&self, value: &str, before: usize) -> String {
        let room = term::status_width()
            .map_or(VALUE_COLUMNS, |width| width.saturating_sub(before + self.agent.width()).clamp(1, VALUE_COLUMNS));
        term::cut(value, room)
    }

    fn rows_of(&self, call: &str) -> Vec<String> {
        // On a terminal alone; one column stays free, so that no row is broken.
        let width = term::status_width().filter(|_| self.style.has_colour());
        width.map(|width| self.running.rows(call, width.saturating_sub(1), self.style)).unwrap_or_default()
    }

    /// Ends a line of streamed text before something else is written.
    fn break_line(&mut self) -> Outcome {
        if let Some(markdown) = self.markdown.take() {
            term::text(markdown.finish())?;
        }
        if !std::mem::take(&mut self.shown).is_empty() {
            term::text("\n")?;
        }
        Ok(())
    }

    fn note(&self, text: &str) {
        self.line(&self.style.dim(text));
    }

    fn line(&self, text: &str) {
        term::status(format_args!("{}{text}", self.agent));
    }
}

/// Markdown is laid out where its marks can be replaced by how things look; elsewhere it stays as it was written.
fn lays_out() -> bool {
    term::stdout_style().has_colour()
}

fn time(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format!("{:.1} s", ms / 1000.0) }
}

fn step_name(step: ForgeStep) -> &'static str {
    match step {
        ForgeStep::Gap => "gap",
        ForgeStep::Spec => "spec",
        ForgeStep::Code => "code",
        ForgeStep::Checked => "checked",
        ForgeStep::Verified => "verified",
        ForgeStep::Approved => "approved",
        ForgeStep::Registered => "registered",
        ForgeStep::Repair => "repair",
        ForgeStep::Reused => "reused",
        ForgeStep::Rejected => "rejected",
    }
}

/// What is asked for, a grant a line. Where a version before had some, what is new is marked, and what it had beside that
/// is told: it may be granted already, or no longer be wanted.
pub fn asked(grants: &Grants, before: Option<&Grants>, style: Style) -> Vec<String> {
    let Some(before) = before else { return self::grants(grants) };
    // Whole grants are compared: what differs may be beyond what a line shows.
    let kinds = grants.lists().into_iter().zip(before.lists());
    let (mut wanted, mut other) = (Vec::new(), Vec::new());
    for ((kind, now), (_, had)) in kinds {
        wanted.extend(now.iter().map(|grant| match had.contains(grant) {
            true => format!("= {} (as the version before)", line_of(kind, grant)),
            false => style.green(&format!("+ {} (new)", line_of(kind, grant))),
        }));
        let rest = had.iter().filter(|grant| !now.contains(grant));
        other.extend(
            rest.map(|grant| style.dim(&format!("· {} (the version before; not asked for now)", line_of(kind, grant)))),
        );
    }
    wanted.extend(other);
    wanted
}

fn line_of(kind: &str, grant: &str) -> String {
    term::cut(&format!("{kind} {grant}"), GRANT_COLUMNS)
}

/// One grant per line, so that none hides behind another: `network api.example.com`.
pub fn grants(grants: &Grants) -> Vec<String> {
    let lists = grants.lists().into_iter();
    lists.flat_map(|(kind, list)| list.iter().map(move |grant| line_of(kind, grant))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_told_from_what_the_version_before_had() {
        let of = |network: &[&str], read: &[&str]| Grants {
            network: network.iter().map(|&n| n.to_owned()).collect(),
            read: read.iter().map(|&n| n.to_owned()).collect(),
            ..Grants::default()
        };
        let (now, before) = (of(&["a", "b"], &["notes"]), of(&["a", "old"], &[]));
        assert_eq!(
            asked(&now, Some(&before), Style::never()),
            [
                "= network a (as the version before)",
                "+ network b (new)",
                "+ read notes (new)",
                "· network old (the version before; not asked for now)",
            ]
        );
        assert_eq!(asked(&now, None, Style::never()), ["network a", "network b", "read notes"]);
        let long = "x".repeat(300);
        let (now, before) = (of(&[], &[&(long.clone() + "b")]), of(&[], &[&(long + "a")]));
        assert!(asked(&now, Some(&before), Style::never())[0].starts_with('+'), "the same as far as it is shown");
    }

    #[test]
    fn each_grant_has_its_own_line_and_none_can_hide_another() {
        let asked = Grants {
            network: vec!["a.example\u{1b}[2K\rallow".to_owned(), "b.example\nread nothing".to_owned()],
            write: vec!["计".repeat(500)],
            ..Grants::default()
        };
        let lines = grants(&asked);
        assert_eq!(lines[0], r"network a.example\u{1b}[2K\u{d}allow");
        assert_eq!(lines[1], "network b.example read nothing");
        assert!(lines[2].starts_with("write 计") && lines[2].ends_with('…') && lines[2].chars().count() <= 200);
        assert_eq!(lines.len(), 3);
    }
}
