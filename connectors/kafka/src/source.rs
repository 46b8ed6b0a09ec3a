//! Reads a topic in single mode: every partition, by explicit offset, without a subscription.
use crate::config::KafkaConfig;
use crate::error::source_error;
use crate::ffi::{Asked, Client, Code, Described, Failure, Kind, LaneQueue, List};
use crate::figures::{Figures, STATISTICS_MS};
use crate::lookup;
use crate::reader::KafkaReader;
use crate::watch::TopicWatch;
use keyfold::source::{Source, SourceError, SourceFigures, SourceReader};
use keyfold::types::{Position, TopicInfo};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One question to the cluster.
const ASK_WITHIN: Duration = Duration::from_secs(10);
/// One look at the topic while it is read. Nobody waits for it; what takes longer says nothing.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// Where a new job begins to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartAt {
    /// With the oldest record there is.
    #[default]
    Earliest,
    /// With what becomes visible from now on: the last stable offset, so records of a transaction that is open now are read.
    Latest,
    /// With the first record of this time (ms since 1970) or later; as `Latest` where there is none.
    Timestamp(i64),
}

/// A topic as a source.
///
/// Its consumer needs a group's name for the broker's access rules, but never joins the group and never commits.
pub struct KafkaSource {
    config: KafkaConfig,
    topic: String,
    group: String,
    start: StartAt,
    /// Asks; not assigned to anything.
    asking: Option<Client>,
    /// Reads; shared with the readers.
    reading: Option<Arc<Client>>,
    /// From the first look at the topic on.
    watch: Option<TopicWatch>,
    /// The look that is under way.
    look: Option<Asked<Described>>,
    figures: Option<Figures>,
}

impl KafkaSource {
    /// Reads `topic`, a new job from its oldest record.
    #[must_use]
    pub fn topic(config: &KafkaConfig, topic: impl Into<String>) -> KafkaSource {
        KafkaSource {
            config: config.clone(),
            topic: topic.into(),
            group: "keyfold-source".into(),
            start: StartAt::Earliest,
            asking: None,
            reading: None,
            watch: None,
            look: None,
            figures: None,
        }
    }

    /// Where a new job begins to read. A job that has committed goes on where it was.
    #[must_use]
    pub fn start(mut self, start: StartAt) -> KafkaSource {
        self.start = start;
        self
    }

    /// The group's name that the consumer shows to the broker's access rules; default `keyfold-source`.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> KafkaSource {
        self.group = group.into();
        self
    }

    fn asking(&mut self) -> Result<&Client, SourceError> {
        if self.asking.is_none() {
            let properties = self.config.source_properties(&self.group, 1);
            self.asking = Some(Client::new(Kind::Consumer, &properties).map_err(|f| cannot_make(&f))?);
        }
        self.asking
            .as_ref()
            .ok_or_else(|| SourceError::Fatal("no client".into()))
    }

    fn context(&self, what: &str) -> String {
        format!("{}: {what}", self.describe())
    }

    /// A failed question: the client's own error callback may know a better reason than "timed out".
    fn failed(&self, what: &str, failure: &Failure) -> SourceError {
        let context = self.context(what);
        if let Some(client) = &self.asking {
            let served = client.poll_consumer().err();
            let told = served.or_else(|| client.take_last_error().map(|(code, text)| Failure::plain(code, text)));
            if let Some(error @ SourceError::Fatal(_)) = told.map(|f| source_error(&context, &f)) {
                return error;
            }
        }
        source_error(&context, failure)
    }

    fn times(&mut self, time: i64, partitions: i32) -> Result<Vec<i64>, SourceError> {
        let topic = self.topic.clone();
        let mut list = List::new(partitions as usize);
        for partition in 0..partitions {
            list.add(&topic, partition, time, -1, b"")
                .map_err(|f| self.failed("look up a time", &f))?;
        }
        let asked = self.asking()?.offsets_for_times(&list, ASK_WITHIN);
        asked.map_err(|f| self.failed("look up a time", &f))?;
        let mut entries = list.entries();
        entries.sort_by_key(|e| e.partition);
        if let Some(bad) = entries.iter().find(|e| e.code != Code::NoError) {
            return Err(self.failed("look up a time", &Failure::plain(bad.code, bad.code.to_string())));
        }
        Ok(entries.iter().map(|e| e.offset).collect())
    }
}

/// Looks now and then whether the topic is still the one that the job was started on; never waits.
impl KafkaSource {
    fn look(&mut self) -> Result<(), SourceError> {
        let (Some(watch), Some(client)) = (&mut self.watch, &self.reading) else {
            return Ok(());
        };
        if let Some(look) = &self.look {
            let Some(answer) = look.answer(Duration::ZERO) else {
                return Ok(());
            };
            self.look = None;
            let changed = watch.heard(&answer, Instant::now());
            return changed.map_or(Ok(()), |why| Err(SourceError::Fatal(why)));
        }
        if watch.is_due(Instant::now()) {
            let asked = client.ask_about(watch.topic(), LOOK_WITHIN);
            self.look = Some(asked.map_err(|f| source_error(&format!("look at kafka topic {}", self.topic), &f))?);
        }
        Ok(())
    }
}

