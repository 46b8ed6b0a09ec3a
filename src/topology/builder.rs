//! What the builder collects, and the checks on it.
use crate::operator::bad_records::{BadRecordPolicy, StepPolicies};
use crate::operator::context::{LaneSetup, SinkRoute, SourceInfo};
use crate::operator::keyed_lane::KeyedLane;
use crate::operator::source_lane::SourceChain;
use crate::operator::states::StateDecl;
use crate::sink::{LogTarget, OutboxSink};
use crate::source::Source;
use crate::types::Digest;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Opens a keyed segment's lanes.
pub trait Segment: Send + Sync {
    /// Opens one lane on the lane's own thread, after every lane upstream has been opened.
    fn open(&self, setup: LaneSetup) -> Box<dyn KeyedLane>;
}

/// Opens one lane's chain behind a source.
pub type OpenSource = Arc<dyn Fn(&LaneSetup) -> Box<dyn SourceChain> + Send + Sync>;

/// A source of the job.
pub struct BuiltSource {
    /// Operator id.
    pub id: String,
    /// The connector.
    pub source: Box<dyn Source>,
    /// What happens to its bad records.
    pub policy: BadRecordPolicy,
    /// Opens a lane's chain.
    pub open: OpenSource,
}

/// A keyed segment: the operators between two exchanges.
pub struct BuiltSegment {
    /// Id of the `key_by` that begins it.
    pub id: String,
    /// Whether its keys are the records' own, straight from the sources, so that an item stays in the shard of its partition.
    pub record_keyed: bool,
    /// Opens its lanes.
    pub segment: Box<dyn Segment>,
}

/// A sink of the job.
pub enum BuiltSink {
    /// Written in the log's transaction.
    Log(LogTarget),
    /// Delivered from the outbox.
    Outbox(Box<dyn OutboxSink>),
}

/// A checked job, ready to run.
pub struct Topology {
    /// The job's id.
    pub job: String,
    /// The stage's id: that of its first operator.
    pub stage: String,
    /// Sources, by index.
    pub sources: Vec<BuiltSource>,
    /// Keyed segments, upstream first.
    pub segments: Vec<BuiltSegment>,
    /// Sinks, by index.
    pub sinks: Vec<(String, BuiltSink)>,
    /// Steps with a bad-record policy of their own.
    pub step_policies: StepPolicies,
    /// Whether one of them makes dead letters behind an exchange.
    pub letters_behind_exchanges: bool,
    /// Whether a step behind an exchange is given its records' headers.
    pub headers_behind_exchanges: bool,
    /// Declared states.
    pub states: Vec<StateDecl>,
    /// Ids of stateful operators and of their states' schemas, hashed: equal for jobs that can read each other's state.
    pub fingerprint: u64,
}

impl Topology {
    /// What the lanes know of each source.
    #[must_use]
    pub fn source_infos(&self) -> Vec<SourceInfo> {
        let info = |source: &BuiltSource| {
            let letters = self.letters_behind_exchanges || matches!(source.policy, BadRecordPolicy::DeadLetter(_));
            SourceInfo {
                id: source.id.clone(),
                topic: source.source.topic(),
                policy: source.policy,
                keep_originals: letters,
                keep_headers: letters || self.headers_behind_exchanges,
            }
        };
        self.sources.iter().map(info).collect()
    }

    /// How each sink takes outputs.
    #[must_use]
    pub fn routes(&self) -> Vec<SinkRoute> {
        let route = |sink: &BuiltSink| match sink {
            BuiltSink::Log(target) => SinkRoute::Log {
                max_bytes: target.max_bytes,
            },
            BuiltSink::Outbox(_) => SinkRoute::Outbox,
        };
        self.sinks.iter().map(|(_, sink)| route(sink)).collect()
    }

    /// Whether every key is that of a record as it lies on its topic: group mode needs it, where a record's shard is its partition.
    ///
    /// # Errors
    /// Names the operator that gives its items another key, and says what to do.
    pub fn record_keyed(&self) -> Result<(), String> {
        match self.segments.iter().find(|s| !s.record_keyed) {
            None => Ok(()),
            Some(segment) => Err(format!(
                "operator {} gives its items a key that is not their record's, and the instances of a group share a job by the partitions \
                 of its topics: key the sources' streams by the record's own key (key_by_record_key) and not again after that, or run the job \
                 in single mode",
                segment.id
            )),
        }
    }

    /// The log's targets by sink index; None for outbox sinks.
    #[must_use]
    pub fn log_targets(&self) -> Vec<Option<LogTarget>> {
        let target = |sink: &BuiltSink| match sink {
            BuiltSink::Log(target) => Some(target.clone()),
            BuiltSink::Outbox(_) => None,
        };
        self.sinks.iter().map(|(_, sink)| target(sink)).collect()
    }
}

