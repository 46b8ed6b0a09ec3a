//! What the protocol refuses, and the way out of each.
use crate::types::{EpochId, Shard};

/// A decision not to go on. Stops the job with exit code 13, before anything is changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The store holds epochs of the stage, and nothing is committed for it (EP-6): offsets have expired or were deleted, or this is
    /// another Kafka cluster or group.
    #[error(
        "the checkpoint store holds committed state of this stage, and no offset is committed for any of its partitions ({partitions}): \
         offsets expired or were deleted, the job reads other topics now, or this is another cluster. Bring the offsets or the topics back, or start with accept_lost_pointers to begin \
         again with empty state at the start positions"
    )]
    PointersLost {
        /// `topic-partition`, joined by commas.
        partitions: String,
    },
    /// Some partitions have a committed offset, this one has none.
    #[error(
        "partition {topic}-{partition} has no committed offset while others of the stage have one: it expired, was deleted, the topic \
         has grown, or it was added to the job. Leave an added topic out, bring back the offset with its pointer, or delete the offsets of the whole group and start with accept_lost_pointers"
    )]
    OffsetMissing {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// An offset without a pointer: committed by another program.
    #[error(
        "offset {offset} of {topic}-{partition} was committed without a pointer to its state, by another program or an offset reset. \
         Commit the former offset with its metadata again, or delete the offsets of the whole group and start with accept_lost_pointers"
    )]
    PointerMissing {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The committed offset.
        offset: i64,
    },
    /// Metadata that is no pointer of a format that this version knows.
    #[error(
        "the metadata of offset {offset} of {topic}-{partition} is no pointer: {metadata}. Another program commits under this group, or \
         a later version wrote it: stop that program and bring the metadata back, or run that version"
    )]
    PointerUnreadable {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The committed offset.
        offset: i64,
        /// The metadata, escaped and cut.
        metadata: String,
    },
    /// The pointer belongs to another job or stage.
    #[error(
        "the pointer of {topic}-{partition} (epoch {epoch}) belongs to job hash {found:016x}, this stage is {expected:016x}. Give the job \
         the ids it had, or its own group"
    )]
    OtherJob {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The pointer's epoch.
        epoch: EpochId,
        /// Job hash of the pointer.
        found: u64,
        /// Job hash of this stage.
        expected: u64,
    },
    /// The pointer leads into another store.
    #[error(
        "the pointer of {topic}-{partition} (epoch {epoch}) leads into store {found:016x}, the configured store is {expected:016x}. \
         Configure the store that holds this job's state"
    )]
    OtherStore {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The pointer's epoch.
        epoch: EpochId,
        /// Store id of the pointer.
        found: u64,
        /// Id of the configured store.
        expected: u64,
    },
    /// Partitions of one stage in single mode carry different pointers.
    #[error(
        "the pointers differ: {topic}-{partition} names epoch {epoch}, {other_topic}-{other_partition} names epoch {other_epoch}. All are \
         committed together in single mode, so this is a job in group mode (go on in group mode), or some were written by another program or an \
         offset reset (bring back those of one epoch)"
    )]
    PointersDiffer {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The epoch it names.
        epoch: EpochId,
        /// Another partition's topic.
        other_topic: String,
        /// Another partition.
        other_partition: i32,
        /// The epoch that one names.
        other_epoch: EpochId,
    },
    /// What is committed is not what the stage reads.
    #[error(
        "{topic}-{partition} {problem}. A stage goes on with exactly the partitions that its state was made from: restore the topic's \
         partition count, or start a new job id"
    )]
    PartitionsDiffer {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A committed offset that the state was not made from (EP-6).
    #[error(
        "offset {committed} is committed for {topic}-{partition}, the state of epoch {epoch} was made up to {state}: the offset was reset \
         by another program. Commit {state} with its metadata again, or begin again with a new job id"
    )]
    OffsetMoved {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The committed offset; -1 for none.
        committed: i64,
        /// The position in the section; -1 for none.
        state: i64,
        /// The epoch that the pointer names.
        epoch: EpochId,
    },
    /// The object belongs to another configuration.
    #[error("epoch object {epoch} has {what} {found}, this job has {expected}; {way_out}")]
    ObjectDiffers {
        /// The epoch.
        epoch: EpochId,
        /// What differs.
        what: String,
        /// In the object.
        found: String,
        /// In the job.
        expected: String,
        /// What to do.
        way_out: &'static str,
    },
    /// The epoch was not built on what is committed (EP-3).
    #[error(
        "the section of shard {shard} with sequence {sequence} was built on {built_on}, committed is {committed}: it is not published. \
         Restart to go on from the committed state; report this, it is a bug"
    )]
    NotOnTop {
        /// The shard.
        shard: Shard,
        /// The section's sequence.
        sequence: u64,
        /// The parent, in words.
        built_on: String,
        /// What is committed, in words.
        committed: String,
    },
}