/// Whether this says that there is no such topic or partition.
fn is_unknown(code: Code) -> bool {
    matches!(
        code,
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicId
    )
}

fn cannot_make(failure: &Failure) -> SourceError {
    SourceError::Fatal(format!("make a kafka consumer: {}", failure.text))
}

impl Source for KafkaSource {
    fn describe(&self) -> String {
        format!("kafka topic {}", self.topic)
    }

    fn topic(&self) -> String {
        self.topic.clone()
    }

    fn topic_info(&mut self) -> Result<TopicInfo, SourceError> {
        let topic = self.topic.clone();
        let found = lookup::partitions(self.asking()?, &topic, ASK_WITHIN);
        let Some(partitions) = found.map_err(|f| self.failed("read the topic's metadata", &f))? else {
            return Err(SourceError::Fatal(format!(
                "kafka topic {topic} does not exist; create it with the partitions it should have, then start again"
            )));
        };
        let id = self.asking()?.topic_id(&topic, ASK_WITHIN).unwrap_or_default();
        let info = TopicInfo { topic, id, partitions };
        self.watch
            .get_or_insert_with(|| TopicWatch::new(info.clone(), Instant::now()));
        Ok(info)
    }

    fn start_positions(&mut self) -> Result<Vec<Position>, SourceError> {
        let partitions = i32::try_from(self.topic_info()?.partitions).unwrap_or(i32::MAX);
        let (topic, start) = (self.topic.clone(), self.start);
        let times = match start {
            StartAt::Timestamp(time) => self.times(time, partitions)?,
            StartAt::Earliest | StartAt::Latest => Vec::new(),
        };
        let mut out = Vec::with_capacity(partitions as usize);
        for partition in 0..partitions {
            let found = self.asking()?.watermarks(&topic, partition, ASK_WITHIN);
            let (low, high) = found.map_err(|f| self.failed("read the first and last offsets", &f))?;
            let offset = match start {
                StartAt::Earliest => low,
                StartAt::Latest => high,
                StartAt::Timestamp(_) => times
                    .get(partition as usize)
                    .copied()
                    .filter(|o| *o >= 0)
                    .unwrap_or(high),
            };
            out.push(Position {
                topic: topic.clone(),
                partition,
                offset,
                leader_epoch: -1,
            });
        }
        Ok(out)
    }

    fn open(&mut self, lanes: &[Vec<Position>]) -> Result<Vec<Box<dyn SourceReader>>, SourceError> {
        let count = lanes.iter().map(Vec::len).sum();
        if let Some(strange) = lanes.iter().flatten().find(|p| p.topic != self.topic || p.offset < 0) {
            let reason = format!(
                "cannot read {} partition {} from offset {}",
                strange.topic, strange.partition, strange.offset
            );
            return Err(SourceError::Fatal(self.context(&reason)));
        }
        self.asking = None;
        let mut properties = self.config.source_properties(&self.group, count);
        properties.push(("statistics.interval.ms".to_owned(), STATISTICS_MS.to_owned()));
        let client = Arc::new(Client::new(Kind::Consumer, &properties).map_err(|f| cannot_make(&f))?);
        let failed = |f: Failure| source_error(&self.context("open the partitions"), &f);
        let mut assignment = List::new(count);
        let mut readers: Vec<Box<dyn SourceReader>> = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let queue = LaneQueue::new(client.clone());
            for at in lane {
                queue.forward(&at.topic, at.partition).map_err(failed)?;
                assignment
                    .add(&at.topic, at.partition, at.offset, at.leader_epoch, b"")
                    .map_err(failed)?;
            }
            readers.push(Box::new(KafkaReader::new(
                self.topic.clone(),
                lane,
                queue,
                client.clone(),
            )));
        }
        // Only now: what is fetched must find its lane's queue.
        client.assign(Some(&assignment)).map_err(failed)?;
        let lane_bytes = self.config.lane_queue_bytes(count);
        self.figures = Some(Figures::new(&self.topic, lanes, lane_bytes, client.clone()));
        self.reading = Some(client);
        Ok(readers)
    }

    fn serve(&mut self) -> Result<(), SourceError> {
        let Some(client) = &self.reading else { return Ok(()) };
        let context = self.context("serve the client");
        if client.poll_consumer().map_err(|f| source_error(&context, &f))? {
            return Err(SourceError::Fatal(format!(
                "{context}: a record did not go to its lane"
            )));
        }
        let reported = client.take_last_error();
        if let (Some((code, _)), Some(watch)) = (&reported, &mut self.watch)
            && is_unknown(*code)
        {
            watch.doubt();
        }
        self.look()?;
        reported.map_or(Ok(()), |(code, text)| {
            Err(source_error(&context, &Failure::plain(code, text)))
        })
    }

    fn figures(&mut self) -> SourceFigures {
        self.figures.as_mut().map(Figures::now).unwrap_or_default()
    }

    fn close(&mut self) {
        self.asking = None;
        self.look = None;
        self.figures = None;
        if let Some(client) = self.reading.take()
            && let Err(failure) = client.assign(None)
        {
            tracing::warn!(
                topic = self.topic,
                error = failure.text,
                "the partitions could not be let go"
            );
        }
    }
}
