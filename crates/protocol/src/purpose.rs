//! What a model call is for, so that tokens and cost are known for each.

use serde::{Deserialize, Serialize};

/// Closed list. All of one conversation go to the same model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The first reply to a person.
    #[default]
    Chat,
    /// A reply to results of tools.
    Tools,
    Subagent,
    /// Of what a context has no room for.
    Summary,
    Title,
    /// Writing and repairing capabilities.
    Forge,
    /// Finding facts worth keeping.
    Memory,
}

impl Purpose {
    pub const ALL: [Purpose; 7] = [
        Purpose::Chat,
        Purpose::Tools,
        Purpose::Subagent,
        Purpose::Summary,
        Purpose::Title,
        Purpose::Forge,
        Purpose::Memory,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Purpose::Chat => "chat",
            Purpose::Tools => "tools",
            Purpose::Subagent => "subagent",
            Purpose::Summary => "summary",
            Purpose::Title => "title",
            Purpose::Forge => "forge",
            Purpose::Memory => "memory",
        }
    }
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_purpose_is_written_as_it_is_shown() {
        for purpose in Purpose::ALL {
            assert_eq!(serde_json::to_value(purpose).unwrap(), purpose.as_str());
        }
    }
}
