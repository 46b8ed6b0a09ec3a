//! Spreads records over keyed lanes by key group, through bounded channels that also carry barriers and watermarks.
use crate::types::{Header, Headers, KeyGroup, KeyGroups, Origin, OwnedOriginal, TimestampMs, Watermark};
use crossbeam_channel::{Receiver, RecvTimeoutError, Select, Sender, TryRecvError, TrySendError, bounded};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Records of one batch; small enough that a barrier is not kept waiting, large enough that a channel operation costs little.
pub const BATCH_RECORDS_MAX: usize = 1024;
/// Bytes of one batch: keys, headers and originals that travel with the records, for each item the record that it was made of, as it
/// lay on the topic, and the state that it will bring into memory on the other side ([`Inputs::expect`]). These are estimates: what an item
/// takes in memory is up to its type. The record that reaches the limit is the batch's last, so a batch exceeds it by less than one record.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// Batches in one channel. With [`BATCH_RECORDS_MAX`] and [`BATCH_BYTES_MAX`] this bounds what lies between two lanes: the channel's
/// batches, one that the sender fills and one that the receiver works on.
pub const CHANNEL_BATCHES: usize = 8;

/// What few records carry: headers, and the original bytes where a dead letter may need them.
#[derive(Debug, Clone, Default)]
pub struct Extra {
    /// The record's headers.
    pub headers: Vec<Header>,
    /// The record's key and value as they lay on the topic.
    pub original: Option<OwnedOriginal>,
}

impl Extra {
    /// Bytes of headers and original.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let header = |h: &Header| h.key.len() + h.value.as_ref().map_or(0, Vec::len);
        let original = self.original.as_ref().map_or(0, |o| o.borrow().bytes());
        self.headers.iter().map(header).sum::<usize>() + original
    }
}

impl Headers for Extra {
    fn to_vec(&self) -> Vec<Header> {
        self.headers.clone()
    }
}

/// A record between two lanes.
#[derive(Debug)]
pub struct Envelope<T> {
    key_start: u32,
    key_len: u32,
    /// The key's hash (see [`KeyGroups::hash`]).
    pub hash: u32,
    /// The key's group.
    pub group: KeyGroup,
    /// Event timestamp.
    pub timestamp: TimestampMs,
    /// Where the record came from.
    pub origin: Origin,
    /// Key and value of that record in bytes, for [`BATCH_BYTES_MAX`] here and further on.
    pub bytes: usize,
    /// Headers and original bytes, if any.
    pub extra: Option<Box<Extra>>,
    /// The value.
    pub value: T,
}

/// A record's key on its way.
#[derive(Debug, Clone, Copy)]
pub struct RoutedKey<'a> {
    /// The key bytes.
    pub bytes: &'a [u8],
    /// Their hash (see [`KeyGroups::hash`]).
    pub hash: u32,
    /// The key group, which decides about the lane.
    pub group: KeyGroup,
}

/// A run of records for one lane; keys lie in one arena.
#[derive(Debug)]
pub struct Batch<T> {
    keys: Keys,
    bytes: usize,
    /// The records, in order.
    pub records: Vec<Envelope<T>>,
    /// The sender's watermark when it sent the batch.
    pub watermark: Watermark,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Batch {
            keys: Keys::default(),
            bytes: 0,
            records: Vec::new(),
            watermark: Watermark::NONE,
        }
    }
}

impl<T> Batch<T> {
    /// Takes the batch apart: the keys' arena and the records.
    #[must_use]
    pub fn into_parts(self) -> (Keys, Vec<Envelope<T>>) {
        (self.keys, self.records)
    }
}

/// The keys of a batch.
#[derive(Debug, Default)]
pub struct Keys {
    arena: Vec<u8>,
}

impl Keys {
    /// The key bytes of a record of the same batch.
    #[must_use]
    pub fn of<T>(&self, record: &Envelope<T>) -> &[u8] {
        &self.arena[record.key_start as usize..(record.key_start + record.key_len) as usize]
    }
}

/// What a channel carries: records, or the barrier type `B` that ends an epoch.
#[derive(Debug)]
pub enum Message<T, B> {
    /// Records.
    Batch(Batch<T>),
    /// The end of an epoch.
    Barrier(B),
}

/// The other side of a channel is gone: its lane has ended or failed, and has told the driver why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lane at the other end of the exchange has ended")]
pub struct LaneGone;

