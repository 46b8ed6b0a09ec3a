//! What the store knows of a stage without any pointer (EP-6).
use crate::checkpoint::object::{ObjectError, ObjectReader};
use crate::checkpoint::store::{Layout, Store, StoreError};
use crate::types::{Sequence, Shard};
use std::collections::BTreeSet;

/// Whether the store holds an epoch of the stage other than genesis (EP-6). One that cannot be decoded counts: refusing to begin
/// anew is the safe side.
///
/// # Errors
/// When the store cannot be read.
pub fn store_knows(store: &dyn Store, layout: &Layout) -> Result<bool, StoreError> {
    for (path, _) in store.list(&layout.epochs())? {
        if layout.epoch_of(&path).is_none() {
            continue;
        }
        match ObjectReader::open(store, &path, None) {
            Ok(object) if object.header().genesis => {}
            // Removed since it was listed.
            Err(ObjectError::Store(StoreError::NotFound { .. })) => {}
            Err(ObjectError::Store(e)) => return Err(e),
            Ok(_) | Err(ObjectError::Format(_)) => return Ok(true),
        }
    }
    Ok(false)
}

/// The shards of which the store holds a section other than that of a genesis (EP-6, group mode): one of them without a pointer has lost it.
/// None when an object cannot be decoded: any shard may be known then.
///
/// # Errors
/// When the store cannot be read.
pub fn known_shards(store: &dyn Store, layout: &Layout) -> Result<Option<BTreeSet<Shard>>, StoreError> {
    let mut known = BTreeSet::new();
    for (path, _) in store.list(&layout.epochs())? {
        if layout.epoch_of(&path).is_none() {
            continue;
        }
        match ObjectReader::open(store, &path, None) {
            Ok(object) if object.header().genesis => {}
            Ok(object) => known.extend(object.sections().iter().map(|s| s.shard)),
            // Removed since it was listed.
            Err(ObjectError::Store(StoreError::NotFound { .. })) => {}
            Err(ObjectError::Store(e)) => return Err(e),
            Err(ObjectError::Format(_)) => return Ok(None),
        }
    }
    Ok(Some(known))
}

/// The sequence at which the life of a stage's shards begins: 0, or above every one in the store when it knows the stage. Sinks take a
/// sequence that is not greater than their highest for delivered, so one is never given out twice.
///
/// # Errors
/// When the store cannot be read.
pub fn first_sequence(store: &dyn Store, layout: &Layout) -> Result<Sequence, StoreError> {
    let (mut knows, mut highest, mut unreadable) = (false, 0, 0);
    for (path, _) in store.list(&layout.epochs())? {
        if layout.epoch_of(&path).is_none() {
            continue;
        }
        match ObjectReader::open(store, &path, None) {
            Ok(object) => {
                knows |= !object.header().genesis;
                let sequences = object.sections().iter().map(|s| s.link.sequence);
                highest = sequences.fold(highest, Sequence::max);
            }
            Err(ObjectError::Store(StoreError::NotFound { .. })) => {}
            Err(ObjectError::Store(e)) => return Err(e),
            // A sequence grows by one from object to object.
            Err(ObjectError::Format(_)) => unreadable += 1,
        }
    }
    let known = knows || unreadable > 0;
    Ok(if known { highest + unreadable + 1 } else { 0 })
}
