//! Group mode: the instances of a consumer group share a stage's partitions (EP-7, EP-10, EP-12).
//!
//! Each partition is a shard. The group gives an instance an *assignment*; what this instance does for it, from reading the pointers to the
//! last commit, is a *hold*, and nothing of a hold outlives it: lanes, channels, typed maps, barriers and shares are made anew for the next
//! one, so that no record, entry or share of an old assignment can reach a new one. What remains are the local copies on disk, and they
//! equal a committed section.
//!
//! ```text
//! member's thread:  join, poll ---- Assigned ---+            +---- TakenBack, and its time -----> release
//! driver:                                       +-> hold: pointers -> restore -> [records flow] -> last epoch, or dropped
//! ```
mod fits;
mod hold;
mod member;
mod settle;
mod signals;

pub(super) use signals::Signals;

use self::hold::{Ended, Hold};
use self::member::{Decision, Member};
use super::start::{self, Prepared};
use super::{ExitCode, MembershipFactory, REOPENS_MAX, RESTARTS_MAX, Runtime, RuntimeError, StageInfo};
use crate::runtime::backoff::Backoff;
use crate::runtime::commit::CommitDriver;
use crate::runtime::instance::Instance;
use crate::runtime::progress::Phase;
use crate::source::{Membership, MembershipError};
use crate::state::StateError;
use crate::topology::BuiltSink;
use crate::types::{Assignment, Clock, Partitioner, Shard, TopicInfo};
use std::sync::Arc;
use std::time::Duration;

/// How long the driver waits for a decision of the group before it looks at a stop.
const TICK: Duration = Duration::from_millis(20);

/// Single or group mode, with what group mode needs.
pub(super) enum Group {
    Single,
    Group {
        factory: Option<MembershipFactory>,
        signals: Arc<Signals>,
    },
}

impl Group {
    pub(super) fn joining(factory: MembershipFactory, clock: Arc<dyn Clock>) -> Group {
        Group::Group {
            factory: Some(factory),
            signals: Arc::new(Signals::new(clock)),
        }
    }

    pub(super) fn with_clock(&mut self, clock: &Arc<dyn Clock>) {
        if let Group::Group { signals, .. } = self {
            *signals = Arc::new(Signals::new(clock.clone()));
        }
    }

    pub(super) fn signals(&self) -> Option<Arc<Signals>> {
        match self {
            Group::Single => None,
            Group::Group { signals, .. } => Some(signals.clone()),
        }
    }

    /// The membership, in group mode; not joined yet.
    pub(super) fn membership(&mut self, stage: &StageInfo) -> Result<Option<Box<dyn Membership>>, RuntimeError> {
        match self {
            Group::Single => Ok(None),
            Group::Group { factory, .. } => {
                let factory = factory
                    .take()
                    .ok_or_else(|| RuntimeError::CannotGoOn("this runtime has run".to_owned()))?;
                factory(stage).map(Some).map_err(ended)
            }
        }
    }
}

fn ended(error: MembershipError) -> RuntimeError {
    match error {
        MembershipError::NameTaken(why) => RuntimeError::Fenced(why),
        MembershipError::Retriable(why) | MembershipError::Fatal(why) => RuntimeError::CannotGoOn(why),
    }
}

/// What group mode asks of a job, checked before anything is touched; sets the number of shards and gives the instance's name. None in
/// single mode.
pub(super) fn prepare(
    runtime: &mut Runtime,
    instance: &Instance,
    topics: &[TopicInfo],
) -> Result<Option<String>, RuntimeError> {
    let refused = |why: String| Err(RuntimeError::CannotGoOn(why));
    if matches!(runtime.group, Group::Single) {
        // Key groups would follow the hash here and the partition there, and the objects do not tell which.
        return match runtime.config.partitioner {
            Partitioner::Unknown => refused(
                "the partitioner unknown is for group mode, where a record's partition is its shard; name murmur2 or crc32 in single mode"
                    .to_owned(),
            ),
            _ => Ok(None),
        };
    }
    let outbox = |(id, sink): &(String, BuiltSink)| matches!(sink, BuiltSink::Outbox(_)).then(|| id.clone());
    if let Some(id) = runtime.topology.sinks.iter().find_map(outbox) {
        return refused(format!(
            "sink {id} is delivered from the outbox, which one instance does for all shards: run the job in single mode"
        ));
    }
    runtime.topology.record_keyed().map_err(RuntimeError::CannotGoOn)?;
    let Some(first) = topics.first() else {
        return refused("group mode needs a source".to_owned());
    };
    if let Some(other) = topics.iter().find(|t| t.partitions != first.partitions) {
        return refused(format!(
            "topic {} has {} partitions and topic {} has {}: what is read into one state has to be partitioned alike, so that a key of both \
             lies on the same partition; give both as many, or run the job in single mode",
            first.topic, first.partitions, other.topic, other.partitions
        ));
    }
    if runtime.faults.broken("EP-12")
        && let Some(signals) = runtime.group.signals()
    {
        signals.make_deaf();
    }
    runtime.config.shards = first.partitions;
    instance.name(runtime.config.instance.as_deref()).map(Some)
}

