//! Barriers cut the stream into epochs; a keyed lane aligns them over its inputs (Chandy-Lamport snapshots as in Carbone et al.,
//! "Lightweight Asynchronous Snapshots for Distributed Dataflows", 2015).

use crate::types::{Shards, TimestampMs, Watermark};

/// Where the driver has the stream cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The runtime's count of barriers, from 1. Not the epoch id: that is given out when the object is built.
    pub epoch: u64,
    /// The watermark of the sections of the epoch before. From this barrier on every lane takes state that has expired before it for gone,
    /// so that the local copies may let go of it.
    pub horizon: TimestampMs,
    /// The shards whose local copies take this epoch's changes, and those of earlier epochs that they have not taken yet.
    pub taking: Shards,
}

/// Flows with the records and never overtakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// What it cuts.
    pub cut: Cut,
    /// The sender's watermark.
    pub watermark: Watermark,
}

/// What to do with an input that has delivered a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// Other inputs have not delivered it yet.
    Waiting,
    /// Every input has: the epoch is cut here.
    Complete,
}

/// Counts a barrier's arrivals over a lane's inputs.
#[derive(Debug)]
pub struct Aligner {
    arrived: Vec<bool>,
    open: Vec<bool>,
    hold: bool,
}

impl Aligner {
    /// For `inputs` inputs. `hold` holds an input back between its barrier and the last one (exactly-once); without it records behind the
    /// barrier fall into the epoch before (at-least-once).
    #[must_use]
    pub fn new(inputs: usize, hold: bool) -> Aligner {
        Aligner {
            arrived: vec![false; inputs],
            open: vec![true; inputs],
            hold,
        }
    }

    /// A barrier came from `input`.
    pub fn barrier(&mut self, input: usize) -> Alignment {
        self.arrived[input] = true;
        self.check()
    }

    /// `input` has ended and delivers nothing more.
    pub fn end(&mut self, input: usize) -> Alignment {
        self.open[input] = false;
        if self.arrived.iter().any(|a| *a) {
            self.check()
        } else {
            Alignment::Waiting
        }
    }

    fn check(&mut self) -> Alignment {
        let complete = self
            .arrived
            .iter()
            .zip(&self.open)
            .all(|(arrived, open)| *arrived || !*open);
        if complete {
            self.arrived.fill(false);
            return Alignment::Complete;
        }
        Alignment::Waiting
    }

    /// Whether the lane must not take from `input` now.
    #[must_use]
    pub fn held(&self, input: usize) -> bool {
        !self.open[input] || (self.hold && self.arrived[input])
    }

    /// Whether every input has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.open.iter().all(|o| !*o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_held_from_its_barrier_to_the_last_one() {
        let mut aligner = Aligner::new(3, true);
        assert_eq!(aligner.barrier(1), Alignment::Waiting);
        assert!(aligner.held(1) && !aligner.held(0));
        assert_eq!(aligner.barrier(0), Alignment::Waiting);
        assert_eq!(aligner.barrier(2), Alignment::Complete);
        assert!((0..3).all(|i| !aligner.held(i)));
    }

    #[test]
    fn at_least_once_does_not_hold() {
        let mut aligner = Aligner::new(2, false);
        assert_eq!(aligner.barrier(0), Alignment::Waiting);
        assert!(!aligner.held(0));
    }

    #[test]
    fn an_input_that_ends_does_not_keep_the_others_waiting() {
        let mut aligner = Aligner::new(2, true);
        assert_eq!(aligner.barrier(0), Alignment::Waiting);
        assert_eq!(aligner.end(1), Alignment::Complete);
        assert_eq!(aligner.end(0), Alignment::Waiting);
        assert!(aligner.ended());
    }
}
