//! Skills: how something is done here, as files. A model sees names and descriptions, and reads the rest when one fits.

mod catalogue;
mod definition;
mod tool;

pub use catalogue::{SkillCatalogue, SkillFolders};
pub use definition::Skill;
pub(crate) use definition::{Head, MOST_DESCRIPTION, render};
pub(crate) use tool::{SKILL, call, prompt, spec};