/// Runs a job in group mode until a stop, or until something ends it.
pub(super) fn run(
    runtime: &mut Runtime,
    prepared: &mut Prepared,
    membership: Box<dyn Membership>,
) -> Result<(), RuntimeError> {
    let (Some(log), Some(instance), Some(signals)) =
        (prepared.log.take(), prepared.instance.take(), runtime.group.signals())
    else {
        return Err(RuntimeError::CannotGoOn("this runtime has run".to_owned()));
    };
    let mut driver = start::driver(runtime, prepared, log, instance);
    if let Err(error) = fits::check(runtime, prepared, &mut driver) {
        runtime.enter(Phase::Stopped);
        driver.log.close();
        // Nothing has begun that a stop would have to end.
        return match runtime.stop.asked() && error.exit_code() == ExitCode::Failed {
            true => Ok(()),
            false => Err(error),
        };
    }
    let limits = (runtime.config.revoke_budget, runtime.config.stall_after);
    let member = Member::start(membership, &signals, limits, runtime.metrics.clone())?;
    let result = Holder {
        runtime,
        prepared,
        driver: &mut driver,
        member: &member,
        damages: 0,
        reopens: 0,
    }
    .until_stopped();
    runtime.enter(Phase::Stopped);
    driver.log.close();
    // After other failures the partitions are wanted back by the restart that follows. One that fails like this run would only keep them,
    // again and again, from those who can go on.
    let leave = match &result {
        Ok(()) | Err(RuntimeError::StoppedEarly(_)) => runtime.config.leave_group,
        Err(error) => error.lasts(),
    };
    member.close(leave);
    result
}

/// Holds one assignment after the other.
struct Holder<'a> {
    runtime: &'a mut Runtime,
    prepared: &'a Prepared,
    driver: &'a mut CommitDriver,
    member: &'a Member,
    damages: u32,
    reopens: u32,
}

impl Holder<'_> {
    fn until_stopped(&mut self) -> Result<(), RuntimeError> {
        loop {
            self.runtime.enter(Phase::Restoring);
            self.runtime.metrics.shards(0, 0);
            let Some(assignment) = self.next_assignment()? else {
                return Ok(());
            };
            if self.until_taken_back(&assignment)? == Ended::Stopped {
                return Ok(());
            }
        }
    }

    /// Waits for an assignment; None when a stop came first.
    fn next_assignment(&mut self) -> Result<Option<Assignment>, RuntimeError> {
        loop {
            self.member.signals.tick();
            match self.member.next(TICK) {
                Some(Decision::Assigned(assignment)) => return Ok(Some(assignment)),
                Some(Decision::TakenBack) => self.member.signals.settle(),
                Some(Decision::Failed(error)) => return Err(ended(error)),
                None if self.runtime.stop.asked() => return Ok(None),
                None => {}
            }
        }
    }

    /// Holds an assignment, again from its pointers when something in this process went wrong with it.
    fn until_taken_back(&mut self, assignment: &Assignment) -> Result<Ended, RuntimeError> {
        let mut backoff = start::patience(self.runtime).backoff("hold");
        loop {
            let before = self.runtime.progress.barriers();
            let held = Hold::new(self.runtime, self.prepared, self.driver, self.member, assignment).run();
            if self.runtime.progress.barriers() > before {
                backoff = start::patience(self.runtime).backoff("hold");
                self.reopens = 0;
            }
            match held {
                Ok(ended) => return Ok(ended),
                Err(error) => self.again(error, &mut backoff)?,
            }
            if self.member.signals.end_of_work() {
                return Ok(Ended::TakenBack);
            }
        }
    }

    /// Whether, and when, to begin again in place.
    fn again(&mut self, error: RuntimeError, backoff: &mut Backoff) -> Result<(), RuntimeError> {
        let taken_back = self.member.signals.end_of_work();
        match error {
            RuntimeError::AssignmentLost(why) => {
                tracing::warn!(why, "the assignment is dropped");
                // Others replay it, or the next start does; this run has not ended with it.
                if self.runtime.stop.asked() && self.runtime.progress.read() > self.runtime.progress.committed() {
                    // Whoever was fenced, or may not go on, says so also in the moment of a stop.
                    while let Some(decision) = self.member.next(Duration::ZERO) {
                        if let Decision::Failed(error) = decision {
                            return Err(ended(error));
                        }
                    }
                    return Err(RuntimeError::StoppedEarly(format!("committing the last epoch: {why}")));
                }
                // The group tells soon, or the pointers are read again.
                if taken_back {
                    return Ok(());
                }
                quietly(backoff.wait(&why))
            }
            RuntimeError::LocalCopy(StateError::Damaged { shard, reason, path }) if self.damages + 1 < RESTARTS_MAX => {
                tracing::warn!(shard, %reason, %path, "local copy damaged, restored from the checkpoint store");
                self.damages += 1;
                self.runtime.metrics.restarted("damaged");
                // A copy that is open cannot be wiped.
                self.driver.forget_shards();
                Ok(self.prepared.backends.wipe(Shard(shard))?)
            }
            error if error.may_pass_in_place() && self.reopens < REOPENS_MAX && !self.runtime.stop.asked() => {
                self.reopens += 1;
                self.runtime.metrics.restarted("unwritable");
                quietly(backoff.wait(&format!("{error}; the local copies are opened anew")))
            }
            RuntimeError::LocalCopy(damaged @ StateError::Damaged { .. }) => Err(RuntimeError::CannotGoOn(format!(
                "{damaged}; this is the {RESTARTS_MAX}. time: check the disk"
            ))),
            // What was being tried again was taken back meanwhile.
            RuntimeError::Store(_) | RuntimeError::Restore(_) if taken_back => Ok(()),
            error => Err(error),
        }
    }
}

/// A wait that was cut short because the assignment was taken back is no error.
fn quietly(waited: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
    match waited {
        Err(RuntimeError::AssignmentLost(_)) => Ok(()),
        other => other,
    }
}
