//! Publishing a durable epoch: one transaction, and what to do when it does not go well (EP-5, EP-7, EP-8).
use super::commit::{CommitDriver, Durable, Written};
use super::error::RuntimeError;
use super::start::WATCH_STEP;
use crate::checkpoint::pointer::Pointer;
use crate::checkpoint::protocol::{
    Fence, InDoubt, PublishFacts, Verdict, after_fence, after_unknown, may_publish, needs_new_session,
};
use crate::checkpoint::protocol::{age_is_in_doubt, is_young, third};
use crate::checkpoint::store::StoreErrorKind;
use crate::checkpoint::store_clock;
use crate::sink::buffer::WalkError;
use crate::sink::{CommitEntry, Committed, Log, LogError, LogErrorKind};
use crate::testing::faults::Injected;
use crate::types::OutputRef;
use std::time::Duration;

/// Into how many more pieces the outputs are cut after each refusal. Fewer leave the refused output in company after the last try, more
/// wait more often.
const PIECES_PER_REFUSAL: u64 = 16;

/// How long a fenced producer waits for the group to tell that its member was fenced too: two heartbeats of the default, and some.
const MEMBER_FENCE_WATCH: Duration = Duration::from_millis(2500);

/// How long one read of an epoch's pointers waits until they are stable. Longer would be silence for the group, which takes an instance that
/// gives no sign of life for one that hangs, with what the next try waits as well; shorter would ask a slow coordinator again and again.
const READ_NAMED: Duration = Duration::from_secs(5);

/// What became of an epoch that was to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// It is committed.
    Committed,
    /// It is not, and must not be as it is: it was written too long ago (EP-9).
    TooOld,
}

/// The step at which an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    Outputs,
    Offsets,
    Commit,
}

/// A failed attempt.
enum Failure {
    Log(Step, LogError),
    Run(RuntimeError),
}

impl From<Injected> for Failure {
    fn from(injected: Injected) -> Self {
        Failure::Run(injected.into())
    }
}

fn at(step: Step) -> impl Fn(LogError) -> Failure {
    move |error| Failure::Log(step, error)
}

impl CommitDriver {
    /// Publishes an epoch that is durable; returns when it is committed for certain, or certainly not.
    pub(super) fn publish(&mut self, epoch: &Durable) -> Result<Published, RuntimeError> {
        let mut backoff = self.patience.backoff("publish");
        let mut refusals = 0;
        let started = self.patience.clock.elapsed();
        loop {
            self.session.stale |= self.log.session_is_suspect() && !self.faults.broken("EP-5");
            self.session.stale |= self.has_rested();
            if self.session.stale && self.settle_session(Some(epoch))? == Verdict::Committed && !epoch.again {
                break;
            }
            if self.is_too_old(epoch)? {
                return Ok(Published::TooOld);
            }
            self.patience.still_ours("before a transaction was begun")?;
            let why = match self.attempt(epoch, refusals) {
                Ok(facts) => {
                    self.session.stale = needs_new_session(&facts) && !self.faults.broken("EP-5");
                    break;
                }
                Err(Failure::Run(error)) => {
                    // Readers wait for an open transaction. A fail point stands for a crash, which aborts nothing.
                    if !matches!(error, RuntimeError::Injected(_)) {
                        self.abort();
                    }
                    return Err(error);
                }
                Err(Failure::Log(step, error)) => self.after_failure(epoch, step, error, &mut refusals)?,
            };
            backoff.wait(&why)?;
        }
        self.session.rebuilt_after_fence = false;
        self.committed_at = self.patience.clock.elapsed();
        let metrics = &self.patience.metrics;
        metrics.committed_at(self.patience.clock.now_ms());
        if !epoch.again {
            let took = self.committed_at.saturating_sub(started);
            metrics.published(took, epoch.records, epoch.changes);
        }
        Ok(Published::Committed)
    }

