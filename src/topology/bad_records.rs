//! What happens to records that a step refuses, by source and by step.
use super::builder::{Parts, TopologyError};
use super::nearest::nearest;
use super::stream::{Job, Target};
use crate::operator::bad_records::{BadRecordPolicy, StepPolicies};

/// What happens to an item that a step refuses. Whatever it is, the refusal is counted by reason and step.
#[derive(Debug, Clone, Default)]
pub enum BadRecords {
    /// The job stops and names the record; nothing is lost. The default.
    #[default]
    Fail,
    /// The item is dropped.
    Skip,
    /// The record that it comes from is written as it lay on the topic, in the same epoch.
    DeadLetter(DeadLetters),
}

/// A sink for dead letters. Any number of sources and steps may share it.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    id: String,
    sink: u16,
}

impl Job {
    /// Adds a sink for dead letters: a topic, or any other. A record is written as it lay on its topic, with its provenance in
    /// headers `keyfold.topic`, `keyfold.partition`, `keyfold.offset`, `keyfold.step`, `keyfold.reason`, `keyfold.error`, `keyfold.time`.
    /// Headers of its own that cannot be written (a key above 65,535 bytes, more than 65,519 headers) are cut.
    #[must_use]
    pub fn dead_letters(&self, id: &str, target: impl Into<Target>) -> DeadLetters {
        let sink = self.add_sink(id, target.into());
        self.parts().lock().letters.push(id.to_owned());
        DeadLetters {
            id: id.to_owned(),
            sink,
        }
    }

    /// What happens to what the step of this id refuses, whatever the source of the record says. The id is that of an operator, a sink
    /// included; that of a source is about what the source itself refuses: timestamps, and what does not decode.
    pub fn on_bad_records(&self, step: &str, policy: BadRecords) {
        let parts = &mut *self.parts().lock();
        let policy = parts.policy(policy);
        parts.policies.push((step.to_owned(), policy));
    }
}

impl Parts {
    /// Finds the sink of dead letters.
    pub fn policy(&mut self, policy: BadRecords) -> BadRecordPolicy {
        match policy {
            BadRecords::Fail => BadRecordPolicy::Fail,
            BadRecords::Skip => BadRecordPolicy::Skip,
            BadRecords::DeadLetter(DeadLetters { id, sink }) => {
                let added = self.sinks.get(usize::from(sink));
                if added.is_none_or(|(other, _)| *other != id) {
                    self.foreign_letters.push(id);
                }
                BadRecordPolicy::DeadLetter(sink)
            }
        }
    }

    /// Policies by step.
    pub fn step_policies(&self) -> Result<StepPolicies, TopologyError> {
        if let Some(id) = self.foreign_letters.first() {
            return Err(TopologyError::ForeignDeadLetters(id.clone()));
        }
        let mut policies = StepPolicies::new();
        for (step, policy) in &self.policies {
            if !self.steps.iter().any(|s| s.id == *step) {
                let known = self.steps.iter().map(|s| s.id.as_str());
                return Err(TopologyError::UnknownStep {
                    step: step.clone(),
                    nearest: nearest(step, known).map(str::to_owned),
                });
            }
            if policies.insert(step.clone(), *policy).is_some() {
                return Err(TopologyError::DuplicatePolicy(step.clone()));
            }
        }
        Ok(policies)
    }

    /// Whether a step behind an exchange makes dead letters, whatever the source says: the records' keys and values must come along then.
    pub fn letters_behind_exchanges(&self) -> bool {
        let on_source_lanes = |step: &str| self.steps.iter().any(|s| s.id == step && s.on_source_lanes);
        self.policies
            .iter()
            .any(|(step, policy)| matches!(policy, BadRecordPolicy::DeadLetter(_)) && !on_source_lanes(step))
    }
}
