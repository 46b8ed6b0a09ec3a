//! Finding committed state again: from a pointer to the sections of all shards, and from a section back along its parent links.
//!
//! Everything is verified before it is used: an object's footer against the digest in the link that led to it, header and sections
//! against the footer. A section that the links do not reach (dropped, rewritten, fenced) is never looked at.
use super::base::BaseError;
use super::object::{Based, Header, ObjectError, ObjectReader, Section};
use super::pointer::{Pointer, job_hash};
use super::protocol::{Expected, Refusal, check_object, check_origin, outweighs};
use super::store::{Layout, ObjectPath, Store, StoreError, StoreErrorKind};
use crate::state::backend::Applied;
use crate::types::{BaseLink, EpochId, Link, Position, Sequence, Shard, TimestampMs};
use std::collections::BTreeMap;

mod known;
#[cfg(test)]
mod tests;

pub use known::{first_sequence, known_shards, store_knows};

/// A restore that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The local copy equals a section that the committed state was not made from: wipe it and plan again from empty.
    #[error(
        "the local copy of shard {shard} stands at sequence {sequence} of epoch {epoch}, which is not on the way to the committed \
         section; it is thrown away and restored from the checkpoint store"
    )]
    NotOnChain {
        /// The shard.
        shard: Shard,
        /// Sequence of the local copy.
        sequence: Sequence,
        /// Epoch of the local copy.
        epoch: EpochId,
    },
    /// The local copy is older than the shard's base, and what would bring it up has been collected: wipe it and plan again from empty.
    #[error(
        "the local copy of shard {shard} stands at sequence {sequence}, before the shard's base, and the way from there is gone or longer than \
         the base; it is thrown away and restored from the base"
    )]
    BeforeBase {
        /// The shard.
        shard: Shard,
        /// Sequence of the local copy.
        sequence: Sequence,
    },
    /// An object of the shard's base is missing, damaged or cannot be read.
    #[error("restoring shard {shard} needs its base of sequence {sequence}: {source}")]
    Base {
        /// The shard.
        shard: Shard,
        /// The section that the base equals.
        sequence: Sequence,
        /// What is wrong with it; names its path and what to do.
        source: BaseError,
    },
    /// An object that the committed state needs is missing, damaged or cannot be read.
    #[error("restoring shard {shard} needs sequence {sequence} of epoch {epoch}: {source}")]
    Object {
        /// The shard.
        shard: Shard,
        /// The section's sequence.
        sequence: Sequence,
        /// The epoch.
        epoch: EpochId,
        /// What is wrong with it; names its path and what to do.
        source: ObjectError,
    },
    /// The object that the committed pointer names is missing, damaged or cannot be read.
    #[error("the committed pointer names epoch {epoch}: {source}")]
    Pointed {
        /// The epoch.
        epoch: EpochId,
        /// What is wrong with it; names its path and what to do.
        source: ObjectError,
    },
    /// An object that verifies and yet contradicts the link to it.
    #[error(
        "epoch object {path} does not fit the link to it (epoch {epoch}, shard {shard}): {reason}; it was written by another program or \
         copied in from another job: bring back the checkpoint store as it was"
    )]
    Contradiction {
        /// The object's path.
        path: String,
        /// The epoch.
        epoch: EpochId,
        /// The shard.
        shard: Shard,
        /// What does not fit.
        reason: String,
    },
    /// Nobody needs the shard any more.
    #[error("restoring shard {shard} was stopped: it was taken back")]
    Stopped {
        /// The shard.
        shard: Shard,
    },
    /// The object belongs to another job or configuration.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl RestoreError {
    /// The store's failure, when it is one; a retriable one is worth trying again.
    #[must_use]
    pub fn store(&self) -> Option<&StoreError> {
        match self {
            RestoreError::Object {
                source: ObjectError::Store(e),
                ..
            }
            | RestoreError::Pointed {
                source: ObjectError::Store(e),
                ..
            }
            | RestoreError::Base {
                source: BaseError::Store(e),
                ..
            } => Some(e),
            _ => None,
        }
    }
}

/// What has to be replayed over a shard's local copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The shard.
    pub shard: Shard,
    /// The sections after the applied one up to the target, oldest first; empty when the copy is up to date.
    pub links: Vec<Link>,
}

