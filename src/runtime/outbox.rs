//! Delivers outboxes after the commit, in sequence order per shard.
use super::backoff::Patience;
use super::error::RuntimeError;
use crate::checkpoint::object::Section;
use crate::sink::{OutboxSink, SinkError};
use crate::types::{OutputRef, Sequence, Shard};
use std::collections::BTreeMap;

/// The outbox sinks of the job, by sink index, and what has been delivered.
#[derive(Default)]
pub struct Outboxes {
    sinks: Vec<(u16, Box<dyn OutboxSink>)>,
    delivered: BTreeMap<Shard, Sequence>,
}

impl Outboxes {
    /// With the job's outbox sinks by sink index.
    pub fn new(sinks: Vec<(u16, Box<dyn OutboxSink>)>) -> Outboxes {
        Outboxes {
            sinks,
            delivered: BTreeMap::new(),
        }
    }

    /// Every section of the shard up to this sequence has been delivered.
    pub fn delivered(&self, shard: Shard) -> Sequence {
        self.delivered.get(&shard).copied().unwrap_or(0)
    }

    /// Everything of the shard up to `sequence` was delivered, by this run or an earlier one.
    pub fn all_delivered(&mut self, shard: Shard, sequence: Sequence) {
        self.delivered.insert(shard, sequence);
    }

    /// Delivers the outboxes of sections that are committed, tried again until it works.
    pub fn deliver(&mut self, sections: &[Section], patience: &Patience) -> Result<(), RuntimeError> {
        for section in sections {
            if !section.outbox.is_empty() {
                self.deliver_section(section, patience)?;
            }
            self.delivered.insert(section.shard, section.sequence);
        }
        Ok(())
    }

    fn deliver_section(&mut self, section: &Section, patience: &Patience) -> Result<(), RuntimeError> {
        let outputs: Vec<OutputRef<'_>> = section
            .outbox
            .iter()
            .collect::<Result<_, _>>()
            .map_err(|e| RuntimeError::CannotGoOn(format!("outbox of shard {}: {e}", section.shard)))?;
        for (index, sink) in &mut self.sinks {
            let mut backoff = patience.backoff("deliver");
            loop {
                let mut own = outputs.iter().filter(|o| o.sink == *index).copied();
                match sink.deliver(section.shard, section.sequence, &mut own) {
                    Ok(()) => break,
                    Err(SinkError::Retriable(why)) => backoff.wait(&format!("{}: {why}", sink.describe()))?,
                    Err(SinkError::Fatal(why)) => {
                        return Err(RuntimeError::CannotGoOn(format!("{}: {why}", sink.describe())));
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives the sinks back, for a run that begins again.
    pub fn into_sinks(self) -> Vec<(u16, Box<dyn OutboxSink>)> {
        self.sinks
    }
}
