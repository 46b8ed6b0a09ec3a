//! Hands generated records out.
use crate::config::{DatagenConfig, Shape};
use crate::error::DatagenError;
use crate::generator::Generator;
use keyfold::source::{Flow, RecordSink, Source, SourceError, SourceReader};
use keyfold::types::{Clock, NoHeaders, Position, RecordRef, SystemClock, TopicInfo};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Records handed out by one call of poll at most: some milliseconds of work, so that a barrier is not kept waiting.
const POLL_RECORDS_MAX: u64 = 4096;
/// Records of one partition before the next has its turn.
const TURN_RECORDS_MAX: u64 = 256;
/// How long a reader sleeps before it looks at its rate again.
const IDLE_STEP: Duration = Duration::from_millis(2);
const NANOS: u128 = 1_000_000_000;

/// A generator; see the crate's documentation.
#[derive(Debug, Clone)]
pub struct DatagenSource {
    config: DatagenConfig,
}

impl DatagenSource {
    /// One partition without an end, orders of 1,000 customers, seed 0.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self::from_config(DatagenConfig::new(name))
    }
    /// As the settings say.
    #[must_use]
    pub fn from_config(config: DatagenConfig) -> Self {
        DatagenSource { config }
    }
    /// Sets the number of partitions.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.config.partitions = partitions;
        self
    }
    /// Sets where each partition ends; None for never.
    #[must_use]
    pub fn records_per_partition(mut self, records: Option<u64>) -> Self {
        self.config.records_per_partition = records;
        self
    }
    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }
    /// Sets the records a second over all partitions; None for as fast as they are taken.
    #[must_use]
    pub fn rate_per_second(mut self, rate: Option<u64>) -> Self {
        self.config.rate_per_second = rate;
        self
    }
    /// Sets what the records look like.
    #[must_use]
    pub fn shape(mut self, shape: Shape) -> Self {
        self.config.shape = shape;
        self
    }
    /// The settings.
    #[must_use]
    pub fn config(&self) -> &DatagenConfig {
        &self.config
    }

    /// Refuses settings that have no meaning.
    pub(crate) fn check(&self) -> Result<(), DatagenError> {
        let DatagenConfig {
            name,
            partitions,
            records_per_partition,
            rate_per_second,
            shape,
            ..
        } = &self.config;
        let refuse = |setting, must| {
            Err(DatagenError::Setting {
                name: name.clone(),
                setting,
                must,
            })
        };
        if !(1..=i32::MAX as u32).contains(partitions) {
            return refuse("partitions", "1 to 2147483647");
        }
        if records_per_partition.is_some_and(|records| records > i64::MAX as u64) {
            return refuse("records_per_partition", "below 2^63");
        }
        if *rate_per_second == Some(0) {
            return refuse("rate_per_second", "at least 1");
        }
        if matches!(shape, Shape::Orders { customers: 0 }) {
            return refuse("customers", "at least 1");
        }
        Ok(())
    }

    fn end(&self) -> i64 {
        self.config
            .records_per_partition
            .map_or(i64::MAX, |records| i64::try_from(records).unwrap_or(i64::MAX))
    }

    fn open_lane(&self, lane: &[Position]) -> Result<Box<dyn SourceReader>, DatagenError> {
        let config = &self.config;
        let partition = |p: &Position| {
            let is_known = u32::try_from(p.partition).is_ok_and(|n| n < config.partitions);
            if p.topic != config.name || !is_known || !(0..=self.end()).contains(&p.offset) {
                let Position {
                    topic,
                    partition,
                    offset,
                    ..
                } = p.clone();
                return Err(DatagenError::NoSuchPosition {
                    topic,
                    partition,
                    offset,
                });
            }
            Ok(PartitionState {
                partition: p.partition,
                offset: p.offset,
                is_end_reported: false,
            })
        };
        let partitions = lane.iter().map(partition).collect::<Result<Vec<_>, _>>()?;
        let pace = config.rate_per_second.map(|rate| Pace {
            records: u128::from(rate) * partitions.len() as u128,
            nanos: NANOS * u128::from(config.partitions),
            handed: 0,
        });
        let generator = Generator::new(config.seed, config.shape.clone());
        let (topic, end, clock) = (config.name.clone(), self.end(), SystemClock::default());
        Ok(Box::new(DatagenReader {
            topic,
            end,
            generator,
            partitions,
            next: 0,
            pace,
            clock,
        }))
    }
}