/// A shard as the committed pointer has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardState {
    /// Link to its last committed section.
    pub link: Link,
    /// Where to go on reading.
    pub positions: Vec<Position>,
    /// Its watermark.
    pub watermark: Option<TimestampMs>,
    /// The base that a copy is made from again, and how long the chain behind it was.
    pub base: Option<Based>,
    /// State of operators that is not keyed.
    pub operator_state: Vec<u8>,
    /// Sections up to this one have been delivered to outbox sinks.
    pub outbox_delivered: Sequence,
}

/// What a pointer leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedEpoch {
    /// Header of the object that the pointer names.
    pub header: Header,
    /// Every shard with a committed section.
    pub shards: BTreeMap<Shard, ShardState>,
}

impl ResolvedEpoch {
    /// The positions of all partitions, gathered from the shards' sections.
    #[must_use]
    pub fn positions(&self) -> Vec<Position> {
        self.shards.values().flat_map(|s| s.positions.iter().cloned()).collect()
    }
    /// The highest sequence among the shards.
    #[must_use]
    pub fn max_sequence(&self) -> Sequence {
        self.shards.values().map(|s| s.link.sequence).max().unwrap_or(0)
    }
    /// The links to the last committed sections, as a header and the driver keep them.
    #[must_use]
    pub fn links(&self) -> Vec<(Shard, Link)> {
        self.shards.iter().map(|(shard, state)| (*shard, state.link)).collect()
    }
}

