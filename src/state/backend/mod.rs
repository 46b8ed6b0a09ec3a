//! The local copy of a shard's state: what the map reads on a miss and what committed epochs are applied to.
use super::StateError;
use super::changes::Change;
use crate::types::{Digest, EpochId, Sequence, Shard};
use std::sync::Arc;

mod checks;
mod image;
pub mod memory;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
#[cfg(test)]
mod tests;
mod unowned;

pub use image::{Image, ImageFile, ImageKind, Rebuild};
pub use unowned::Unowned;

/// The committed section that a backend equals, recorded in the same atomic write as its changes (EP-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// [`crate::checkpoint::pointer::job_hash`] of the job and stage whose copy it is.
    pub job: u64,
    /// The shard whose copy it is: the sections of an epoch share its object, so nothing below tells them apart.
    pub shard: Shard,
    /// The section's sequence.
    pub sequence: Sequence,
    /// Its epoch.
    pub epoch: EpochId,
    /// Digest of the epoch object's footer.
    pub footer: Digest,
}

impl Applied {
    /// Checks that this is of the copy of `shard` of `job`.
    ///
    /// # Errors
    /// What it is of instead: the copy lies where another belongs and must be thrown away.
    pub fn check_of(&self, job: u64, shard: Shard) -> Result<(), String> {
        if (self.job, self.shard) == (job, shard) {
            return Ok(());
        }
        let whose = if self.job == job { "this" } else { "another" };
        Err(format!(
            "EP-4: it is the copy of shard {} of {whose} job, and lies where that of shard {shard} belongs",
            self.shard
        ))
    }
}

/// A local copy's sizes, in bytes, and its stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopySizes {
    /// The block cache, which all copies of the process share.
    pub cache_bytes: u64,
    /// Memtables of this copy.
    pub memtables_bytes: u64,
    /// Table files of this copy.
    pub files_bytes: u64,
    /// What compaction has yet to rewrite, estimated.
    pub compaction_bytes: u64,
    /// Times that writes were slowed down since the copy was opened.
    pub delays: u64,
    /// Times that writes were stopped since the copy was opened.
    pub stops: u64,
}

/// What a [`Backend::sweep`] has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Entries looked at.
    pub looked_at: usize,
    /// Entries deleted.
    pub removed: usize,
    /// Where to go on; None at the end of the range.
    pub next: Option<Vec<u8>>,
}

/// One shard's local copy. Read by keyed lanes, written by the commit driver alone.
pub trait Backend: Send + Sync {
    /// Looks up the values of `keys` together; `out` is cleared and gets one item per key, in order.
    ///
    /// # Errors
    /// [`StateError`]; never "absent" for a read that failed.
    fn get_many(&self, keys: &[&[u8]], out: &mut Vec<Option<Vec<u8>>>) -> Result<(), StateError>;
    /// Applies a committed section: all changes, in order of key and each key once, and `applied` in one atomic write.
    ///
    /// # Errors
    /// [`StateError`]; nothing was applied then.
    fn apply(&self, changes: &mut dyn Iterator<Item = Change<'_>>, applied: &Applied) -> Result<(), StateError>;
    /// Looks at up to `limit` entries with keys from `from` to below `to`, in order, and deletes those whose value `gone` picks. The deletions
    /// come after what was applied before in whatever order reaches the disk: a crash may lose them, and never leaves them without it (EP-4).
    ///
    /// # Errors
    /// [`StateError`]; nothing was deleted then.
    fn sweep(&self, from: &[u8], to: &[u8], limit: usize, gone: &dyn Fn(&[u8]) -> bool) -> Result<Swept, StateError>;
    /// Nobody replays over the copy any more: what [`BackendFactory::open_behind`] put off begins. Called once all that was committed is in it.
    ///
    /// # Errors
    /// [`StateError`]
    fn caught_up(&self) -> Result<(), StateError> {
        Ok(())
    }
    /// The section that the local copy equals; None for an empty copy.
    ///
    /// # Errors
    /// [`StateError`]
    fn applied(&self) -> Result<Option<Applied>, StateError>;
    /// Visits every state entry in key order (not the backend's own rows). For tests and tools.
    ///
    /// # Errors
    /// [`StateError`]; a failed read is an error and never the end of the data.
    fn scan(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StateError>;
    /// The error that says this copy is damaged: what was read from it is nothing that was ever written.
    fn damaged(&self, reason: String) -> StateError;
    /// How large the copy is; None for one that is not on disk. For metrics, on a slow timer.
    fn sizes(&self) -> Option<CopySizes> {
        None
    }
    /// What the copy is now: exactly one section that was applied. Beside the one that applies, on any thread; costs a flush and no copying.
    ///
    /// # Errors
    /// [`StateError`]; for an empty copy, too.
    fn image(&self) -> Result<Box<dyn Image>, StateError>;
    /// Writes what is in memory to disk, so that the tail to replay after a crash stays short.
    ///
    /// # Errors
    /// [`StateError`]
    fn flush(&self) -> Result<(), StateError>;
}

/// Opens and wipes the local copies of one process.
pub trait BackendFactory: Send + Sync {
    /// Opens a shard's copy, creating an empty one when there is none.
    ///
    /// # Errors
    /// [`StateError::Damaged`] when it cannot be opened: [`BackendFactory::wipe`] it and open again.
    fn open(&self, shard: Shard) -> Result<Arc<dyn Backend>, StateError>;
    /// The same for a copy over which sections are about to be replayed: until [`Backend::caught_up`] what tidies it up may wait, and large sections
    /// may be written in another way (docs/adr/0022).
    ///
    /// # Errors
    /// As [`BackendFactory::open`].
    fn open_behind(&self, shard: Shard) -> Result<Arc<dyn Backend>, StateError> {
        self.open(shard)
    }
    /// Whether there may be a copy of a shard: false says that one would have to be made, without making an empty one to see.
    fn is_there(&self, shard: Shard) -> bool;
    /// Removes a shard's copy; it must not be open.
    ///
    /// # Errors
    /// [`StateError`]
    fn wipe(&self, shard: Shard) -> Result<(), StateError>;
    /// What its copies' images are.
    fn kind(&self) -> ImageKind;
    /// Begins to make a shard's copy from the files of an image; what an earlier try has left of that is gone.
    ///
    /// # Errors
    /// [`StateError`]
    fn rebuild(&self, shard: Shard) -> Result<Box<dyn Rebuild>, StateError>;
}
