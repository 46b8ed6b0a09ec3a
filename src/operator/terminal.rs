//! Where a lane's chain ends: in an exchange, or in a sink.
use super::chain::Push;
use super::context::{LaneContext, Meta, refusal};
use super::error::{BadReason, LaneError, Refused, StepError};
use super::share::LaneShare;
use crate::barrier::Barrier;
use crate::exchange::{Extra, RoutedKey, Router};
use crate::state::KeyRef;
use crate::types::output::encode_headers;
use crate::types::{Header, Misplaced, Origin, OutputRef, Sharding, TimestampMs};
use std::sync::Arc;

/// Writes an item's key bytes; false when the item has no key.
pub type KeyWriter<T> = Arc<dyn Fn(&T, &Meta<'_>, &mut Vec<u8>) -> Result<bool, Refused> + Send + Sync>;

/// `key_by`: sends each item to the lane that owns its key.
pub struct KeyBy<T> {
    id: String,
    key: KeyWriter<T>,
    router: Router<T, Barrier>,
    scratch: Vec<u8>,
}

impl<T> KeyBy<T> {
    /// One lane's instance.
    #[must_use]
    pub fn new(id: String, key: KeyWriter<T>, router: Router<T, Barrier>) -> Self {
        KeyBy {
            id,
            key,
            router,
            scratch: Vec::new(),
        }
    }
}

/// Hash and group of a key. In group mode it must belong to the partition that the record came from.
fn place<'a>(step: &str, bytes: &'a [u8], meta: &Meta<'_>, lane: &LaneContext) -> Result<RoutedKey<'a>, StepError> {
    let groups = &lane.setup.groups;
    let hash = groups.hash(bytes);
    let group = match lane.setup.sharding {
        Sharding::ByKey => groups.group_of(hash),
        Sharding::ByPartition => groups
            .group_in_partition(bytes, hash, meta.origin.partition)
            .map_err(|why| misplaced(step, &why, meta, lane))?,
    };
    Ok(RoutedKey { bytes, hash, group })
}

#[cold]
fn misplaced(step: &str, why: &Misplaced, meta: &Meta<'_>, lane: &LaneContext) -> StepError {
    let info = lane.setup.sources.get(usize::from(meta.origin.source));
    let topic = info.map_or("", |s| s.topic.as_str());
    let Origin { partition, offset, .. } = meta.origin;
    let message = format!("the record at {topic}-{partition} offset {offset} is in the wrong partition: {why}");
    refusal(BadReason::Misplaced, step, message)
}

/// What of the record travels with an item beside its key: headers and the original, each where a step behind may need it.
pub(super) fn extra_of(meta: &Meta<'_>, lane: &LaneContext) -> Option<Box<Extra>> {
    let source = lane.setup.sources.get(usize::from(meta.origin.source))?;
    let headers = if source.keep_headers {
        meta.headers.to_vec()
    } else {
        Vec::new()
    };
    let original = meta.original.filter(|_| source.keep_originals).map(|o| o.to_owned());
    (!headers.is_empty() || original.is_some()).then(|| Box::new(Extra { headers, original }))
}

impl<T> Push<T> for KeyBy<T> {
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        self.scratch.clear();
        match (self.key)(&item, meta, &mut self.scratch) {
            Ok(true) => {}
            Ok(false) => {
                let message = "the record has no key".to_owned();
                return Err(refusal(BadReason::NullKey, &self.id, message));
            }
            Err(refused) => return Err(refused.at(&self.id)),
        }
        let extra = extra_of(meta, lane);
        let key = place(&self.id, &self.scratch, meta, lane)?;
        lane.batch_sent |= self
            .router
            .send(key, meta.timestamp, meta.origin, meta.bytes, extra, item)
            .map_err(StepError::from)?;
        Ok(())
    }
    fn prefetch(&mut self, _keys: &[KeyRef<'_>]) -> Result<(), LaneError> {
        Ok(())
    }
    fn end_batch(&mut self, _applied: u64, lane: &mut LaneContext) -> Result<(), LaneError> {
        let flushed = self.router.flush(lane.watermark);
        lane.meter.blocked(self.router.take_blocked());
        Ok(flushed?)
    }
    fn barrier(&mut self, barrier: Barrier, _share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError> {
        let barrier = Barrier {
            watermark: lane.watermark,
            ..barrier
        };
        let sent = self.router.barrier(barrier, lane.watermark);
        lane.meter.blocked(self.router.take_blocked());
        Ok(sent?)
    }
    fn dirty_bytes(&self) -> usize {
        0
    }
}

/// An output while it is being made.
#[derive(Debug, Default)]
pub struct Output {
    /// The key; starts as the item's key bytes.
    pub key: Option<Vec<u8>>,
    /// The value; None is a tombstone. Starts as empty bytes.
    pub value: Option<Vec<u8>>,
    /// Headers; start empty.
    pub headers: Vec<Header>,
    /// Starts as the item's timestamp.
    pub timestamp: TimestampMs,
    /// Explicit partition; starts as None, which lets the sink's partitioner choose.
    pub partition: Option<i32>,
}

/// Fills an [`Output`] from an item.
pub type Encode<T> = Arc<dyn Fn(&T, &Meta<'_>, &mut Output) -> Result<(), String> + Send + Sync>;

/// Writes items to a sink.
pub struct ToSink<T> {
    id: String,
    sink: u16,
    encode: Encode<T>,
    output: Output,
}

impl<T> ToSink<T> {
    /// One lane's instance.
    #[must_use]
    pub fn new(id: String, sink: u16, encode: Encode<T>) -> Self {
        ToSink {
            id,
            sink,
            encode,
            output: Output::default(),
        }
    }

    fn prepare(&mut self, meta: &Meta<'_>) {
        // The buffers are kept from item to item.
        let out = &mut self.output;
        match meta.key {
            Some(bytes) => {
                let key = out.key.get_or_insert_default();
                key.clear();
                key.extend_from_slice(bytes);
            }
            None => out.key = None,
        }
        out.value.get_or_insert_default().clear();
        out.headers.clear();
        out.timestamp = meta.timestamp;
        out.partition = None;
    }
}

impl<T> Push<T> for ToSink<T> {
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        self.prepare(meta);
        (self.encode)(&item, meta, &mut self.output)
            .map_err(|message| refusal(BadReason::Encode, &self.id, message))?;
        let headers =
            encode_headers(&self.output.headers).map_err(|e| refusal(BadReason::Encode, &self.id, e.to_string()))?;
        let out = OutputRef {
            sink: self.sink,
            timestamp: self.output.timestamp,
            partition: self.output.partition.unwrap_or(-1),
            key: self.output.key.as_deref(),
            value: self.output.value.as_deref(),
            headers: &headers,
        };
        lane.emit(&out, meta, &self.id)
    }
    fn prefetch(&mut self, _keys: &[KeyRef<'_>]) -> Result<(), LaneError> {
        Ok(())
    }
    fn end_batch(&mut self, _applied: u64, _lane: &mut LaneContext) -> Result<(), LaneError> {
        Ok(())
    }
    fn barrier(&mut self, _: Barrier, _: &mut LaneShare, _: &mut LaneContext) -> Result<(), LaneError> {
        Ok(())
    }
    fn dirty_bytes(&self) -> usize {
        0
    }
}

/// A chain that nobody listens to.
pub struct Discard;

impl<T> Push<T> for Discard {
    fn push(&mut self, _item: T, _meta: &Meta<'_>, _lane: &mut LaneContext) -> Result<(), StepError> {
        Ok(())
    }
    fn prefetch(&mut self, _keys: &[KeyRef<'_>]) -> Result<(), LaneError> {
        Ok(())
    }
    fn end_batch(&mut self, _applied: u64, _lane: &mut LaneContext) -> Result<(), LaneError> {
        Ok(())
    }
    fn barrier(&mut self, _: Barrier, _: &mut LaneShare, _: &mut LaneContext) -> Result<(), LaneError> {
        Ok(())
    }
    fn dirty_bytes(&self) -> usize {
        0
    }
}
