//! How healthy the registry is: what is there twice, unused, failing, too specific or broken, what reuse has saved, and
//! the measures of the field. Pure: it looks at what it is given, and runs nothing.

mod arguments;
mod duplicates;
mod faults;
mod measures;
mod saved;
mod skeleton;
mod specific;
pub(crate) mod store;
mod words;

pub use arguments::{Fit, Renamed, fit};
pub use duplicates::{Duplicate, Group, duplicates, groups};
pub use faults::{Broken, Call, Failing, Unused, broken, calls, failing, unused};
pub use measures::{Composition, Examples, Health, Reuse, Safety, health};
pub use saved::{Saved, Spent, saved};
pub use skeleton::{Siblings, siblings, written_values};
pub use specific::{Place, Specific, specific};
pub use store::{Build, Timing, VersionStats};

use crate::Stats;
use jarvis_protocol::{Capability, Status};

/// One capability with all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    pub capability: Capability,
    pub stats: Stats,
    /// By version, the oldest first.
    pub versions: Vec<VersionStats>,
    pub builds: Vec<Build>,
    pub code: CodeState,
}

/// The code as it stands on disk.
#[derive(Debug, Clone, PartialEq)]
pub enum CodeState {
    /// As it was checked.
    Sound(Source),
    /// Changed by hand since it was checked, so it does not run.
    Edited(Source),
    /// It cannot be read, or does not parse.
    Unusable(String),
}

/// What reading the code shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Source {
    pub text: String,
    /// The values written into it, each as it reads.
    pub literals: Vec<String>,
    /// Names of capabilities that it calls, where they are written out.
    pub calls: Vec<String>,
    /// What it reaches for that no grant names.
    pub undeclared: Vec<String>,
    /// It reaches for nothing outside.
    pub pure: bool,
}

impl Subject {
    pub fn is_active(&self) -> bool {
        self.capability.status == Status::Active
    }

    /// The source where it is what was checked.
    pub fn sound(&self) -> Option<&Source> {
        match &self.code {
            CodeState::Sound(source) => Some(source),
            CodeState::Edited(_) | CodeState::Unusable(_) => None,
        }
    }

    /// Runs that went well.
    pub fn successes(&self) -> u64 {
        self.stats.runs.saturating_sub(self.stats.failures)
    }

    pub fn spent(&self) -> Spent<'_> {
        Spent { name: &self.capability.name, stats: &self.stats, builds: &self.builds }
    }
}

#[cfg(test)]
pub(crate) mod made {
    //! Subjects for the tests of this folder.

    use super::{CodeState, Source, Subject};
    use crate::Stats;
    use jarvis_protocol::{Capability, CapabilityName};
    use serde_json::{Value, json};

    pub fn name(text: &str) -> CapabilityName {
        CapabilityName::new(text).unwrap()
    }

    /// `[("a", "number")]`: all required.
    pub fn parameters(of: &[(&str, &str)]) -> Value {
        let properties: serde_json::Map<String, Value> =
            of.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
        let required: Vec<&str> = of.iter().map(|(name, _)| *name).collect();
        json!({"type": "object", "properties": properties, "required": required})
    }

    pub fn capability(of: &str, sentence: &str, takes: &[(&str, &str)]) -> Capability {
        let mut capability = Capability::new(name(of), sentence);
        capability.parameters = parameters(takes);
        capability.created = "2026-01-10T09:00:00Z".to_owned();
        capability
    }

    pub fn subject(of: &str, sentence: &str, takes: &[(&str, &str)], code: &str, literals: &[&str]) -> Subject {
        let source = Source {
            text: code.to_owned(),
            literals: literals.iter().map(|l| (*l).to_owned()).collect(),
            pure: true,
            ..Source::default()
        };
        Subject {
            capability: capability(of, sentence, takes),
            stats: Stats::default(),
            versions: Vec::new(),
            builds: Vec::new(),
            code: CodeState::Sound(source),
        }
    }

    pub fn with_runs(mut subject: Subject, runs: u64, failures: u64) -> Subject {
        subject.stats.runs = runs;
        subject.stats.failures = failures;
        subject
    }
}