/// The inputs of one lane, one per upstream lane, and the bytes of state that it expects of a record.
#[derive(Debug)]
struct LaneInputs<T, B> {
    receivers: Vec<Receiver<Message<T, B>>>,
    expected: Arc<AtomicUsize>,
}

impl<T, B> Default for LaneInputs<T, B> {
    fn default() -> Self {
        LaneInputs {
            receivers: Vec::new(),
            expected: Arc::default(),
        }
    }
}

type Channel<T, B> = (Sender<Message<T, B>>, Receiver<Message<T, B>>);

/// Connects the lanes of one exchange while they are being built.
#[derive(Debug)]
pub struct Hub<T, B> {
    inputs: Mutex<Vec<LaneInputs<T, B>>>,
}

impl<T, B> Default for Hub<T, B> {
    fn default() -> Self {
        Hub {
            inputs: Mutex::new(Vec::new()),
        }
    }
}

impl<T, B: Copy> Hub<T, B> {
    /// Connects one upstream lane to all `lanes` downstream lanes.
    pub fn connect(&self, lanes: u32, groups: KeyGroups) -> Router<T, B> {
        let mut inputs = self.inputs.lock();
        let wanted = (lanes as usize).max(inputs.len());
        inputs.resize_with(wanted, LaneInputs::default);
        let (mut senders, mut expected) = (Vec::new(), Vec::new());
        for lane in inputs.iter_mut().take(lanes as usize) {
            let (sender, receiver): Channel<T, B> = bounded(CHANNEL_BATCHES);
            senders.push(sender);
            expected.push(lane.expected.clone());
            lane.receivers.push(receiver);
        }
        let pending = senders.iter().map(|_| Batch::default()).collect();
        Router {
            senders,
            expected,
            pending,
            groups,
            watermark: Watermark::NONE,
            blocked: Duration::ZERO,
        }
    }

    /// The inputs of one downstream lane; every upstream lane must be connected by now.
    pub fn take_inputs(&self, lane: u32) -> Inputs<T, B> {
        let mut inputs = self.inputs.lock();
        let LaneInputs { receivers, expected } = inputs.get_mut(lane as usize).map(std::mem::take).unwrap_or_default();
        Inputs {
            receivers,
            expected,
            next: 0,
        }
    }
}

/// The sending side of an exchange on one lane.
#[derive(Debug)]
pub struct Router<T, B> {
    senders: Vec<Sender<Message<T, B>>>,
    /// Bytes of state that a record brings into the memory of each lane.
    expected: Vec<Arc<AtomicUsize>>,
    pending: Vec<Batch<T>>,
    groups: KeyGroups,
    watermark: Watermark,
    blocked: Duration,
}

impl<T, B: Copy> Router<T, B> {
    /// How long sends have waited for room since the last call.
    pub fn take_blocked(&mut self) -> Duration {
        std::mem::take(&mut self.blocked)
    }

