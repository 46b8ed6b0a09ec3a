//! Options of a source.
use crate::operator::context::BadRecordPolicy;
use crate::sink::LogTarget;

/// What happens to records that a step refuses.
#[derive(Debug, Clone, Default)]
pub struct SourceOptions {
    skip: bool,
    dead_letter: Option<LogTarget>,
}

impl SourceOptions {
    /// Bad records are dropped and counted by reason.
    #[must_use]
    pub fn skip_bad_records() -> Self {
        SourceOptions {
            skip: true,
            dead_letter: None,
        }
    }

    /// Bad records are written to `target` in the same epoch, as they lay on the topic, with their provenance in headers
    /// `keyfold.topic`, `keyfold.partition`, `keyfold.offset`, `keyfold.step`, `keyfold.reason`, `keyfold.error`, `keyfold.time`.
    #[must_use]
    pub fn dead_letter(target: LogTarget) -> Self {
        SourceOptions {
            skip: false,
            dead_letter: Some(target),
        }
    }

    pub(super) fn into_policy(self) -> Result<LogTarget, BadRecordPolicy> {
        match self.dead_letter {
            Some(target) => Ok(target),
            None if self.skip => Err(BadRecordPolicy::Skip),
            None => Err(BadRecordPolicy::Fail),
        }
    }
}
