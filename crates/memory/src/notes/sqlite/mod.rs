//! Notes of one person: Markdown files are the truth, SQLite is an index that can be made anew from them.

mod index;
mod pending;
mod search;
mod store;

use super::{Embed, MemoryError, files::Folder};
use crate::db::{self, Examined};
use index::Index;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const PART: &str = "notes";

/// Notes in a folder, with an index in a file of its own. Cloning is cheap.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
    embedder: Option<Arc<dyn Embed>>,
}

struct Inner {
    folder: Folder,
    path: PathBuf,
    index: Mutex<Index>,
}

impl SqliteStore {
    /// `folder` holds the notes. `index` should be a file that nothing else is in: it can be deleted at any time.
    pub fn open(folder: &Path, index: &Path, embedder: Option<Arc<dyn Embed>>) -> Result<Self, MemoryError> {
        let folder = Folder::open(folder)?;
        let db = db::open(index, PART, index::STEPS).map_err(|e| MemoryError::db(index, &e))?;
        let inner = Inner { folder, path: index.to_owned(), index: Mutex::new(Index::new(db)) };
        Ok(Self { inner: Arc::new(inner), embedder })
    }

    /// Looks at the file of the index and changes nothing. None where there is none.
    pub fn examine(index: &Path) -> Result<Option<Examined>, MemoryError> {
        db::examine(index, PART, index::STEPS, "notes").map_err(|e| MemoryError::db(index, &e))
    }

    /// Work that blocks, where it blocks nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &mut Index) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let inner = self.inner.clone();
        let done = tokio::task::spawn_blocking(move || {
            let mut index = inner.index.lock().unwrap_or_else(PoisonError::into_inner);
            work(&inner, &mut index)
        });
        done.await.map_err(|e| MemoryError::Task(e.to_string()))?
    }
}

impl Inner {
    fn sql(&self) -> impl Fn(rusqlite::Error) -> MemoryError {
        let path = self.path.clone();
        move |e| MemoryError::db(&path, &db::DbError::Sqlite(e))
    }
}
