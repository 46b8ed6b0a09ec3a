//! Delivers outboxes after the commit, in sequence order per shard.
use super::backoff::Patience;
use super::error::RuntimeError;
use crate::checkpoint::object::Section;
use crate::checkpoint::protocol::{Expected, Identity};
use crate::sink::{OutboxSink, SinkError};
use crate::types::{OutputRef, Sequence, Shard};
use std::collections::{BTreeMap, HashMap};

/// An outbox sink of the job.
pub(super) struct Outbox {
    index: u16,
    id: String,
    sink: Box<dyn OutboxSink>,
}

impl Outbox {
    /// `index` is the sink's in the topology, `id` its operator id.
    pub fn new(index: u16, id: &str, sink: Box<dyn OutboxSink>) -> Outbox {
        let id = id.to_owned();
        Outbox { index, id, sink }
    }

    /// Does it again until it works.
    fn patiently(
        &mut self,
        patience: &Patience,
        mut act: impl FnMut(&mut dyn OutboxSink) -> Result<(), SinkError>,
    ) -> Result<(), RuntimeError> {
        let mut backoff = patience.backoff("deliver");
        loop {
            let failed = match act(self.sink.as_mut()) {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            let why = format!("sink {}, {}: {failed}", self.id, self.sink.describe());
            match failed {
                SinkError::Retriable(_) => backoff.wait(&why)?,
                SinkError::Fatal(_) => return Err(RuntimeError::CannotGoOn(why)),
            }
        }
    }
}

/// The outbox sinks of the job, and what has been delivered.
#[derive(Default)]
pub struct Outboxes {
    sinks: Vec<Outbox>,
    delivered: BTreeMap<Shard, Sequence>,
}

impl Outboxes {
    /// With the job's outbox sinks.
    pub(super) fn new(sinks: Vec<Outbox>) -> Outboxes {
        Outboxes {
            sinks,
            delivered: BTreeMap::new(),
        }
    }

    /// No sinks.
    pub(super) fn is_empty(&self) -> bool {
        self.sinks.is_empty()
    }

    /// Index and id of each sink, for the header of the objects that hold their outputs.
    pub(super) fn ids(&self) -> Vec<(u16, String)> {
        self.sinks.iter().map(|s| (s.index, s.id.clone())).collect()
    }

    /// Opens the sinks, each under a name of its own.
    pub(super) fn open(&mut self, of: &Identity, job: &Expected, patience: &Patience) -> Result<(), RuntimeError> {
        for outbox in &mut self.sinks {
            let owner = format!("{}.{}/{} store {:016x}", job.job, job.stage, outbox.id, of.store);
            outbox.patiently(patience, |sink| sink.open(&owner))?;
        }
        Ok(())
    }

    /// Every section of the shard up to this sequence has been delivered.
    pub fn delivered(&self, shard: Shard) -> Sequence {
        self.delivered.get(&shard).copied().unwrap_or(0)
    }

    /// Everything of the shard up to `sequence` was delivered, by this run or an earlier one.
    pub fn all_delivered(&mut self, shard: Shard, sequence: Sequence) {
        self.delivered.insert(shard, sequence);
    }

    /// Delivers the outboxes of sections that this run has committed, tried again until it works.
    pub fn deliver(&mut self, sections: &[Section], patience: &Patience) -> Result<(), RuntimeError> {
        for section in sections {
            if !section.outbox.is_empty() {
                let outputs = frames(section)?;
                self.deliver_outputs(section, &outputs, patience)?;
            }
            self.delivered.insert(section.shard, section.sequence);
        }
        Ok(())
    }

    /// Delivers a section that an earlier run has committed, perhaps of a job with other sinks: its frames name sinks by their index in
    /// that job, `sinks` says which those were, and each output goes to the sink that has this id now.
    ///
    /// # Errors
    /// When an output's sink is gone: nothing of the section is delivered then.
    pub(super) fn redeliver(
        &mut self,
        sinks: &[(u16, String)],
        section: &Section,
        patience: &Patience,
    ) -> Result<(), RuntimeError> {
        let mut outputs = frames(section)?;
        let mut now_at: HashMap<u16, u16> = HashMap::new();
        for output in &mut outputs {
            output.sink = match now_at.get(&output.sink) {
                Some(index) => *index,
                None => {
                    let index = self.index_now(sinks, output.sink, section)?;
                    *now_at.entry(output.sink).or_insert(index)
                }
            };
        }
        self.deliver_outputs(section, &outputs, patience)
    }

    fn index_now(&self, sinks: &[(u16, String)], then: u16, section: &Section) -> Result<u16, RuntimeError> {
        let (shard, sequence) = (section.shard, section.sequence);
        let Some((_, id)) = sinks.iter().find(|(index, _)| *index == then) else {
            return Err(RuntimeError::CannotGoOn(format!(
                "section {sequence} of shard {shard} has outputs for a sink {then} that its object does not name; it was written by \
                 another program: bring the checkpoint store back from a copy"
            )));
        };
        let now = self.sinks.iter().find(|s| s.id == *id).map(|s| s.index);
        now.ok_or_else(|| {
            RuntimeError::CannotGoOn(format!(
                "section {sequence} of shard {shard} has outputs for the sink {id} that were not delivered, and the job has no outbox \
                 sink of this id any more: start it once more with this sink, stop it in order, and remove the sink then"
            ))
        })
    }

    fn deliver_outputs(
        &mut self,
        section: &Section,
        outputs: &[OutputRef<'_>],
        patience: &Patience,
    ) -> Result<(), RuntimeError> {
        for outbox in &mut self.sinks {
            let index = outbox.index;
            outbox.patiently(patience, |sink| {
                let mut own = outputs.iter().filter(|o| o.sink == index).copied();
                sink.deliver(section.shard, section.sequence, &mut own)
            })?;
        }
        Ok(())
    }

    /// Gives the sinks back, for a run that begins again.
    pub(super) fn into_sinks(self) -> Vec<Outbox> {
        self.sinks
    }
}

fn frames(section: &Section) -> Result<Vec<OutputRef<'_>>, RuntimeError> {
    let outputs = section.outbox.iter().collect::<Result<_, _>>();
    outputs.map_err(|e| RuntimeError::CannotGoOn(format!("outbox of shard {}: {e}", section.shard)))
}
