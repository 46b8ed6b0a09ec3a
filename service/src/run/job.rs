//! A job as the run loop takes it.
use super::Waiting;
use keyfold::topology::Topology;

/// Makes the engine's topology. It may look at the outside, and wait for it until a stop is asked for.
pub type MakeTopology = Box<dyn FnOnce(&Waiting) -> Result<Topology, String>>;

/// A job that was checked.
pub struct RunnableJob {
    /// Its id.
    pub id: String,
    /// Where its commits go.
    pub commits: Commits,
    /// Why it cannot run in group mode; None when it can.
    pub single_because: Option<String>,
    /// Its topology.
    pub topology: MakeTopology,
}

/// Where positions and pointers are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commits {
    /// In Kafka's transactions: every source is a topic.
    Kafka,
    /// In the checkpoint store: no source is.
    Store,
}
