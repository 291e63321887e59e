//! An editor that has files of the workspace open: its text that is not saved yet is what is read, and changes go through
//! it. It is asked only for what was decided, and only about paths that the sandbox has opened itself first.

use futures::future::BoxFuture;
use std::fmt::Debug;
use std::path::Path;

/// Paths are absolute, without `..`, in the workspace.
pub trait Editor: Debug + Send + Sync {
    /// It tells the text of files.
    fn reads(&self) -> bool;

    /// It takes the text of files.
    fn writes(&self) -> bool;

    /// The text as the person sees it; an error says why it cannot be had, and the file itself is read.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, String>>;

    /// Replaces the text and saves it; an error says why not, and nothing is changed.
    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// A tool has changed a file, through the editor or not; the path may lie outside the workspace.
    fn changed(&self, path: &Path, before: Option<&[u8]>, after: &[u8]);
}
