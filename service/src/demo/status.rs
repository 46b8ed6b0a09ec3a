//! What the worker tells the supervisor: one JSON object a line on its standard output.
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Status {
    /// The state is restored and records begin to flow.
    Started {
        /// The committed epoch that the job goes on from; none when it began anew.
        resumed: Option<String>,
        /// Partition and offset of the first record that is read.
        positions: Vec<(i32, i64)>,
    },
    /// Figures of this run.
    Progress(Figures),
}

/// Records are counted from the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Records read.
    pub read: u64,
    /// Records folded into state.
    pub folded: u64,
    /// Records that belong to committed epochs.
    pub committed: u64,
    /// The last committed epoch.
    pub epoch: Option<String>,
}
