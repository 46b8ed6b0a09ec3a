//! Checkpoint stores: where epoch objects and commit records lie. Layout in docs/format/store.md.
//!
//! Objects are created once under a unique name and never overwritten (EP-2). When [`Store::put_new`] has returned, the object
//! survives the loss of the machine's power (EP-1).
use std::ops::ControlFlow;

mod directory;
mod file;
mod memory;
mod path;
mod sys;
#[cfg(test)]
mod tests;

pub use directory::DirectoryStore;
pub use file::StoreFile;
pub use memory::MemoryStore;
pub use path::{Layout, ObjectPath, PathError};
pub use sys::random;

/// A checkpoint store. Used by the commit driver, restores and tools, from several threads and several processes at once.
///
/// No method has a default: each affects durability.
pub trait Store: Send + Sync {
    /// Creates an object, durably, from `parts` laid one behind the other; never overwrites. An object that is there already and is
    /// identical byte by byte counts as created by this call: names are unique per attempt, so it is what an earlier try left.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`] when another object has the name. After any other error the object may or may not be there.
    fn put_new(&self, path: &ObjectPath, parts: &[&[u8]]) -> Result<(), StoreError>;
    /// Reads an object.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none.
    fn get(&self, path: &ObjectPath) -> Result<Vec<u8>, StoreError>;
    /// Reads an object part by part, in order, and hands each with its place to `part`, for as long as that says to go on: for objects that nobody
    /// needs to hold as a whole. Parts are as large as suits the store. A read that is tried again may begin anew, at place 0.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none; after any error some parts may have been handed out.
    fn get_parts(&self, path: &ObjectPath, part: &mut Part<'_>) -> Result<(), StoreError>;
    /// Reads `len` bytes from `offset`; fewer when the object ends before.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such object.
    fn get_range(&self, path: &ObjectPath, offset: u64, len: u64) -> Result<Vec<u8>, StoreError>;
    /// The length of an object in bytes.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none.
    fn size(&self, path: &ObjectPath) -> Result<u64, StoreError>;
    /// The objects right under `prefix` with their lengths, in order of name; empty when there are none. Unfinished writes are left
    /// out.
    ///
    /// # Errors
    /// [`StoreError`]; a listing is complete or an error.
    fn list(&self, prefix: &ObjectPath) -> Result<Vec<(ObjectPath, u64)>, StoreError>;
    /// The objects under `folder`, at any depth, in order of their names' bytes: at most `max` of those behind `after`. The next page begins
    /// behind the last one of this; fewer than `max` are the end. Unfinished writes are left out.
    ///
    /// # Errors
    /// [`StoreError`]; a page is complete or an error.
    fn list_aged(&self, folder: &ObjectPath, after: Option<&ObjectPath>, max: usize) -> Result<Vec<Aged>, StoreError>;
    /// When an object was written, in milliseconds of the store's own clock, wherever that begins. To the second; a listing may be finer.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none.
    fn modified_ms(&self, path: &ObjectPath) -> Result<i64, StoreError>;
    /// Removes an object.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none.
    fn delete(&self, path: &ObjectPath) -> Result<(), StoreError>;
    /// The store's id, drawn when it was made. Pointers carry it.
    fn id(&self) -> u64;
    /// What and where it is, for messages.
    fn describe(&self) -> String;
}

/// Takes a part of an object: its place in the object, and its bytes.
pub type Part<'a> = dyn FnMut(u64, &[u8]) -> ControlFlow<()> + 'a;

/// An object with its age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aged {
    /// Its name.
    pub path: ObjectPath,
    /// Its length.
    pub bytes: u64,
    /// When it was written, see [`Store::modified_ms`].
    pub modified_ms: i64,
}

/// What a failure of a store allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Another object has the name.
    AlreadyExists,
    /// There is no such object.
    NotFound,
    /// May pass: the same call is tried again for as long as it takes.
    Retriable,
    /// Does not pass by itself: exit 13.
    Fatal,
}

/// A failed call to a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another object has the name.
    #[error(
        "{path} exists already with other contents; another process writes to this job, or an object was copied in by hand"
    )]
    AlreadyExists {
        /// The object's path.
        path: String,
    },
    /// There is no such object.
    #[error(
        "{path} does not exist; bring it back from a copy of the checkpoint store, or point the job at the store that has it. To begin again \
         without it, with empty state at the start positions, delete the offsets of the whole group and start with accept_lost_pointers"
    )]
    NotFound {
        /// The object's path.
        path: String,
    },
    /// May pass: full, busy, interrupted, unreachable, not permitted for now.
    #[error("{path}: {reason}; tried again until it works: make room in the store, or make it reachable and writable")]
    Retriable {
        /// The object's path.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// Does not pass by itself: a setting that is wrong, a store that is none.
    #[error("{path}: {reason}; check the store's permissions and its disk, then start again")]
    Fatal {
        /// The object's path.
        path: String,
        /// What the system said.
        reason: String,
    },
}

impl StoreError {
    /// What it allows.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            StoreError::AlreadyExists { .. } => StoreErrorKind::AlreadyExists,
            StoreError::NotFound { .. } => StoreErrorKind::NotFound,
            StoreError::Retriable { .. } => StoreErrorKind::Retriable,
            StoreError::Fatal { .. } => StoreErrorKind::Fatal,
        }
    }
}
