//! A source that is read no faster than a given rate, so that there is a middle to be killed in.
use keyfold::source::{Flow, RecordSink, Source, SourceError, SourceReader};
use keyfold::types::{Clock, Position, RecordRef, SystemClock, TopicInfo};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a reader sleeps when it is ahead of its rate.
const STEP: Duration = Duration::from_millis(2);
/// What a pause saves up at most: after a slow epoch there is no flood.
const BURST: Duration = Duration::from_millis(50);

/// The positions at which a source was opened.
#[derive(Debug, Clone, Default)]
pub struct Opened(Arc<Mutex<Option<Vec<Position>>>>);

impl Opened {
    /// None before the job reads.
    pub fn positions(&self) -> Option<Vec<Position>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, positions: Vec<Position>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(positions);
    }
}

/// Another source, paced.
pub struct Paced {
    inner: Box<dyn Source>,
    rate: u64,
    opened: Opened,
}

impl Paced {
    /// `rate` is in records a second over all lanes.
    pub fn new(inner: Box<dyn Source>, rate: u64) -> Paced {
        Paced {
            inner,
            rate,
            opened: Opened::default(),
        }
    }

    /// Tells where reading began.
    pub fn opened(&self) -> Opened {
        self.opened.clone()
    }
}

impl Source for Paced {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    fn topic(&self) -> String {
        self.inner.topic()
    }
    fn topic_info(&mut self) -> Result<TopicInfo, SourceError> {
        self.inner.topic_info()
    }
    fn start_positions(&mut self) -> Result<Vec<Position>, SourceError> {
        self.inner.start_positions()
    }
    fn open(&mut self, lanes: &[Vec<Position>]) -> Result<Vec<Box<dyn SourceReader>>, SourceError> {
        let readers = self.inner.open(lanes)?;
        self.opened.set(lanes.concat());
        let rate = (self.rate / lanes.len().max(1) as u64).max(1);
        let paced = |inner| Box::new(PacedReader::new(inner, rate)) as Box<dyn SourceReader>;
        Ok(readers.into_iter().map(paced).collect())
    }
    fn serve(&mut self) -> Result<(), SourceError> {
        self.inner.serve()
    }
    fn close(&mut self) {
        self.inner.close();
    }
}

struct PacedReader {
    inner: Box<dyn SourceReader>,
    rate: u64,
    clock: SystemClock,
    /// Time that has been paid out in records.
    spent: Duration,
}

impl PacedReader {
    fn new(inner: Box<dyn SourceReader>, rate: u64) -> PacedReader {
        PacedReader {
            inner,
            rate,
            clock: SystemClock::default(),
            spent: Duration::ZERO,
        }
    }

    fn allowed(&mut self) -> u64 {
        let now = self.clock.elapsed();
        self.spent = self.spent.max(now.saturating_sub(BURST));
        (now.saturating_sub(self.spent).as_secs_f64() * self.rate as f64) as u64
    }
}

impl SourceReader for PacedReader {
    fn poll(&mut self, max_wait: Duration, out: &mut dyn RecordSink) -> Result<(), SourceError> {
        let allowed = self.allowed();
        if allowed == 0 {
            self.clock.sleep(max_wait.min(STEP));
            return Ok(());
        }
        let mut limited = Limited { out, left: allowed };
        let polled = self.inner.poll(max_wait, &mut limited);
        let handed = allowed - limited.left;
        self.spent += Duration::from_secs_f64(handed as f64 / self.rate as f64);
        polled
    }
}

struct Limited<'a> {
    out: &'a mut dyn RecordSink,
    left: u64,
}

impl RecordSink for Limited<'_> {
    fn record(&mut self, record: &RecordRef<'_>) -> Flow {
        let flow = self.out.record(record);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 { Flow::Stop } else { flow }
    }
    fn end_of_partition(&mut self, topic: &str, partition: i32, offset: i64, leader_epoch: i32) {
        self.out.end_of_partition(topic, partition, offset, leader_epoch);
    }
}
