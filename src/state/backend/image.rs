//! Images of local copies: what bases are made from, and what a copy is made from again.
use crate::state::StateError;
use crate::state::backend::Applied;

/// What wrote the files of an image: only the same can read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageKind {
    /// Rows, as [`crate::state::backend::memory`] keeps them.
    Rows,
    /// A RocksDB database.
    RocksDb,
}

impl ImageKind {
    /// In a base's manifest.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            ImageKind::Rows => 0,
            ImageKind::RocksDb => 1,
        }
    }

    /// The other way round; None for what this version does not know.
    #[must_use]
    pub fn of_number(number: u8) -> Option<ImageKind> {
        match number {
            0 => Some(ImageKind::Rows),
            1 => Some(ImageKind::RocksDb),
            _ => None,
        }
    }
}

/// A file of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFile {
    /// Its name, which stays the same for as long as its contents do.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Whether a file of this name in a later image of the same open copy has the same contents.
    pub lasts: bool,
}

/// What a local copy was at one committed section; goes on to be that while the copy changes. Removed when it is dropped.
pub trait Image: Send {
    /// The section that it equals.
    fn applied(&self) -> Applied;
    /// All its files.
    fn files(&self) -> &[ImageFile];
    /// Reads `len` bytes of a file from `offset`; fewer at its end.
    ///
    /// # Errors
    /// [`StateError`]
    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, StateError>;
    /// Reads all of it against the checksums that the copy itself keeps: a bit that has flipped on the local disk must not become durable.
    ///
    /// # Errors
    /// [`StateError::Damaged`] when one does not hold.
    fn verify(&self) -> Result<(), StateError>;
}

/// A local copy that is being made from an image's files; nothing is there before [`Rebuild::finish`].
pub trait Rebuild: Send + Sync {
    /// Writes a part of a file. Parts come in any order, from several threads at once.
    ///
    /// # Errors
    /// [`StateError`]; for a name that no file of an image has, too.
    fn write(&self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), StateError>;
    /// All of a file has been written: waits until it is durable, beside those who write others. [`Rebuild::finish`] does it for files that nobody did it for.
    ///
    /// # Errors
    /// [`StateError`]
    fn sync(&self, file: &str) -> Result<(), StateError>;
    /// Puts it in the place of the shard's copy, durably; that must not be open.
    ///
    /// # Errors
    /// [`StateError`]; the former copy may be gone then.
    fn finish(self: Box<Self>) -> Result<(), StateError>;
}
