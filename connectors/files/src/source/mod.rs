//! Reads the input files.
use crate::config::{FilesSourceConfig, Lines};
use crate::error::{FilesError, io_error};
use crate::line;
use crate::partition::PartitionFile;
use keyfold::source::{Flow, RecordSink, Source, SourceError, SourceReader};
use keyfold::types::{Clock, Position, RecordRef, SystemClock, TopicInfo};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Records handed out by one call of poll at most: some milliseconds of work, so that a barrier is not kept waiting.
const POLL_RECORDS_MAX: usize = 4096;
/// Bytes handed out by one call of poll before it returns, for long lines.
const POLL_BYTES_MAX: usize = 4 << 20;
/// Records of one partition before the next has its turn.
const TURN_RECORDS_MAX: usize = 512;
/// How long an idle reader sleeps before it looks again: latency against one `stat` per partition.
const IDLE_STEP: Duration = Duration::from_millis(5);

/// A directory of JSON-lines files; see the crate's documentation for the layout.
///
/// New partitions are found at a start, not while the job runs.
#[derive(Debug, Clone)]
pub struct FilesSource {
    config: FilesSourceConfig,
}

impl FilesSource {
    /// The files of `dir`, each line a value.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self::from_config(FilesSourceConfig::new(dir))
    }
    /// As the settings say.
    #[must_use]
    pub fn from_config(config: FilesSourceConfig) -> Self {
        FilesSource { config }
    }
    /// Names the topic; default is the directory's name.
    #[must_use]
    pub fn topic(mut self, name: impl Into<String>) -> Self {
        self.config.topic = Some(name.into());
        self
    }
    /// Sets what a line is.
    #[must_use]
    pub fn lines(mut self, lines: Lines) -> Self {
        self.config.lines = lines;
        self
    }
    /// Sets the longest line.
    #[must_use]
    pub fn line_bytes_max(mut self, bytes: usize) -> Self {
        self.config.line_bytes_max = bytes;
        self
    }

    fn open_lane(&self, lane: &[Position]) -> Result<Box<dyn SourceReader>, FilesError> {
        let topic = self.config.topic_name();
        let open = |position: &Position| {
            if position.topic != topic || position.partition < 0 || position.offset < 0 {
                let Position {
                    topic,
                    partition,
                    offset,
                    ..
                } = position.clone();
                return Err(FilesError::NoSuchPosition {
                    topic,
                    partition,
                    offset,
                });
            }
            PartitionFile::open(&self.config.dir, position, self.config.line_bytes_max)
        };
        let files = lane.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let lines = self.config.lines.clone();
        Ok(Box::new(FilesReader {
            topic,
            lines,
            files,
            next: 0,
            clock: SystemClock::default(),
        }))
    }
}

impl Source for FilesSource {
    fn describe(&self) -> String {
        format!(
            "files {} as topic {}",
            self.config.dir.display(),
            self.config.topic_name()
        )
    }
    fn topic(&self) -> String {
        self.config.topic_name()
    }
    fn topic_info(&mut self) -> Result<TopicInfo, SourceError> {
        let partitions = count_partitions(&self.config.dir)?;
        Ok(TopicInfo {
            topic: self.config.topic_name(),
            id: [0; 16],
            partitions,
        })
    }
    fn start_positions(&mut self) -> Result<Vec<Position>, SourceError> {
        let TopicInfo { topic, partitions, .. } = self.topic_info()?;
        let start = |p| Position {
            topic: topic.clone(),
            partition: p as i32,
            offset: 0,
            leader_epoch: -1,
        };
        Ok((0..partitions).map(start).collect())
    }
    fn open(&mut self, lanes: &[Vec<Position>]) -> Result<Vec<Box<dyn SourceReader>>, SourceError> {
        let readers = lanes
            .iter()
            .map(|lane| self.open_lane(lane))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(readers)
    }
    fn close(&mut self) {}
}

/// Counts the input files and checks their numbers. Files that do not end in `.jsonl` and hidden files are not input.
fn count_partitions(dir: &Path) -> Result<u32, FilesError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let name = entry.map_err(io_error("list", dir))?.file_name();
        let name = name.to_string_lossy();
        let Some(stem) = name.strip_suffix(".jsonl").filter(|stem| !stem.starts_with('.')) else {
            continue;
        };
        let number = stem.parse::<i32>().ok().filter(|n| *n >= 0 && n.to_string() == stem);
        numbers.push(number.ok_or_else(|| numbering(dir, format!("{name} is not a partition number")))?);
    }
    numbers.sort_unstable();
    let gap = (0..).zip(&numbers).find(|(expected, number)| expected != *number);
    match gap {
        Some((missing, _)) => Err(numbering(dir, format!("{missing}.jsonl is missing"))),
        None if numbers.is_empty() => Err(numbering(dir, "0.jsonl is missing".into())),
        None => Ok(numbers.len() as u32),
    }
}

fn numbering(dir: &Path, reason: String) -> FilesError {
    FilesError::Numbering {
        dir: dir.to_path_buf(),
        reason,
    }
}

struct FilesReader {
    topic: String,
    lines: Lines,
    files: Vec<PartitionFile>,
    /// Whose turn is next.
    next: usize,
    clock: SystemClock,
}

/// What a call of poll has handed out so far.
#[derive(Default)]
struct Handed {
    records: usize,
    bytes: usize,
    ends: usize,
}

impl Handed {
    fn is_enough(&self) -> bool {
        self.records >= POLL_RECORDS_MAX || self.bytes >= POLL_BYTES_MAX
    }
}

impl SourceReader for FilesReader {
    fn poll(&mut self, max_wait: Duration, out: &mut dyn RecordSink) -> Result<(), SourceError> {
        let deadline = self.clock.elapsed() + max_wait;
        let mut handed = Handed::default();
        loop {
            let before = handed.records;
            for _ in 0..self.files.len() {
                if self.turn(&mut handed, out)? == Flow::Stop || handed.is_enough() {
                    return Ok(());
                }
            }
            if handed.records > before {
                continue;
            }
            let left = deadline.saturating_sub(self.clock.elapsed());
            if handed.records + handed.ends > 0 || left.is_zero() {
                return Ok(());
            }
            self.clock.sleep(left.min(IDLE_STEP));
        }
    }
}

impl FilesReader {
    /// Hands out some records of the partition whose turn it is, or its end.
    fn turn(&mut self, handed: &mut Handed, out: &mut dyn RecordSink) -> Result<Flow, FilesError> {
        let index = self.next % self.files.len();
        self.next = index + 1;
        let file = &mut self.files[index];
        let partition = file.partition();
        for _ in 0..TURN_RECORDS_MAX {
            let Some(line) = file.next_line()? else {
                if let Some(end) = file.new_end() {
                    out.end_of_partition(&self.topic, partition, end, -1);
                    handed.ends += 1;
                }
                return Ok(Flow::Continue);
            };
            let parsed = line::parse(&self.lines, line.bytes);
            handed.records += 1;
            handed.bytes += line.bytes.len();
            let flow = out.record(&RecordRef {
                topic: &self.topic,
                partition,
                offset: line.offset,
                leader_epoch: -1,
                timestamp: parsed.timestamp,
                key: parsed.key.as_deref(),
                value: parsed.value,
                headers: &parsed.headers,
            });
            if flow == Flow::Stop || handed.is_enough() {
                return Ok(flow);
            }
        }
        Ok(Flow::Continue)
    }
}
