//! Reads a chain ahead of the copy that it is replayed over: on a thread of its own, several sections at a time.
use super::Restore;
use crate::checkpoint::chain::{RestoreError, Tail};
use crate::checkpoint::object::Section;
use crate::config::Config;
use crate::runtime::error::RuntimeError;
use crate::state::{Change, ChangeSet, Merged};
use crate::types::{Link, TimestampMs};
use crossbeam_channel::{Receiver, Sender};
use std::borrow::Borrow;

/// Sections are put together until their changes are so many bytes, or an eighth of what dirty state may take where that is less: each run costs a write, mostly of a table of its own.
/// One run is applied while the next one is read, and the first waits for the copy while its base is fetched, so that there are two of them for each shard that is being restored. With
/// 2 MiB the same restore took a third longer, and with 32 MiB no less.
const RUN_BYTES_MAX: usize = 8 << 20;

/// Of a run, by the memory budget.
pub(crate) fn run_bytes(config: &Config) -> usize {
    (config.budget().dirty_bytes / 8).min(RUN_BYTES_MAX)
}

/// A section of which only its changes are needed any more.
pub(super) struct Replayed {
    pub link: Link,
    pub changes: ChangeSet,
    pub watermark: Option<TimestampMs>,
}

/// Sections that follow each other, the oldest first, and never none.
#[derive(Default)]
pub(super) struct Run {
    sections: Vec<Replayed>,
    bytes: usize,
}

impl Run {
    fn add(&mut self, link: Link, section: Section) {
        self.bytes += section.changes.bytes();
        self.sections.push(Replayed {
            link,
            changes: section.changes,
            watermark: section.watermark,
        });
    }

    pub fn sections(&self) -> &[Replayed] {
        &self.sections
    }

    /// The changes of all sections, each key as the last of them has it.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        Merged::of(self.sections.iter().map(|section| section.changes.iter()))
    }
}

pub(super) type Runs = Receiver<Result<Run, RuntimeError>>;

/// Where a reader puts what it has read; nobody reads on when nobody takes it any more.
struct Out(Sender<Result<Run, RuntimeError>>);

impl Out {
    fn send(&self, tail: &Tail, run: &mut Run) -> Result<(), RuntimeError> {
        if run.sections.is_empty() {
            return Ok(());
        }
        let gone = |_| RestoreError::Stopped { shard: tail.shard }.into();
        self.0.send(Ok(std::mem::take(run))).map_err(gone)
    }
}

/// Reads the tail that `plan` comes to, as long as somebody takes it. What is wrong with it comes behind what was read before.
pub(super) fn read<T: Borrow<Tail>>(
    restore: &Restore<'_>,
    plan: impl FnOnce() -> Result<T, RestoreError>,
    out: Sender<Result<Run, RuntimeError>>,
) {
    let out = Out(out);
    if let Err(error) = all(restore, plan, &out) {
        // Nobody is there any more when whoever takes it has failed.
        let _ = out.0.send(Err(error));
    }
}

fn all<T: Borrow<Tail>>(
    restore: &Restore<'_>,
    plan: impl FnOnce() -> Result<T, RestoreError>,
    out: &Out,
) -> Result<(), RuntimeError> {
    let tail = plan()?;
    let tail = tail.borrow();
    restore.progress.add_to_replay(tail.links.len());
    let mut run = Run::default();
    let read = restore.chain.replay(tail, |link, section| {
        run.add(*link, section);
        match run.bytes < restore.run_bytes {
            true => Ok(()),
            false => out.send(tail, &mut run),
        }
    });
    tracing::debug!(shard = %tail.shard, sections = tail.links.len(), "chain read");
    out.send(tail, &mut run)?;
    read
}