impl Source for DatagenSource {
    fn describe(&self) -> String {
        format!("generator {}", self.config.name)
    }
    fn topic(&self) -> String {
        self.config.name.clone()
    }
    fn topic_info(&mut self) -> Result<TopicInfo, SourceError> {
        self.check()?;
        Ok(TopicInfo {
            topic: self.config.name.clone(),
            id: [0; 16],
            partitions: self.config.partitions,
        })
    }
    fn start_positions(&mut self) -> Result<Vec<Position>, SourceError> {
        self.check()?;
        let start = |p| Position {
            topic: self.config.name.clone(),
            partition: p as i32,
            offset: 0,
            leader_epoch: -1,
        };
        Ok((0..self.config.partitions).map(start).collect())
    }
    fn open(&mut self, lanes: &[Vec<Position>]) -> Result<Vec<Box<dyn SourceReader>>, SourceError> {
        self.check()?;
        let readers = lanes
            .iter()
            .map(|lane| self.open_lane(lane))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(readers)
    }
    fn close(&mut self) {}
}

struct PartitionState {
    partition: i32,
    offset: i64,
    is_end_reported: bool,
}

struct DatagenReader {
    topic: String,
    end: i64,
    generator: Generator,
    partitions: Vec<PartitionState>,
    /// Whose turn is next.
    next: usize,
    pace: Option<Pace>,
    clock: SystemClock,
}

/// Hands out `records` in `nanos`, evenly.
struct Pace {
    records: u128,
    nanos: u128,
    /// Records handed out, or given up, since the reader was opened.
    handed: u128,
}

impl Pace {
    /// How many records are due. What was not taken for more than a second is not made up for.
    fn due(&mut self, elapsed: Duration) -> u64 {
        let total = elapsed.as_nanos() * self.records / self.nanos;
        let second = (NANOS * self.records / self.nanos).max(1);
        self.handed = self.handed.max(total.saturating_sub(second));
        u64::try_from(total.saturating_sub(self.handed)).unwrap_or(u64::MAX)
    }
}

impl SourceReader for DatagenReader {
    fn poll(&mut self, max_wait: Duration, out: &mut dyn RecordSink) -> Result<(), SourceError> {
        let deadline = self.clock.elapsed() + max_wait;
        loop {
            let elapsed = self.clock.elapsed();
            let due = self
                .pace
                .as_mut()
                .map_or(POLL_RECORDS_MAX, |pace| pace.due(elapsed))
                .min(POLL_RECORDS_MAX);
            let handed = self.hand_out(due, out);
            let left = deadline.saturating_sub(self.clock.elapsed());
            if handed || left.is_zero() {
                return Ok(());
            }
            self.clock.sleep(left.min(IDLE_STEP));
        }
    }
}

impl DatagenReader {
    /// Hands out up to `due` records and the ends of partitions, by turns; whether there was anything.
    fn hand_out(&mut self, due: u64, out: &mut dyn RecordSink) -> bool {
        let fair = due.div_ceil(self.partitions.len().max(1) as u64).min(TURN_RECORDS_MAX);
        let (mut left, mut idle, mut is_any) = (due, 0, false);
        while idle < self.partitions.len() {
            let turn = self.turn(left.min(fair), out);
            left -= turn.records;
            is_any |= turn.records > 0 || turn.is_end;
            idle = if turn.records > 0 { 0 } else { idle + 1 };
            if turn.flow == Flow::Stop {
                return true;
            }
        }
        is_any
    }

    fn turn(&mut self, records_max: u64, out: &mut dyn RecordSink) -> Turn {
        let index = self.next % self.partitions.len();
        self.next = index + 1;
        let state = &mut self.partitions[index];
        let mut turn = Turn {
            records: 0,
            is_end: false,
            flow: Flow::Continue,
        };
        while turn.records < records_max && state.offset < self.end && turn.flow == Flow::Continue {
            let timestamp = self.generator.make(state.partition, state.offset);
            let record = RecordRef {
                topic: &self.topic,
                partition: state.partition,
                offset: state.offset,
                leader_epoch: -1,
                timestamp,
                key: Some(&self.generator.key),
                value: Some(&self.generator.value),
                headers: &NoHeaders,
            };
            state.offset += 1;
            turn.records += 1;
            turn.flow = out.record(&record);
        }
        if let Some(pace) = &mut self.pace {
            pace.handed += u128::from(turn.records);
        }
        if turn.flow == Flow::Continue && state.offset >= self.end && !state.is_end_reported {
            state.is_end_reported = true;
            turn.is_end = true;
            out.end_of_partition(&self.topic, state.partition, state.offset, -1);
        }
        turn
    }
}

/// What one partition handed out.
struct Turn {
    records: u64,
    is_end: bool,
    flow: Flow,
}
