//! What every backend checks before it applies a section (EP-4).
use super::Applied;
use crate::state::key::RESERVED_GROUP;

/// Checks that `next` may go on top of `last`: it is of the same shard, and sequences only grow along a shard's history. A gap is fine (several committed epochs may be
/// merged into one write), and an empty copy takes any section: the first of a base, or genesis.
pub(super) fn check_follows(last: Option<&Applied>, next: &Applied) -> Result<(), String> {
    last.map_or(Ok(()), |last| last.check_of(next.job, next.shard))?;
    match last {
        Some(last) if next.sequence <= last.sequence => Err(format!(
            "EP-4: section {} of epoch {} does not follow the applied section {} of epoch {}",
            next.sequence, next.epoch, last.sequence, last.epoch
        )),
        _ => Ok(()),
    }
}

/// Checks that a change is not for one of the backend's own rows.
pub(super) fn check_key(key: &[u8]) -> Result<(), String> {
    if key.starts_with(&RESERVED_GROUP) {
        return Err("a change names one of the local copy's own rows".to_owned());
    }
    Ok(())
}
