//! Epoch objects: what one epoch changed, shard by shard. Format 1 is described byte by byte in docs/format/epoch-object.md.
//!
//! Written once by the commit driver, read by restores and tools. The digest of the footer body, kept in pointers and links, covers
//! the header and every section; readers verify before they decode, and bound every count by the bytes that are there.
pub(in crate::checkpoint) mod bytes;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{ObjectError, ObjectReader};
pub use encode::encode;

use crate::state::ChangeSet;
use crate::types::{
    BaseLink, Digest, EpochId, KeyGroups, Link, OutputFrames, Position, Sequence, Shard, TimestampMs, TopicInfo,
};

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u8 = 1;

const HEAD_MAGIC: &[u8; 8] = b"KFEPOCH1";
const END_MAGIC: &[u8; 8] = b"KFEPEND1";
/// Raw bytes of a changes block: large enough to compress well, small enough that replay needs little memory for one.
const BLOCK_RAW_BYTES: usize = 1 << 20;
/// Length in a change that marks a deletion.
const DELETED: u32 = u32::MAX;
/// Footer body length and end magic.
const TRAILER_BYTES: u64 = 12;

/// A keyed state as the epoch knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateInfo {
    /// The number in state keys; given out once, never reused.
    pub id: u16,
    /// The operator's id.
    pub operator: String,
    /// The state's name.
    pub name: String,
    /// Name and version of the codec that wrote the values.
    pub schema: String,
}

/// What an epoch object says about its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The job's id.
    pub job: String,
    /// The stage's id.
    pub stage: String,
    /// The epoch.
    pub epoch: EpochId,
    /// True for the object that begins the life of its shards: start positions and nothing else.
    pub genesis: bool,
    /// Fingerprint of the topology.
    pub topology: u64,
    /// `G`, `S` and the partitioner.
    pub groups: KeyGroups,
    /// The sources' topics.
    pub topics: Vec<TopicInfo>,
    /// The keyed states.
    pub states: Vec<StateInfo>,
    /// The outbox sinks: what the index in this object's output frames stood for, and the sink's id.
    pub outbox_sinks: Vec<(u16, String)>,
    /// For every shard with a committed section, the last one known when the object was built.
    pub last_committed: Vec<(Shard, Link)>,
}

/// The base in force of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Based {
    /// The base.
    pub base: BaseLink,
    /// Bytes of the sections behind the base's, up to the parent.
    pub chain_bytes: u64,
}

/// A shard's part of an epoch.
#[derive(Debug, Clone)]
pub struct Section {
    /// The shard.
    pub shard: Shard,
    /// The parent's sequence plus one. Without a parent 0; in a genesis object above every sequence that the store knew before.
    pub sequence: Sequence,
    /// The section that this one was built on; None for genesis.
    pub parent: Option<Link>,
    /// Where to go on, for every partition of every source that belongs to the shard.
    pub positions: Vec<Position>,
    /// The shard's watermark, None before the first.
    pub watermark: Option<TimestampMs>,
    /// State of operators that is not keyed. Empty in the format's first use.
    pub operator_state: Vec<u8>,
    /// The base that a restore onto an empty disk begins with; None: with the first section of the shard's life.
    pub base: Option<Based>,
    /// Every section of the shard up to this sequence has been delivered to its outbox sinks.
    pub outbox_delivered: Sequence,
    /// Outputs for sinks that are not the log.
    pub outbox: OutputFrames,
    /// The changes; [`encode`] sorts them.
    pub changes: ChangeSet,
}

/// An object ready to be put in a store.
#[derive(Debug, Clone)]
pub struct EncodedObject {
    /// The object's bytes, in pieces: header, sections, footer.
    pub parts: Vec<Vec<u8>>,
    /// Digest of the footer body, for the pointer.
    pub footer: Digest,
    /// The link to each section, in order of shard: the parent of the shard's next one.
    pub links: Vec<(Shard, Link)>,
}

impl EncodedObject {
    /// The pieces as [`crate::checkpoint::Store::put_new`] takes them.
    #[must_use]
    pub fn slices(&self) -> Vec<&[u8]> {
        self.parts.iter().map(Vec::as_slice).collect()
    }
    /// Length of the object in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|p| p.len() as u64).sum()
    }
    /// Never true for an object that [`encode`] made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the footer says about a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionEntry {
    /// The shard.
    pub shard: Shard,
    /// Link to the section.
    pub link: Link,
    /// Digest of the section's bytes.
    pub digest: Digest,
}

/// Bytes that are no epoch object of a known format, or contents that cannot be written as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The object was damaged after it was written.
    #[error(
        "epoch object {path} is damaged: {reason}; bring it back from a copy of the checkpoint store, do not delete it: \
         the committed state needs it. To begin again without it, with empty state at the start positions, delete the offsets of the whole group and start with \
         accept_lost_pointers"
    )]
    Damaged {
        /// The object's path.
        path: String,
        /// What does not fit.
        reason: String,
    },
    /// The object was written by a later version.
    #[error(
        "epoch object {path} has format {format}, this version reads up to format 1; run the version that wrote it or a later one"
    )]
    Newer {
        /// The object's path.
        path: String,
        /// Its format, as written.
        format: String,
    },
    /// What was to be written breaks a rule of the format: a bug in the caller, or a limit.
    #[error("epoch {epoch} cannot be written: {reason}")]
    Unwritable {
        /// The epoch.
        epoch: EpochId,
        /// Which rule.
        reason: String,
    },
}
