//! What can go wrong with a record, and with a lane.
use crate::exchange::LaneGone;
use crate::sink::buffer::SpillError;
use crate::state::StateError;
use std::fmt;

/// Why a record was refused; the label of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BadReason {
    /// Key or value does not decode.
    Decode,
    /// A key is needed and the record has none.
    NullKey,
    /// In group mode: the key does not belong to the partition that the record came from.
    Misplaced,
    /// The timestamp is negative (other than none, -1) or too far ahead of the clock.
    Timestamp,
    /// A user function refused it.
    User,
    /// The same, because a number would not fit.
    Overflow,
    /// The same, because of a division by zero.
    DivisionByZero,
    /// The same, because a value is none of the type that it is to become.
    Cast,
    /// The same, because of a text or an array beyond its bound.
    TooLong,
    /// The same, because there is more than is kept for a key.
    TooManyValues,
    /// The same, because of a length below zero.
    NegativeLength,
    /// The same, because a pattern is none.
    LikePattern,
    /// The same, because of a timestamp that no calendar has.
    TimestampRange,
    /// The same, because a value is not of its type.
    TypeMismatch,
    /// The same, because there is no value.
    Tombstone,
    /// An output has no encoding.
    Encode,
    /// An output is larger than its sink takes.
    TooLarge,
}

impl BadReason {
    /// All of them.
    pub const ALL: [BadReason; 17] = [
        BadReason::Decode,
        BadReason::NullKey,
        BadReason::Misplaced,
        BadReason::Timestamp,
        BadReason::User,
        BadReason::Overflow,
        BadReason::DivisionByZero,
        BadReason::Cast,
        BadReason::TooLong,
        BadReason::TooManyValues,
        BadReason::NegativeLength,
        BadReason::LikePattern,
        BadReason::TimestampRange,
        BadReason::TypeMismatch,
        BadReason::Tombstone,
        BadReason::Encode,
        BadReason::TooLarge,
    ];

    /// The metric label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            BadReason::Decode => "decode",
            BadReason::NullKey => "null_key",
            BadReason::Misplaced => "misplaced",
            BadReason::Timestamp => "timestamp",
            BadReason::User => "user",
            BadReason::Overflow => "overflow",
            BadReason::DivisionByZero => "division_by_zero",
            BadReason::Cast => "cast",
            BadReason::TooLong => "too_long",
            BadReason::TooManyValues => "too_many_values",
            BadReason::NegativeLength => "negative_length",
            BadReason::LikePattern => "like_pattern",
            BadReason::TimestampRange => "timestamp_range",
            BadReason::TypeMismatch => "type_mismatch",
            BadReason::Tombstone => "tombstone",
            BadReason::Encode => "encode",
            BadReason::TooLarge => "too_large",
        }
    }
}

/// A record (or one of its outputs) that a step refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    /// Kind of refusal.
    pub reason: BadReason,
    /// Id of the operator that refused.
    pub step: String,
    /// In words.
    pub message: String,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}: {}", self.step, self.reason.label(), self.message)
    }
}

/// Why a user's function refuses an item. A text is the reason [`BadReason::User`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Kind of refusal.
    pub reason: BadReason,
    /// In words.
    pub message: String,
}

impl Refused {
    /// The refusal as that of a step.
    #[must_use]
    pub fn at(self, step: &str) -> StepError {
        let Refused { reason, message } = self;
        StepError::Bad(BadRecord {
            reason,
            step: step.to_owned(),
            message,
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Refused {
            reason: BadReason::User,
            message,
        }
    }
}

impl From<&str> for Refused {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// What ends a lane, and with it the run.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// A bad record under the policy `fail`.
    #[error(
        "{topic}-{partition} offset {offset}: {record}; repair or skip the record: set the source's or the step's bad-record policy to skip or dead letter"
    )]
    Bad {
        /// Topic of the record.
        topic: String,
        /// Its partition.
        partition: i32,
        /// Its offset.
        offset: i64,
        /// What was wrong.
        record: BadRecord,
    },
    /// State cannot be read or encoded.
    #[error(transparent)]
    State(#[from] StateError),
    /// Outputs cannot be spilled.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// The next lane has ended; it has told why.
    #[error(transparent)]
    Gone(#[from] LaneGone),
    /// The source cannot go on.
    #[error("source {source_id}: {reason}")]
    Source {
        /// Id of the source operator.
        source_id: String,
        /// What it said.
        reason: String,
    },
    /// A user function panicked.
    #[error("lane {lane} panicked: {message}")]
    Panicked {
        /// The lane.
        lane: String,
        /// The panic's message.
        message: String,
    },
    /// Outputs cannot be sent (at-least-once).
    #[error("sending outputs: {0}")]
    Send(String),
}

/// The result of pushing one item: either the record is refused, or the lane cannot go on.
#[derive(Debug)]
pub enum StepError {
    /// Handled by the bad-record policy.
    Bad(BadRecord),
    /// Ends the lane.
    Lane(LaneError),
}

impl<E: Into<LaneError>> From<E> for StepError {
    fn from(error: E) -> Self {
        StepError::Lane(error.into())
    }
}