/// A job that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The same id twice.
    #[error("operator id {0} is used twice; ids find state again after a restart and must be unique")]
    DuplicateId(String),
    /// The same state name twice in an operator.
    #[error("operator {operator} declares the state {name} twice; give each state its own name")]
    DuplicateState {
        /// The operator.
        operator: String,
        /// The state.
        name: String,
    },
    /// A state whose entries would be gone at once.
    #[error(
        "the state {name} of operator {operator} has a time to live below a millisecond; leave the state out, or give it time"
    )]
    NoLife {
        /// The operator.
        operator: String,
        /// The state.
        name: String,
    },
    /// An id outside the grammar.
    #[error("id {0:?}: use 1 to 64 characters of a-z, 0-9, - and _, starting with a letter")]
    BadId(String),
    /// No source.
    #[error("the job has no source")]
    NoSource,
    /// Two sources of one topic.
    #[error("topic {0} is read by two sources; read it once and branch the stream")]
    DuplicateTopic(String),
    /// A bad-record policy for a step that is not there.
    #[error("there is a bad-record policy for the step {step}, and no operator has this id{}", did_you_mean(.nearest.as_deref()))]
    UnknownStep {
        /// The id.
        step: String,
        /// The operator's id that is most like it.
        nearest: Option<String>,
    },
    /// Two bad-record policies for a step.
    #[error("the step {0} has two bad-record policies; leave one out")]
    DuplicatePolicy(String),
    /// A handle of dead letters that another job gave out.
    #[error("the dead letters {0} are of another job; add them to this one with Job::dead_letters")]
    ForeignDeadLetters(String),
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |id| format!("; did you mean {id}?"))
}

/// Checks the grammar of job and operator ids.
///
/// # Errors
/// [`TopologyError::BadId`]
pub fn check_id(id: &str) -> Result<(), TopologyError> {
    let grammar = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    let good = (1..=64).contains(&id.len())
        && id.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && id.bytes().all(grammar);
    if good {
        Ok(())
    } else {
        Err(TopologyError::BadId(id.to_owned()))
    }
}

/// An operator.
pub(super) struct Step {
    pub id: String,
    /// It runs on source lanes alone, where a record's key and value are at hand.
    pub on_source_lanes: bool,
}

/// What a [`super::Job`] collects.
#[derive(Default)]
pub(super) struct Parts {
    /// The stage's id; that of the first source unless said.
    pub stage: Option<String>,
    pub steps: Vec<Step>,
    /// Ids of the sinks that are no steps: those for dead letters.
    pub letters: Vec<String>,
    pub policies: Vec<(String, BadRecordPolicy)>,
    /// Dead letters that are not in `sinks`.
    pub foreign_letters: Vec<String>,
    /// A step behind an exchange is given its records' headers.
    pub headers_behind_exchanges: bool,
    pub sources: Vec<BuiltSource>,
    pub segments: Vec<BuiltSegment>,
    pub sinks: Vec<(String, BuiltSink)>,
    pub states: Vec<StateDecl>,
    /// Keyed segments' ids and key codecs, for the fingerprint.
    pub keys: Vec<(String, String)>,
}

impl Parts {
    pub fn check(&self, job: &str) -> Result<(), TopologyError> {
        check_id(job)?;
        self.stage.as_deref().map_or(Ok(()), check_id)?;
        let mut seen = BTreeSet::new();
        for id in self.steps.iter().map(|s| &s.id).chain(&self.letters) {
            check_id(id)?;
            if !seen.insert(id) {
                return Err(TopologyError::DuplicateId(id.clone()));
            }
        }
        let mut states = BTreeSet::new();
        for state in &self.states {
            let (operator, name) = (state.operator.clone(), state.name.clone());
            if !states.insert((&state.operator, &state.name)) {
                return Err(TopologyError::DuplicateState { operator, name });
            }
            if state.ttl.is_some_and(|ttl| ttl < Duration::from_millis(1)) {
                return Err(TopologyError::NoLife { operator, name });
            }
        }
        let mut topics = BTreeSet::new();
        for source in &self.sources {
            let topic = source.source.topic();
            if !topics.insert(topic.clone()) {
                return Err(TopologyError::DuplicateTopic(topic));
            }
        }
        if self.sources.is_empty() {
            Err(TopologyError::NoSource)
        } else {
            Ok(())
        }
    }

    /// Covers how keys are written, not what is kept under them: states and schemas are compared one by one, with a diff.
    pub fn fingerprint(&self) -> u64 {
        let mut keys: Vec<String> = self.keys.iter().map(|(id, codec)| format!("{id}={codec}")).collect();
        keys.sort();
        let digest = Digest::of(keys.join("\n").as_bytes());
        u64::from_be_bytes(digest.0.first_chunk::<8>().copied().unwrap_or_default())
    }
}
