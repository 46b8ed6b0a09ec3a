//! Who works on which partition, and how often that changed: a *handover* is a partition whose work another instance has gone on with.
//!
//! Two witnesses, none of them the job: the broker's description of the consumer group says which instance a partition is assigned to,
//! and the committed pointer, with the incarnation that every producer session draws anew, says that somebody else commits for it.
//! Neither would do alone: an instance that is given a partition and never gets as far as a commit has taken nothing over, and an
//! instance that was killed and came back to its own partitions draws a new incarnation as well.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::pointer::Pointer;
use crate::watch::{self, Committed, WatchOptions};

mod count;
mod group;
#[cfg(test)]
mod tests;

pub use count::Handover;
use count::Owners;

/// Time between two looks. A partition that comes and goes between two of them is not counted.
const PERIOD: Duration = Duration::from_millis(200);
/// How long the broker may take to answer.
const CALL: Duration = Duration::from_secs(2);

/// Starts watching.
pub struct OwnerWatch;

impl OwnerWatch {
    /// Begins to poll on a thread of its own. Reads what the options say of brokers, job, stage and topics.
    ///
    /// # Errors
    /// When a topic is not there, or no thread can be started.
    pub fn start(options: WatchOptions) -> Result<WatchingOwners> {
        let partitions = watch::partitions(&options)?;
        let stop = Arc::new(AtomicBool::new(false));
        let owners = Arc::new(Mutex::new(Owners::default()));
        let (stop_too, owners_too) = (stop.clone(), owners.clone());
        let thread = std::thread::Builder::new()
            .name("owner-watch".into())
            .spawn(move || {
                let mut eyes = None;
                while !stop_too.load(Ordering::SeqCst) {
                    // Without an answer nothing is known, and nothing has changed.
                    let _ = look(&options, &partitions, &mut eyes, &owners_too);
                    std::thread::sleep(PERIOD);
                }
            })
            .context("starting the watch of owners")?;
        Ok(WatchingOwners {
            stop,
            owners,
            thread: Some(thread),
        })
    }
}

/// A watch that goes on. Dropping it ends it.
pub struct WatchingOwners {
    stop: Arc<AtomicBool>,
    owners: Arc<Mutex<Owners>>,
    thread: Option<JoinHandle<()>>,
}

impl WatchingOwners {
    /// What was handed over so far.
    #[must_use]
    pub fn handovers(&self) -> Vec<Handover> {
        lock(&self.owners).handovers().to_vec()
    }

    /// The instances of the group at the last look, with their partitions; empty while it rebalances.
    #[must_use]
    pub fn members(&self) -> BTreeMap<String, Vec<i32>> {
        lock(&self.owners).members().clone()
    }

    /// The partitions that an instance owned at the last look and was the last to commit for.
    #[must_use]
    pub fn served_by(&self, instance: &str) -> Vec<i32> {
        lock(&self.owners).served_by(instance)
    }
}

impl Drop for WatchingOwners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic of the watch shows as handovers that are missed.
            let _ = thread.join();
        }
    }
}

fn lock(owners: &Mutex<Owners>) -> MutexGuard<'_, Owners> {
    owners.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One look at both.
fn look(
    options: &WatchOptions,
    partitions: &[(String, i32)],
    eyes: &mut Option<(BaseConsumer, String)>,
    owners: &Mutex<Owners>,
) -> Result<()> {
    if eyes.is_none() {
        *eyes = watch::consumer_of_group(options)?;
    }
    let Some((consumer, stage)) = eyes.as_ref() else {
        return Ok(());
    };
    let Some(committed) = watch::look(consumer, partitions)? else {
        return Ok(());
    };
    let pointer = |c: &Committed| Some((c.partition, Pointer::parse(&c.pointer).ok()?.epoch));
    let pointers = committed.iter().filter_map(pointer).collect();
    let name = format!("{}.{stage}", options.job);
    let list = consumer.client().fetch_group_list(Some(&name), CALL)?;
    let group = list.groups().iter().find(|g| g.name() == name);
    let members = group.map(group::members).unwrap_or_default();
    lock(owners).observe(members, &pointers);
    Ok(())
}
