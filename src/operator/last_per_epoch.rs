//! The last item of each key in an epoch: it goes on at the barrier, those before it do not.
use super::chain::Push;
use super::context::{LaneContext, Meta};
use super::error::{LaneError, StepError};
use super::keyed::key_of;
use super::keyed_lane::PREFETCH_RECORDS;
use super::share::LaneShare;
use super::terminal::extra_of;
use crate::barrier::Barrier;
use crate::exchange::Extra;
use crate::state::KeyRef;
use crate::types::hash::spread;
use crate::types::{Headers, KeyGroup, NoHeaders, Origin, OwnedOriginal, Shard, TimestampMs};
use hashbrown::HashTable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What an item takes in memory beside its own size, in bytes.
pub type Weight<T> = Arc<dyn Fn(&T) -> usize + Send + Sync>;

/// An item that waits for the barrier, with what is known of its record.
struct Held<T> {
    item: T,
    key: Box<[u8]>,
    hash: u32,
    group: KeyGroup,
    shard: Shard,
    timestamp: TimestampMs,
    origin: Origin,
    record_bytes: usize,
    extra: Option<Box<Extra>>,
    /// Estimate of the memory that this takes.
    bytes: usize,
}

impl<T> Held<T> {
    fn key_ref(&self) -> KeyRef<'_> {
        KeyRef {
            group: self.group,
            hash: self.hash,
            bytes: &self.key,
        }
    }
}

/// One lane's instance. What it holds is part of no epoch yet: after a crash the records are read again.
pub struct LastPerEpoch<T> {
    weight: Weight<T>,
    /// By first arrival of the key in the epoch, which is the order in which they go on.
    held: Vec<Held<T>>,
    index: HashTable<u32>,
    bytes: usize,
    /// Items and bytes as the lane's gauges have them.
    announced: (u64, usize),
    next: Box<dyn Push<T>>,
}

impl<T> LastPerEpoch<T> {
    /// Holding nothing.
    #[must_use]
    pub fn new(weight: Weight<T>, next: Box<dyn Push<T>>) -> Self {
        LastPerEpoch {
            weight,
            held: Vec::new(),
            index: HashTable::new(),
            bytes: 0,
            announced: (0, 0),
            next,
        }
    }

    /// Each held item becomes an output or so: those count before they are made, or an epoch could end with more than a transaction takes.
    fn announce(&mut self, lane: &LaneContext) {
        let gauges = &lane.setup.gauges;
        let now = (self.held.len() as u64, self.bytes);
        let before = std::mem::replace(&mut self.announced, now);
        // Less is a sum that wraps: a lane may have several such operators.
        gauges.held.fetch_add(now.0.wrapping_sub(before.0), Ordering::Relaxed);
        gauges
            .held_bytes
            .fetch_add(now.1.wrapping_sub(before.1), Ordering::Relaxed);
    }

    fn flush(&mut self, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.index.clear();
        self.bytes = 0;
        let held = std::mem::take(&mut self.held);
        self.announce(lane);
        let mut held = held.into_iter().peekable();
        while held.peek().is_some() {
            let batch: Vec<Held<T>> = held.by_ref().take(PREFETCH_RECORDS).collect();
            let keys: Vec<KeyRef<'_>> = batch.iter().map(Held::key_ref).collect();
            self.next.prefetch(&keys)?;
            for held in batch {
                self.pass_on(held, lane)?;
            }
        }
        Ok(())
    }

    fn pass_on(&mut self, held: Held<T>, lane: &mut LaneContext) -> Result<(), LaneError> {
        let extra = held.extra.as_deref();
        let meta = Meta {
            timestamp: held.timestamp,
            origin: held.origin,
            bytes: held.record_bytes,
            key: Some(&held.key),
            hash: held.hash,
            group: held.group,
            shard: held.shard,
            headers: extra.map_or(&NoHeaders as &dyn Headers, |e| e as &dyn Headers),
            original: extra.and_then(|e| e.original.as_ref()).map(OwnedOriginal::borrow),
        };
        let pushed = self.next.push(held.item, &meta, lane);
        lane.settle(pushed, &meta)
    }
}

impl<T> Push<T> for LastPerEpoch<T> {
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        let key = key_of(meta);
        let extra = extra_of(meta, lane);
        // The slab's entry and its place in the index.
        let own = std::mem::size_of::<Held<T>>() + std::mem::size_of::<u32>() * 2;
        let extra_bytes = extra.as_ref().map_or(0, |e| std::mem::size_of::<Extra>() + e.bytes());
        let bytes = own + key.bytes.len() + extra_bytes + (self.weight)(&item);
        let held = &self.held;
        let found = self.index.find(spread(key.hash), |slot| {
            let held = held[*slot as usize].key_ref();
            held.hash == key.hash && held.bytes == key.bytes
        });
        if let Some(slot) = found {
            let held = &mut self.held[*slot as usize];
            self.bytes = self.bytes - held.bytes + bytes;
            held.item = item;
            held.timestamp = meta.timestamp;
            held.origin = meta.origin;
            held.record_bytes = meta.bytes;
            held.extra = extra;
            held.bytes = bytes;
        } else {
            let slot = u32::try_from(self.held.len()).expect("invariant: an epoch has fewer than 2^32 keys");
            self.held.push(Held {
                item,
                key: key.bytes.into(),
                hash: key.hash,
                group: key.group,
                shard: meta.shard,
                timestamp: meta.timestamp,
                origin: meta.origin,
                record_bytes: meta.bytes,
                extra,
                bytes,
            });
            self.bytes += bytes;
            let held = &self.held;
            let rehash = |slot: &u32| spread(held[*slot as usize].hash);
            self.index.insert_unique(spread(key.hash), slot, rehash);
        }
        Ok(())
    }
    fn prefetch(&mut self, _keys: &[KeyRef<'_>]) -> Result<(), LaneError> {
        // What follows needs its keys at the barrier.
        Ok(())
    }
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.announce(lane);
        self.next.end_batch(applied, lane)
    }
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError> {
        // Before the barrier is passed on: the items belong to the epoch that ends.
        self.flush(lane)?;
        self.next.barrier(barrier, share, lane)
    }
    fn dirty_bytes(&self) -> usize {
        self.bytes + self.next.dirty_bytes()
    }
}
