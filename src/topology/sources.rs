//! Options of a source.
use super::stream::Target;

/// What happens to records that a step refuses.
#[derive(Default)]
pub(super) enum BadRecords {
    #[default]
    Fail,
    Skip,
    DeadLetter(Target),
}

/// What happens to records that a step refuses; by default they stop the job.
#[derive(Default)]
pub struct SourceOptions {
    pub(super) bad_records: BadRecords,
}

impl SourceOptions {
    /// Bad records are dropped and counted by reason.
    #[must_use]
    pub fn skip_bad_records() -> Self {
        SourceOptions {
            bad_records: BadRecords::Skip,
        }
    }

    /// Bad records are written to `target`, a topic or any other sink, in the same epoch, as they lay on the topic, with their provenance in
    /// headers `keyfold.topic`, `keyfold.partition`, `keyfold.offset`, `keyfold.step`, `keyfold.reason`, `keyfold.error`, `keyfold.time`.
    /// Headers of their own that cannot be written (a key above 65,535 bytes, more than 65,519 headers) are cut.
    #[must_use]
    pub fn dead_letter(target: impl Into<Target>) -> Self {
        SourceOptions {
            bad_records: BadRecords::DeadLetter(target.into()),
        }
    }
}