    /// EP-9: an epoch that was written long ago may be garbage, and is certainly not committed when this is asked: no transaction of it is open,
    /// and an unknown outcome has been decided. The store's clock tells, which need not be asked about an epoch of a moment ago.
    fn is_too_old(&self, epoch: &Durable) -> Result<bool, RuntimeError> {
        let Written { elapsed, wall_ms } = self.now();
        let (grace, since) = (self.upkeep.grace(), epoch.written);
        let passed = elapsed.saturating_sub(since.elapsed);
        let broken = self.faults.broken("EP-9") || self.faults.broken("EP-1");
        if epoch.again || broken || !age_is_in_doubt(passed, wall_ms.saturating_sub(since.wall_ms), grace) {
            return Ok(false);
        }
        let path = self.layout.epoch(epoch.pointer.epoch);
        let mut backoff = self.patience.backoff("write");
        loop {
            let age = store_clock::now_ms(self.store.as_ref(), &self.layout)
                .and_then(|now| Ok(now.saturating_sub(self.store.modified_ms(&path)?)));
            match age {
                Ok(age_ms) => return Ok(!is_young(age_ms, grace)),
                // Collected already.
                Err(e) if e.kind() == StoreErrorKind::NotFound => return Ok(true),
                Err(e) if e.kind() == StoreErrorKind::Retriable => backoff.wait(&e)?,
                Err(e) => return Err(RuntimeError::CannotGoOn(e.to_string())),
            }
        }
    }

    /// Single mode: the commit records that would fence a session are collected after the grace. One that has not committed for a good part of
    /// it is opened anew, and finds out whether it is still the last.
    fn has_rested(&self) -> bool {
        let never = self.committed_at == Duration::ZERO;
        self.group.is_none() && !never && self.since_commit() > third(self.upkeep.grace())
    }

    /// Commits the pointers again as they are, so that an idle stage's offsets do not expire (EP-10).
    ///
    /// # Errors
    /// As for [`CommitDriver::commit`].
    pub fn recommit(&mut self) -> Result<(), RuntimeError> {
        self.instance.check()?;
        let groups = self.expected.groups;
        let entry = |p: &crate::types::Position| {
            let pointer = self.pointers.get(&groups.shard_of_partition(p.partition))?;
            Some(CommitEntry {
                position: p.clone(),
                pointer: pointer.to_string(),
            })
        };
        let entries: Vec<CommitEntry> = self.positions.values().filter_map(entry).collect();
        let Some(pointer) = self.pointers.values().next().copied().filter(|_| !entries.is_empty()) else {
            return Ok(());
        };
        let permit = may_publish(&[])?;
        let again = Durable {
            written: self.now(),
            pointer,
            outputs: Vec::new(),
            entries,
            records: 0,
            changes: 0,
            again: true,
            _permit: permit,
        };
        self.publish(&again).map(|_| ())
    }

    /// How long ago offsets were committed.
    #[must_use]
    pub fn since_commit(&self) -> Duration {
        self.patience.clock.elapsed().saturating_sub(self.committed_at)
    }

    fn attempt(&mut self, epoch: &Durable, refusals: u32) -> Result<PublishFacts, Failure> {
        self.session.begun_at = self.patience.clock.elapsed();
        self.log.begin().map_err(at(Step::Begin))?;
        self.faults.at("txn_begun")?;
        self.send_outputs(epoch, refusals)?;
        self.log.drain().map_err(at(Step::Outputs))?;
        self.faults.at("outputs_sent")?;
        // EP-12: outputs that were sent for what is not ours any more are aborted.
        self.still_ours("before its offsets were sent")?;
        self.take_any_identity()?;
        let clock = self.patience.clock.clone();
        let offsets_started = clock.elapsed();
        self.send_offsets(&epoch.entries)?;
        let offsets_took = clock.elapsed().saturating_sub(offsets_started);
        self.faults.at("post_send_offsets")?;
        let commit_started = clock.elapsed();
        self.log.commit().map_err(at(Step::Commit))?;
        let commit_took = clock.elapsed().saturating_sub(commit_started);
        self.faults.at("post_commit")?;
        let suspect = self.log.session_is_suspect();
        Ok(PublishFacts {
            suspect,
            offsets_failed: false,
            commit_failed: false,
            offsets_took,
            commit_took,
        })
    }

    /// What `break:EP-12` does: what was made under one assignment is sent under the newest.
    fn take_any_identity(&mut self) -> Result<(), Failure> {
        let newest = self.group.as_ref().and_then(|group| group.newest());
        match newest.filter(|_| self.faults.broken("EP-12")) {
            Some(newest) => self.log.assign(&newest).map_err(at(Step::Offsets)),
            None => Ok(()),
        }
    }

