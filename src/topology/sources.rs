//! Options of a source.
use super::bad_records::BadRecords;

/// Options of a source.
#[derive(Debug, Clone, Default)]
pub struct SourceOptions {
    pub(super) bad_records: BadRecords,
}

impl SourceOptions {
    /// What happens to the source's records that a step refuses which has no policy of its own ([`super::Job::on_bad_records`]).
    #[must_use]
    pub fn bad_records(policy: BadRecords) -> Self {
        SourceOptions { bad_records: policy }
    }
}
