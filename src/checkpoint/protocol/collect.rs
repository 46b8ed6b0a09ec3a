//! What a collection may remove (EP-9).
use super::Identity;
use super::bases::{is_young, third};
use crate::checkpoint::pointer::Pointer;
use crate::sink::Committed;
use std::time::Duration;

/// Why a round of collection removes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// A partition without a pointer: its shard may have state all the same, and its pointer may come back.
    #[error(
        "{topic}-{partition} has no pointer of this stage, and what it would lead to is not known: it gets one with its first commit, or restore its committed offset"
    )]
    NoPointer {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// There is nothing to read pointers of.
    #[error("the stage reads no partition")]
    Nothing,
}

/// The pointer of every partition, or why the round ends here. One that is missing, foreign or unreadable ends it: what it leads to is not
/// known, and must not be taken for garbage.
///
/// # Errors
/// [`Unread`] names the first partition without one.
pub fn every_pointer(
    identity: &Identity,
    partitions: &[(String, i32)],
    committed: &[Committed],
) -> Result<Vec<(i32, Pointer)>, Unread> {
    if partitions.is_empty() {
        return Err(Unread::Nothing);
    }
    let pointer = |(topic, partition): &(String, i32)| {
        let found = committed
            .iter()
            .find(|c| c.topic == *topic && c.partition == *partition);
        let pointer = found
            .filter(|c| c.offset.is_some())
            .and_then(|c| c.metadata.as_deref())
            .and_then(|text| Pointer::parse(text).ok())
            .filter(|p| (p.job, p.store) == (identity.job, identity.store));
        let pointer = pointer.ok_or_else(|| Unread::NoPointer {
            topic: topic.clone(),
            partition: *partition,
        })?;
        Ok((*partition, pointer))
    };
    partitions.iter().map(pointer).collect()
}

/// An object of the store, as a round sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// A pointer, a pin or an outbox that is not delivered leads to it.
    pub reached: bool,
    /// Its age at the mark, by the store's clock.
    pub age_ms: i64,
    /// The round before saw it as garbage, too. A clock that was set forward makes everything old at once, what is being committed now as well;
    /// by the next round that is committed, or written again.
    pub garbage_before: bool,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is needed, or may be.
    Keep,
    /// It looks like garbage: the next round removes it, if it still does.
    Remember,
    /// It is garbage.
    Remove,
}

/// Decides about an object.
#[must_use]
pub fn fate(seen: &Seen, grace: Duration) -> Fate {
    let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
    if seen.reached || seen.age_ms <= grace_ms {
        Fate::Keep
    } else if seen.garbage_before {
        Fate::Remove
    } else {
        Fate::Remember
    }
}

/// Whether a mark may still be swept by: not when it is older than a third of the grace, by the store's clock or by our own.
#[must_use]
pub fn mark_holds(age_ms: i64, elapsed: Duration, grace: Duration) -> bool {
    is_young(age_ms, grace) && elapsed <= third(grace)
}