    /// EP-12: nothing more is sent for an assignment that was taken back.
    fn still_ours(&self, when: &str) -> Result<(), Failure> {
        self.patience.still_ours(when).map_err(Failure::Run)
    }

    /// A refusal at delivery names the first output of a batch, and there may be many batches: each try after one waits for its outputs in
    /// pieces a sixteenth of the size, so that the error of the last names the one that was refused.
    fn send_outputs(&mut self, epoch: &Durable, refusals: u32) -> Result<(), Failure> {
        let total: u64 = epoch.outputs.iter().map(|b| b.len()).sum();
        let pieces = PIECES_PER_REFUSAL.saturating_pow(refusals);
        let piece = (total / pieces).max(1);
        let mut sent = 0;
        for buffer in &epoch.outputs {
            let mut visit = |out: &OutputRef<'_>| -> Result<(), Failure> {
                if sent == total / 2 {
                    self.faults.at("outputs_half_sent")?;
                }
                sent += 1;
                match self.log.send(out) {
                    // EP-8: an output that the log refuses is never left out. The switch leaves it out.
                    Err(e) if e.kind == LogErrorKind::OutputRefused && self.faults.broken("EP-8") => {}
                    sent => sent.map_err(at(Step::Outputs))?,
                }
                if pieces > 1 && sent.is_multiple_of(piece) {
                    self.log.drain().map_err(at(Step::Outputs))?;
                }
                Ok(())
            };
            buffer.walk(&mut visit).map_err(|e| match e {
                WalkError::Visitor(failure) => failure,
                WalkError::Spill(lost) => Failure::Run(RuntimeError::CannotGoOn(lost.to_string())),
                WalkError::Damaged(lost) => Failure::Run(RuntimeError::CannotGoOn(lost.to_string())),
            })?;
        }
        Ok(())
    }

    /// Sending offsets is retriable but not resumable: repeated with the same arguments, within a deadline.
    fn send_offsets(&mut self, entries: &[CommitEntry]) -> Result<(), Failure> {
        let clock = self.patience.clock.clone();
        let deadline = clock.elapsed() + self.transaction_timeout / 2;
        loop {
            match self.log.send_offsets(entries) {
                Ok(()) => return Ok(()),
                Err(e) if e.kind == LogErrorKind::Retriable && clock.elapsed() < deadline => {
                    clock.sleep(Duration::from_millis(10));
                }
                Err(e) => return Err(Failure::Log(Step::Offsets, e)),
            }
        }
    }

    /// After a failed attempt: aborts, or marks the session for being opened anew, so that the epoch may be published again.
    fn after_failure(
        &mut self,
        epoch: &Durable,
        step: Step,
        error: LogError,
        refusals: &mut u32,
    ) -> Result<LogError, RuntimeError> {
        tracing::warn!(epoch = %epoch.pointer.epoch, ?step, kind = ?error.kind, %error, "publishing failed");
        match error.kind {
            LogErrorKind::Fenced => self.on_fence(epoch, &error)?,
            LogErrorKind::SessionLost => self.session.stale = true,
            LogErrorKind::Retriable | LogErrorKind::Abortable if step == Step::Commit => {
                // EP-5: only an abort that went through says that it was not committed. The switch takes any failure for an abort.
                self.abort();
                self.session.stale = true;
            }
            LogErrorKind::Retriable | LogErrorKind::Abortable => {
                self.abort();
                self.session.stale |= step == Step::Offsets;
            }
            LogErrorKind::OutputRefused => {
                self.abort();
                *refusals += 1;
                if *refusals > self.refusal_retries_max {
                    return Err(RuntimeError::CannotGoOn(format!(
                        "epoch {} was refused {refusals} times: {error}; raise the topic's or broker's limit, or give the source or the \
                         step a bad-record policy; nothing of the epoch was committed",
                        epoch.pointer.epoch
                    )));
                }
            }
            // A name that was taken may be our own former self's: the membership knows, and tells with its next heartbeat.
            LogErrorKind::StaleAssignment | LogErrorKind::NameTaken => {
                self.abort();
                return Err(RuntimeError::AssignmentLost(error.to_string()));
            }
            LogErrorKind::Fatal => {
                self.abort();
                return Err(RuntimeError::CannotGoOn(error.to_string()));
            }
        }
        // A late answer to the failed attempt must not reach the next one.
        self.session.stale |= self.log.session_is_suspect();
        if self.faults.broken("EP-5") && step == Step::Commit {
            self.pretend_aborted()?;
        }
        Ok(error)
    }

    /// What `break:EP-5` does: a new session, and no look at the pointers.
    fn pretend_aborted(&mut self) -> Result<(), RuntimeError> {
        self.open_session()
    }

    fn abort(&mut self) {
        if let Err(error) = self.log.abort() {
            tracing::warn!(%error, "aborting failed, the session is opened anew");
            self.session.stale = true;
        }
    }

    /// EP-7: fenced by the broker's time-out or by another instance? The pointers tell, read without a session, which would fence the
    /// other one.
    fn on_fence(&mut self, epoch: &Durable, error: &LogError) -> Result<(), RuntimeError> {
        if self.group.is_some() {
            return self.on_fence_of_member();
        }
        let broken = self.faults.broken("EP-7");
        // A fence this late is the broker's own: it has timed the transaction out, however often that happens.
        let timed_out = self.patience.clock.elapsed() >= self.session.begun_at + self.transaction_timeout;
        let rebuilt = self.session.rebuilt_after_fence && !timed_out && !broken;
        let own = broken || rebuilt || self.watch_own_pointer(epoch, timed_out)?;
        match after_fence(own, rebuilt) {
            Fence::Exit => Err(RuntimeError::Fenced(error.to_string())),
            Fence::Rebuild => {
                // A time-out is nobody's doing: the next fence is the first one.
                self.session.rebuilt_after_fence |= !timed_out;
                self.session.stale = true;
                Ok(())
            }
        }
    }

    /// In group mode the name belongs to the group's member, and a member that another one has fenced hears so with its next heartbeat: what it
    /// was assigned is lost. Whoever does not hear it in time was timed out by the broker.
    fn on_fence_of_member(&mut self) -> Result<(), RuntimeError> {
        // Whatever comes of it, the transaction that is open in this session is of no more use.
        self.session.stale = true;
        let clock = self.patience.clock.clone();
        let end = clock.elapsed() + MEMBER_FENCE_WATCH;
        while clock.elapsed() < end && !self.faults.broken("EP-7") {
            self.patience.still_ours("watching the group after a fence")?;
            clock.sleep(WATCH_STEP);
        }
        Ok(())
    }

    /// Whether the committed pointer stays our own. Whoever has taken over commits a first epoch before it restores; it gets the time to
    /// do so, or we would fence it in turn and commit before it does. Fenced earlier than a time-out can be, somebody has taken over,
    /// and may take as long as a transaction; else nobody may be there, and waiting longer than a spare does would help nobody.
    fn watch_own_pointer(&mut self, epoch: &Durable, timed_out: bool) -> Result<bool, RuntimeError> {
        let clock = self.patience.clock.clone();
        let patience = if timed_out {
            Duration::ZERO
        } else {
            self.transaction_timeout
        };
        let end = clock.elapsed() + self.watch_for.max(patience);
        loop {
            let committed = self.read_committed()?;
            let verdict = after_unknown(&self.in_doubt(&committed, Some(epoch)));
            if verdict == Verdict::Foreign || clock.elapsed() >= end {
                return Ok(verdict != Verdict::Foreign);
            }
            if self.patience.stop.asked() {
                return Err(RuntimeError::StoppedEarly(
                    "watching the pointer after a fence".to_owned(),
                ));
            }
            clock.sleep(WATCH_STEP);
        }
    }

    /// Opens the session anew and reads what became of `epoch`, or without one whether the committed pointer is still our last.
    pub(super) fn settle_session(&mut self, epoch: Option<&Durable>) -> Result<Verdict, RuntimeError> {
        self.open_session()?;
        self.make_way_for_a_group()?;
        let committed = self.read_named(epoch)?;
        let nothing_committed = self.pointers.is_empty() && epoch.is_none();
        let verdict = match self.in_doubt(&committed, epoch) {
            _ if nothing_committed => Verdict::NotCommitted,
            in_doubt => after_unknown(&in_doubt),
        };
        if epoch.is_some() {
            self.patience.metrics.in_doubt();
        }
        if verdict == Verdict::Foreign && !self.faults.broken("EP-7") {
            let why = format!("the committed pointer is {}", pointer_text(&committed));
            return Err(match self.group {
                None => RuntimeError::Fenced(why),
                // The group says whose turn it is; the pointers are read again.
                Some(_) => RuntimeError::AssignmentLost(why),
            });
        }
        Ok(verdict)
    }

    /// What is committed now for the partitions of an epoch, beside what was to be and what was before; without an epoch for all that this
    /// instance answers for.
    fn in_doubt<'a>(&self, committed: &'a [Committed], epoch: Option<&Durable>) -> Vec<InDoubt<'a>> {
        let named = |c: &Committed, epoch: &Durable| {
            let of = |e: &&CommitEntry| e.position.topic == c.topic && e.position.partition == c.partition;
            let entry = epoch.entries.iter().find(of);
            let pointer = entry.and_then(|e| Pointer::parse(e.pointer.as_bytes()).ok());
            // In single mode what an epoch does not name must not be there at all.
            pointer.or_else(|| self.group.is_none().then_some(epoch.pointer))
        };
        let in_doubt = |committed: &'a Committed| {
            let shard = self.expected.groups.shard_of_partition(committed.partition);
            let parent = self.pointers.get(&shard).copied();
            let published = epoch.map_or(parent, |epoch| named(committed, epoch))?;
            Some(InDoubt {
                committed,
                published,
                parent,
            })
        };
        committed.iter().filter_map(in_doubt).collect()
    }

    /// Single mode commits as nobody's member, which a group takes unseen: who has taken its session back looks whether instances in group
    /// mode run the stage by now. They join before they fence it.
    pub(super) fn make_way_for_a_group(&mut self) -> Result<(), RuntimeError> {
        if self.group.is_some() || self.faults.broken("EP-7") || !self.group_has_members()? {
            return Ok(());
        }
        Err(RuntimeError::Fenced(
            "the stage's consumer group has members: instances in group mode run it".to_owned(),
        ))
    }

    /// Whether consumers have joined the stage's group; tried again until it works.
    pub(super) fn group_has_members(&mut self) -> Result<bool, RuntimeError> {
        let mut backoff = self.patience.backoff("group");
        loop {
            match self.log.group_has_members() {
                Ok(members) => return Ok(members),
                Err(e) if e.kind == LogErrorKind::Fatal => return Err(RuntimeError::CannotGoOn(e.to_string())),
                Err(e) => backoff.wait(&e)?,
            }
        }
    }

    /// Reads stable what an epoch names, or without one what this instance answers for. In group mode nothing else: a shard that is assigned
    /// and not restored yet may be undecided for long, and keeps no other waiting (EP-10).
    fn read_named(&mut self, epoch: Option<&Durable>) -> Result<Vec<Committed>, RuntimeError> {
        if self.group.is_none() {
            return self.read_committed();
        }
        let of_entry = |e: &CommitEntry| (e.position.topic.clone(), e.position.partition);
        let named: Vec<(String, i32)> = match epoch {
            Some(epoch) => epoch.entries.iter().map(of_entry).collect(),
            None => self.positions.keys().cloned().collect(),
        };
        self.read_pointers(|log| log.pointer_reader()?.committed(&named, READ_NAMED))
    }

    /// Reads the pointers stable; tried again until it works.
    pub(super) fn read_committed(&mut self) -> Result<Vec<Committed>, RuntimeError> {
        self.read_pointers(|log| log.committed())
    }

    /// Reads the pointers as they are, see [`Log::glance`]; tried again until it works.
    pub(super) fn glance(&mut self) -> Result<Vec<Committed>, RuntimeError> {
        self.read_pointers(|log| log.glance())
    }

    fn read_pointers(
        &mut self,
        read: impl Fn(&mut dyn Log) -> Result<Vec<Committed>, LogError>,
    ) -> Result<Vec<Committed>, RuntimeError> {
        let mut backoff = self.patience.backoff("pointers");
        loop {
            match read(self.log.as_mut()) {
                Ok(committed) => return Ok(committed),
                Err(e) if e.kind == LogErrorKind::Fatal => return Err(RuntimeError::CannotGoOn(e.to_string())),
                Err(e) => backoff.wait(&e)?,
            }
        }
    }
}

fn pointer_text(committed: &[Committed]) -> String {
    let first = committed.iter().find_map(|c| c.metadata.as_deref());
    let parsed = first.and_then(|m| Pointer::parse(m).ok());
    parsed.map_or_else(|| "missing or not ours".to_owned(), |p| format!("epoch {}", p.epoch))
}