    /// Sends to a lane; the clock is read only when there is no room.
    fn hand_over(&mut self, lane: usize, message: Message<T, B>) -> Result<(), LaneGone> {
        match self.senders[lane].try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(LaneGone),
            Err(TrySendError::Full(message)) => {
                let since = Instant::now();
                let sent = self.senders[lane].send(message).map_err(|_| LaneGone);
                self.blocked += since.elapsed();
                sent
            }
        }
    }

    /// Routes one record, made of one of `bytes` bytes; the batch goes out when it is full, and true says so.
    ///
    /// # Errors
    /// [`LaneGone`]
    pub fn send(
        &mut self,
        key: RoutedKey<'_>,
        timestamp: TimestampMs,
        origin: Origin,
        bytes: usize,
        extra: Option<Box<Extra>>,
        value: T,
    ) -> Result<bool, LaneGone> {
        let lane = self.groups.lane_of(key.group, self.senders.len() as u32) as usize;
        let state = self.expected[lane].load(Ordering::Relaxed);
        let batch = &mut self.pending[lane];
        let key_start = batch.keys.arena.len() as u32;
        batch.keys.arena.extend_from_slice(key.bytes);
        batch.bytes += key.bytes.len() + bytes + state + extra.as_ref().map_or(0, |e| e.bytes());
        batch.records.push(Envelope {
            key_start,
            key_len: key.bytes.len() as u32,
            hash: key.hash,
            group: key.group,
            timestamp,
            origin,
            bytes,
            extra,
            value,
        });
        let full = batch.records.len() >= BATCH_RECORDS_MAX || batch.bytes >= BATCH_BYTES_MAX;
        if full {
            self.flush_lane(lane)?;
        }
        Ok(full)
    }

    fn flush_lane(&mut self, lane: usize) -> Result<(), LaneGone> {
        let fresh = Batch {
            keys: Keys {
                arena: Vec::with_capacity(self.pending[lane].keys.arena.len()),
            },
            bytes: 0,
            records: Vec::with_capacity(self.pending[lane].records.len()),
            watermark: Watermark::NONE,
        };
        let mut batch = std::mem::replace(&mut self.pending[lane], fresh);
        batch.watermark = self.watermark;
        self.hand_over(lane, Message::Batch(batch))
    }

    /// Sends what is pending, with the watermark for batches from now on.
    ///
    /// # Errors
    /// [`LaneGone`]
    pub fn flush(&mut self, watermark: Watermark) -> Result<(), LaneGone> {
        self.watermark = watermark;
        for lane in 0..self.pending.len() {
            if !self.pending[lane].records.is_empty() {
                self.flush_lane(lane)?;
            }
        }
        Ok(())
    }

    /// Sends what is pending and then the barrier, to every lane.
    ///
    /// # Errors
    /// [`LaneGone`]
    pub fn barrier(&mut self, barrier: B, watermark: Watermark) -> Result<(), LaneGone> {
        self.flush(watermark)?;
        (0..self.senders.len()).try_for_each(|lane| self.hand_over(lane, Message::Barrier(barrier)))
    }
}

/// The receiving side of an exchange on one lane.
#[derive(Debug)]
pub struct Inputs<T, B> {
    receivers: Vec<Receiver<Message<T, B>>>,
    expected: Arc<AtomicUsize>,
    next: usize,
}

/// What [`Inputs::next`] found.
#[derive(Debug)]
pub enum Arrival<T, B> {
    /// A message of this input.
    Message(usize, Message<T, B>),
    /// This input has ended.
    Ended(usize),
    /// Nothing came in time.
    Nothing,
}

impl<T, B> Inputs<T, B> {
    /// Number of inputs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.receivers.len()
    }

    /// No inputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.receivers.is_empty()
    }

    /// Tells those upstream how many bytes of state a record brings into this lane's memory: where keys have large states, batches are of few
    /// records, so that what lies before a barrier is bounded by what it will take.
    pub fn expect(&self, state_bytes: usize) {
        self.expected.store(state_bytes, Ordering::Relaxed);
    }

    /// The next message of an input that is not held, round robin; waits up to `max_wait`.
    pub fn next(&mut self, held: impl Fn(usize) -> bool, max_wait: Duration) -> Arrival<T, B> {
        let count = self.receivers.len();
        for step in 0..count {
            let input = (self.next + step) % count;
            if held(input) {
                continue;
            }
            match self.receivers[input].try_recv() {
                Ok(message) => {
                    self.next = (input + 1) % count;
                    return Arrival::Message(input, message);
                }
                Err(TryRecvError::Disconnected) => return Arrival::Ended(input),
                Err(TryRecvError::Empty) => {}
            }
        }
        self.wait(&held, max_wait)
    }

    fn wait(&mut self, held: &impl Fn(usize) -> bool, max_wait: Duration) -> Arrival<T, B> {
        let open: Vec<usize> = (0..self.receivers.len()).filter(|i| !held(*i)).collect();
        if let [input] = open[..] {
            return match self.receivers[input].recv_timeout(max_wait) {
                Ok(message) => Arrival::Message(input, message),
                Err(RecvTimeoutError::Disconnected) => Arrival::Ended(input),
                Err(RecvTimeoutError::Timeout) => Arrival::Nothing,
            };
        }
        let mut select = Select::new();
        for input in &open {
            select.recv(&self.receivers[*input]);
        }
        match select.select_timeout(max_wait) {
            Err(_) => Arrival::Nothing,
            Ok(operation) => {
                let input = open[operation.index()];
                match operation.recv(&self.receivers[input]) {
                    Ok(message) => Arrival::Message(input, message),
                    Err(_) => Arrival::Ended(input),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
