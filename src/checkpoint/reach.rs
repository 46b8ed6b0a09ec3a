//! What pointers lead to: every object that a restore from them may read, or the delivery of an outbox.
//!
//! Everything is verified on the way, as for a restore: a link that was damaged must not lead past what is needed.
use super::base::{BaseError, manifest_of};
use super::object::{ObjectError, ObjectReader};
use super::pointer::Pointer;
use super::store::{Layout, ObjectPath, Store};
use crate::types::{BaseId, EpochId, Link, Shard};
use std::collections::{BTreeSet, HashMap};

#[cfg(test)]
mod tests;

/// Something that a pointer leads to cannot be read, so what it leads to is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReachError {
    /// An epoch object.
    #[error("shard {shard}, epoch {epoch}: {source}")]
    Object {
        /// The shard.
        shard: Shard,
        /// The epoch.
        epoch: EpochId,
        /// What is wrong with it.
        source: ObjectError,
    },
    /// A base.
    #[error("shard {shard}: {source}")]
    Base {
        /// The shard.
        shard: Shard,
        /// What is wrong with it.
        source: BaseError,
    },
    /// An object that does not lead where it should.
    #[error("epoch {epoch} leads to no section of shard {shard}")]
    NoSection {
        /// The shard.
        shard: Shard,
        /// The epoch.
        epoch: EpochId,
    },
}

/// Follows pointers. What it has read of an object it does not read again: objects never change.
#[derive(Default)]
pub struct Reach {
    parents: HashMap<(EpochId, Shard), Option<Link>>,
    bases: HashMap<BaseId, Vec<ObjectPath>>,
    next_parents: HashMap<(EpochId, Shard), Option<Link>>,
    next_bases: HashMap<BaseId, Vec<ObjectPath>>,
    reached: BTreeSet<ObjectPath>,
}

impl Reach {
    /// Begins a round: forgets what the one before has reached, and keeps what it knows of it.
    pub fn begin(&mut self) {
        self.reached.clear();
        self.parents = std::mem::take(&mut self.next_parents);
        self.bases = std::mem::take(&mut self.next_bases);
    }

    /// What has been reached in this round.
    #[must_use]
    pub fn reached(&self) -> &BTreeSet<ObjectPath> {
        &self.reached
    }

    /// Reaches what a pointer leads to for one shard (group mode), or for all that its object knows.
    ///
    /// # Errors
    /// [`ReachError`]
    pub fn follow(
        &mut self,
        (store, layout): (&dyn Store, &Layout),
        pointer: &Pointer,
        only: Option<Shard>,
    ) -> Result<(), ReachError> {
        let path = layout.epoch(pointer.epoch);
        let of_object = |source| ReachError::Object {
            shard: only.unwrap_or(Shard(0)),
            epoch: pointer.epoch,
            source,
        };
        let object = ObjectReader::open(store, &path, Some(pointer.footer)).map_err(of_object)?;
        self.reached.insert(path.clone());
        let shards: Vec<Shard> = match only {
            Some(shard) => vec![shard],
            None => (0..object.header().groups.shards).map(Shard).collect(),
        };
        for shard in shards {
            let link = object.link(shard).ok_or(ReachError::NoSection {
                shard,
                epoch: pointer.epoch,
            })?;
            self.shard((store, layout), shard, link)?;
        }
        Ok(())
    }

    /// The shards that the object of a pointer has sections of.
    ///
    /// # Errors
    /// [`ReachError`]
    pub fn sections_of((store, layout): (&dyn Store, &Layout), pointer: &Pointer) -> Result<Vec<Shard>, ReachError> {
        let path = layout.epoch(pointer.epoch);
        let of_object = |source| ReachError::Object {
            shard: Shard(0),
            epoch: pointer.epoch,
            source,
        };
        let object = ObjectReader::open(store, &path, Some(pointer.footer)).map_err(of_object)?;
        Ok(object.sections().iter().map(|entry| entry.shard).collect())
    }

    fn shard(&mut self, (store, layout): (&dyn Store, &Layout), shard: Shard, target: Link) -> Result<(), ReachError> {
        let path = layout.epoch(target.epoch);
        let of_object = |source| object_error(shard, &target, source);
        let object = ObjectReader::open(store, &path, Some(target.footer)).map_err(of_object)?;
        let section = object.section_without_changes(shard).map_err(of_object)?;
        let section = section.ok_or(ReachError::NoSection {
            shard,
            epoch: target.epoch,
        })?;
        // Sections up to the base's are in the base. What is not delivered is needed behind it, too.
        let in_base = section.base.map(|based| based.base.sequence);
        let delivered = match object.header().outbox_sinks.is_empty() {
            true => None,
            false => Some(section.outbox_delivered),
        };
        let done = in_base.map(|in_base| delivered.map_or(in_base, |delivered| in_base.min(delivered)));
        if let Some(based) = section.base {
            self.base((store, layout), shard, &based.base)?;
        }
        let mut next = Some(target);
        while let Some(link) = next.filter(|link| done.is_none_or(|done| link.sequence > done)) {
            self.reached.insert(layout.epoch(link.epoch));
            next = self.parent((store, layout), shard, &link)?;
        }
        Ok(())
    }

    fn parent(
        &mut self,
        (store, layout): (&dyn Store, &Layout),
        shard: Shard,
        link: &Link,
    ) -> Result<Option<Link>, ReachError> {
        let known = self.parents.get(&(link.epoch, shard)).copied();
        let parent = match known {
            Some(parent) => parent,
            None => {
                let path = layout.epoch(link.epoch);
                let of_object = |source| object_error(shard, link, source);
                let object = ObjectReader::open(store, &path, Some(link.footer)).map_err(of_object)?;
                object.parent(shard).map_err(of_object)?.ok_or(ReachError::NoSection {
                    shard,
                    epoch: link.epoch,
                })?
            }
        };
        self.next_parents.insert((link.epoch, shard), parent);
        Ok(parent)
    }

    fn base(
        &mut self,
        (store, layout): (&dyn Store, &Layout),
        shard: Shard,
        base: &crate::types::BaseLink,
    ) -> Result<(), ReachError> {
        let paths = match self.bases.remove(&base.id) {
            Some(paths) => paths,
            None => {
                let of_base = |source| ReachError::Base { shard, source };
                let manifest = manifest_of(store, layout, shard, base).map_err(of_base)?;
                let pieces = manifest.pieces.iter().map(|p| layout.base_piece(p.base, p.number));
                pieces.chain([layout.base_manifest(base.id)]).collect()
            }
        };
        self.reached.extend(paths.iter().cloned());
        self.next_bases.insert(base.id, paths);
        Ok(())
    }
}

fn object_error(shard: Shard, link: &Link, source: ObjectError) -> ReachError {
    ReachError::Object {
        shard,
        epoch: link.epoch,
        source,
    }
}