/// Reads the objects of one stage.
#[derive(Clone, Copy)]
pub struct Chain<'a> {
    store: &'a dyn Store,
    layout: &'a Layout,
    expected: &'a Expected,
    stop: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl<'a> Chain<'a> {
    /// The store and where the stage's objects lie in it.
    pub(crate) fn place(&self) -> (&'a dyn Store, &'a Layout) {
        (self.store, self.layout)
    }

    /// `expected` is what the objects must say.
    #[must_use]
    pub fn new(store: &'a dyn Store, layout: &'a Layout, expected: &'a Expected) -> Chain<'a> {
        Chain {
            store,
            layout,
            expected,
            stop: None,
        }
    }

    /// The groups that the objects must have.
    pub(crate) fn groups(&self) -> crate::types::KeyGroups {
        self.expected.groups
    }

    /// Walks the links and replays sections only until `stop` says true: a chain may be long.
    #[must_use]
    pub fn until(self, stop: &'a (dyn Fn() -> bool + Sync)) -> Chain<'a> {
        Chain {
            stop: Some(stop),
            ..self
        }
    }

    /// Opens the object that the committed pointer names, checks that the job can go on from it, and finds every shard's last
    /// committed section.
    ///
    /// # Errors
    /// [`RestoreError`], naming the object.
    pub fn resolve(&self, pointer: &Pointer) -> Result<ResolvedEpoch, RestoreError> {
        let path = self.layout.epoch(pointer.epoch);
        let object = self.pointed(pointer, &path)?;
        let mut shards = BTreeMap::new();
        for shard in (0..object.header().groups.shards).map(Shard) {
            if let Some(link) = object.link(shard) {
                shards.insert(shard, self.shard_state(&object, shard, link)?);
            }
        }
        Ok(ResolvedEpoch {
            header: object.header().clone(),
            shards,
        })
    }

    /// As [`Chain::resolve`], for the one shard that the pointer was committed for (group mode).
    ///
    /// # Errors
    /// [`RestoreError`], naming the object.
    pub fn resolve_shard(&self, pointer: &Pointer, shard: Shard) -> Result<ShardState, RestoreError> {
        let path = self.layout.epoch(pointer.epoch);
        let object = self.pointed(pointer, &path)?;
        let link = object.link(shard).ok_or_else(|| {
            let reason = "it leads to no section of the shard whose pointer names it".to_owned();
            self.contradiction(pointer.epoch, shard, reason)
        })?;
        self.shard_state(&object, shard, link)
    }

    fn pointed<'o>(&self, pointer: &Pointer, path: &'o ObjectPath) -> Result<ObjectReader<'o>, RestoreError>
    where
        'a: 'o,
    {
        let epoch = pointer.epoch;
        let pointed = |source| RestoreError::Pointed { epoch, source };
        let object = ObjectReader::open(self.store, path, Some(pointer.footer)).map_err(pointed)?;
        check_object(object.header(), self.expected)?;
        self.check_epoch(&object, epoch, Shard(0))?;
        let ids = (self.job(), self.store.id());
        if (pointer.job, pointer.store) != ids {
            return Err(self.contradiction(
                epoch,
                Shard(0),
                "the pointer is another job's or leads into another store".into(),
            ));
        }
        Ok(object)
    }

    fn shard_state(&self, object: &ObjectReader<'_>, shard: Shard, link: Link) -> Result<ShardState, RestoreError> {
        let section = if link.footer == object.footer() && link.epoch == object.header().epoch {
            self.section_of(object, shard, &link, false)?
        } else {
            self.section_with(shard, &link, false)?
        };
        Ok(ShardState {
            link,
            positions: section.positions,
            watermark: section.watermark,
            base: section.base,
            operator_state: section.operator_state,
            outbox_delivered: section.outbox_delivered,
        })
    }

    /// [`job_hash`] of the job and stage whose chain it is.
    #[must_use]
    pub fn job(&self) -> u64 {
        job_hash(self.layout.job(), self.layout.stage())
    }

    /// Plans how to bring a local copy that stands at `applied` (None: empty) to `target`. Collects links only: the tail may be long. A copy
    /// that is older than `base` is brought up along the links as long as they are there and that is sooner done than from the base.
    ///
    /// # Errors
    /// [`RestoreError::NotOnChain`] and [`RestoreError::BeforeBase`] when the copy must be wiped first; any other when an object of the chain
    /// is missing or damaged.
    pub fn plan(
        &self,
        shard: Shard,
        target: Link,
        applied: Option<Applied>,
        base: Option<&BaseLink>,
    ) -> Result<Tail, RestoreError> {
        let not_on_chain = |a: Applied| RestoreError::NotOnChain {
            shard,
            sequence: a.sequence,
            epoch: a.epoch,
        };
        if let Some(a) = applied.filter(|a| a.sequence > target.sequence) {
            return Err(not_on_chain(a));
        }
        let mut links = Vec::new();
        let mut next = Some(target);
        let mut bytes_before_base = 0u64;
        loop {
            // Past genesis without meeting the copy: it stems from a life of the shard before this one.
            let Some(link) = next else {
                applied.map_or(Ok(()), |a| Err(not_on_chain(a)))?;
                break;
            };
            if let Some(a) = applied.filter(|a| a.sequence == link.sequence) {
                if a.epoch != link.epoch || a.footer != link.footer {
                    return Err(not_on_chain(a));
                }
                break;
            }
            self.go_on(shard)?;
            let before = base.filter(|base| link.sequence <= base.sequence);
            next = match (self.parent(shard, &link), before, applied) {
                (Ok(parent), Some(base), Some(a)) => {
                    bytes_before_base += link.place.len;
                    if outweighs(bytes_before_base, base.bytes) {
                        return Err(before_base(shard, a));
                    }
                    parent
                }
                // What lies before the base is garbage, and may be gone.
                (Err(e), Some(_), Some(a)) if !may_pass(&e) => return Err(before_base(shard, a)),
                (parent, ..) => parent?,
            };
            links.push(link);
        }
        links.reverse();
        Ok(Tail { shard, links })
    }

    fn parent(&self, shard: Shard, link: &Link) -> Result<Option<Link>, RestoreError> {
        let path = self.layout.epoch(link.epoch);
        let object = self.open(shard, link, &path)?;
        let here = object.sections().iter().find(|e| e.shard == shard);
        if here.is_none_or(|entry| entry.link.sequence != link.sequence) {
            // Says what is wrong.
            return Ok(self.section_of(&object, shard, link, false)?.parent);
        }
        let parent = object.parent(shard).map_err(|e| object_error(shard, link, e))?;
        Ok(parent.flatten())
    }

    /// Stops when nobody needs the shard any more.
    ///
    /// # Errors
    /// [`RestoreError::Stopped`]
    pub(crate) fn go_on(&self, shard: Shard) -> Result<(), RestoreError> {
        if self.stop.is_some_and(|stop| stop()) {
            return Err(RestoreError::Stopped { shard });
        }
        Ok(())
    }

    /// Reads the sections of a tail, oldest first, one at a time, and hands each to `apply`.
    ///
    /// # Errors
    /// What `apply` returns, or [`RestoreError`] when an object is missing or damaged; the sections before it have been handed out.
    pub fn replay<E: From<RestoreError>>(
        &self,
        tail: &Tail,
        mut apply: impl FnMut(&Link, Section) -> Result<(), E>,
    ) -> Result<(), E> {
        for link in &tail.links {
            self.go_on(tail.shard)?;
            apply(link, self.section(tail.shard, link)?)?;
        }
        Ok(())
    }

    /// The sections whose outputs have not been delivered to the outbox sinks, as far as `target` knows: oldest first, those without
    /// outputs left out.
    ///
    /// # Errors
    /// [`RestoreError`], naming the object.
    pub fn undelivered(&self, shard: Shard, target: Link) -> Result<Vec<Link>, RestoreError> {
        let delivered = self.section_with(shard, &target, false)?.outbox_delivered;
        let mut links = Vec::new();
        let mut next = Some(target);
        while let Some(link) = next.filter(|l| l.sequence > delivered) {
            let section = self.section_with(shard, &link, false)?;
            if !section.outbox.is_empty() {
                links.push(link);
            }
            next = section.parent;
        }
        links.reverse();
        Ok(links)
    }

    /// Reads and verifies the section that a link names.
    ///
    /// # Errors
    /// [`RestoreError`], naming the object.
    pub fn section(&self, shard: Shard, link: &Link) -> Result<Section, RestoreError> {
        self.section_with(shard, link, true)
    }

    /// The same, with the outbox sinks that the section's output frames name.
    ///
    /// # Errors
    /// [`RestoreError`], naming the object.
    pub fn outbox(&self, shard: Shard, link: &Link) -> Result<(Vec<(u16, String)>, Section), RestoreError> {
        let path = self.layout.epoch(link.epoch);
        let object = self.open(shard, link, &path)?;
        let section = self.section_of(&object, shard, link, false)?;
        Ok((object.header().outbox_sinks.clone(), section))
    }

    fn section_with(&self, shard: Shard, link: &Link, changes: bool) -> Result<Section, RestoreError> {
        let path = self.layout.epoch(link.epoch);
        let object = self.open(shard, link, &path)?;
        self.section_of(&object, shard, link, changes)
    }

    fn open<'o>(&self, shard: Shard, link: &Link, path: &'o ObjectPath) -> Result<ObjectReader<'o>, RestoreError>
    where
        'a: 'o,
    {
        let opened = ObjectReader::open(self.store, path, Some(link.footer));
        let object = opened.map_err(|e| object_error(shard, link, e))?;
        check_origin(object.header(), self.expected)?;
        self.check_epoch(&object, link.epoch, shard)?;
        Ok(object)
    }

    fn section_of(
        &self,
        object: &ObjectReader<'_>,
        shard: Shard,
        link: &Link,
        changes: bool,
    ) -> Result<Section, RestoreError> {
        let read = if changes {
            object.section(shard)
        } else {
            object.section_without_changes(shard)
        };
        let section = read.map_err(|e| object_error(shard, link, e))?;
        let section = section
            .ok_or_else(|| self.contradiction(link.epoch, shard, "it has no section of the shard".to_owned()))?;
        if section.sequence != link.sequence {
            let reason = format!("its section has sequence {}, not {}", section.sequence, link.sequence);
            return Err(self.contradiction(link.epoch, shard, reason));
        }
        Ok(section)
    }

    fn check_epoch(&self, object: &ObjectReader<'_>, epoch: EpochId, shard: Shard) -> Result<(), RestoreError> {
        let found = object.header().epoch;
        if found == epoch {
            return Ok(());
        }
        Err(self.contradiction(epoch, shard, format!("it holds epoch {found}")))
    }

    fn contradiction(&self, epoch: EpochId, shard: Shard, reason: String) -> RestoreError {
        RestoreError::Contradiction {
            path: self.layout.epoch(epoch).to_string(),
            epoch,
            shard,
            reason,
        }
    }
}

/// Whether it may be there all the same.
pub(crate) fn may_pass(error: &RestoreError) -> bool {
    let stopped = matches!(error, RestoreError::Stopped { .. });
    stopped || error.store().is_some_and(|e| e.kind() == StoreErrorKind::Retriable)
}

fn before_base(shard: Shard, applied: Applied) -> RestoreError {
    RestoreError::BeforeBase {
        shard,
        sequence: applied.sequence,
    }
}

fn object_error(shard: Shard, link: &Link, source: ObjectError) -> RestoreError {
    RestoreError::Object {
        shard,
        sequence: link.sequence,
        epoch: link.epoch,
        source,
    }
}
