//! The thread that keeps the membership. It polls the group while the driver restores, commits and waits, so that nothing of that costs the
//! membership; and it stops polling when the driver gives no sign of life, so that others take over (a watchdog of our own: clients count
//! any call for a sign of life).
use super::signals::Signals;
use crate::runtime::RuntimeError;
use crate::source::{GroupEvent, Membership, MembershipError};
use crate::telemetry::Metrics;
use crate::types::Assignment;
use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a poll waits, and so how soon a stop is seen.
const POLL: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(10);
/// Decisions that the driver has not looked at yet. More than a few only come while it hangs, and then nothing is polled.
const EVENTS_MAX: usize = 64;
/// Each error of a client that cannot reach its brokers is one to retry, and a decision that lies behind them must not wait.
const RETRY_MAX: Duration = Duration::from_millis(200);

/// What the driver has to deal with, in order.
#[derive(Debug)]
pub(super) enum Decision {
    Assigned(Assignment),
    TakenBack,
    Failed(MembershipError),
}

/// The running membership.
pub(super) struct Member {
    pub signals: Arc<Signals>,
    decisions: Receiver<Decision>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    leave: Arc<AtomicBool>,
}

struct Keeper {
    membership: Box<dyn Membership>,
    signals: Arc<Signals>,
    decisions: Sender<Decision>,
    closing: Arc<AtomicBool>,
    leave: Arc<AtomicBool>,
    budget: Duration,
    stall_after: Duration,
    metrics: Metrics,
}

impl Member {
    /// Joins the group and keeps the membership from now on.
    pub fn start(
        membership: Box<dyn Membership>,
        signals: &Arc<Signals>,
        (budget, stall_after): (Duration, Duration),
        metrics: Metrics,
    ) -> Result<Member, RuntimeError> {
        let (sender, decisions) = bounded(EVENTS_MAX);
        let (closing, leave) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let keeper = Keeper {
            membership,
            signals: signals.clone(),
            decisions: sender,
            closing: closing.clone(),
            leave: leave.clone(),
            budget,
            stall_after,
            metrics,
        };
        let spawned = std::thread::Builder::new()
            .name("member".into())
            .spawn(move || keeper.keep());
        let thread =
            spawned.map_err(|e| RuntimeError::CannotGoOn(format!("the member's thread cannot be started: {e}")))?;
        Ok(Member {
            signals: signals.clone(),
            decisions,
            closing,
            thread: Some(thread),
            leave,
        })
    }

    /// The next decision; None when there is none in time.
    pub fn next(&self, max_wait: Duration) -> Option<Decision> {
        self.decisions.recv_timeout(max_wait).ok()
    }

    /// Ends the membership; see [`Membership::close`].
    pub fn close(mut self, leave: bool) {
        self.leave.store(leave, Ordering::SeqCst);
        self.end();
    }

    fn end(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the member's thread panicked");
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end();
    }
}

impl Keeper {
    fn keep(mut self) {
        let kept = catch_unwind(AssertUnwindSafe(|| self.until_closed()));
        let panicked = |_| {
            Err(MembershipError::Fatal(
                "keeping the membership of the group panicked".to_owned(),
            ))
        };
        if let Err(error) = kept.unwrap_or_else(panicked) {
            self.signals.fail();
            self.tell(Decision::Failed(error));
        }
        self.membership.close(self.leave.load(Ordering::SeqCst));
    }

    fn closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    fn until_closed(&mut self) -> Result<(), MembershipError> {
        let mut retry = PAUSE;
        self.patiently(&mut retry, |membership| membership.join().map(|()| None))?;
        let mut stalled = false;
        while !self.closing() {
            let silence = self.signals.silence();
            if silence > self.stall_after {
                if !std::mem::replace(&mut stalled, true) {
                    tracing::error!(
                        silence_ms = silence.as_millis() as u64,
                        "not progressing: until there is a sign of life the group is not polled, so that other instances take over in the \
                         end; a call of the store, of the broker or of a user's function has not returned, or a barrier has not come through"
                    );
                }
                self.metrics.stalled(true);
                std::thread::sleep(POLL);
                continue;
            }
            if std::mem::take(&mut stalled) {
                self.metrics.stalled(false);
                tracing::info!("there is progress again, the group is polled again");
            }
            match self.patiently(&mut retry, |membership| membership.poll(POLL))? {
                Some(GroupEvent::Assigned(assignment)) => {
                    self.signals.assigned(&assignment);
                    self.tell(Decision::Assigned(assignment));
                }
                Some(GroupEvent::Revoked) => self.take_back(self.budget)?,
                Some(GroupEvent::Lost) => self.take_back(Duration::ZERO)?,
                None => {}
            }
        }
        Ok(())
    }

    /// EP-12: waits until the driver has finished or dropped the epoch at hand, at most for its time. Past that nothing is sent under the
    /// old assignment any more, and the coordinator would refuse it.
    fn take_back(&mut self, budget: Duration) -> Result<(), MembershipError> {
        self.signals.take_back(budget);
        self.metrics.rebalanced();
        let number = self.signals.taken_back();
        self.tell(Decision::TakenBack);
        while self.signals.settled() < number && !self.signals.time_is_over() && !self.closing() {
            std::thread::sleep(PAUSE);
        }
        let mut retry = PAUSE;
        self.patiently(&mut retry, |membership| membership.release().map(|()| None))?;
        Ok(())
    }

    fn patiently(
        &mut self,
        retry: &mut Duration,
        mut act: impl FnMut(&mut dyn Membership) -> Result<Option<GroupEvent>, MembershipError>,
    ) -> Result<Option<GroupEvent>, MembershipError> {
        loop {
            match act(self.membership.as_mut()) {
                Ok(event) => {
                    *retry = PAUSE;
                    return Ok(event);
                }
                Err(MembershipError::Retriable(why)) => {
                    tracing::warn!(
                        why,
                        backoff_ms = retry.as_millis() as u64,
                        "group membership, trying again"
                    );
                    if self.closing() {
                        return Ok(None);
                    }
                    std::thread::sleep(*retry);
                    *retry = (*retry * 2).min(RETRY_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn tell(&self, decision: Decision) {
        let mut waiting = Some(decision);
        while let Some(decision) = waiting.take() {
            match self.decisions.send_timeout(decision, POLL) {
                Err(SendTimeoutError::Timeout(decision)) if !self.closing() => waiting = Some(decision),
                // The driver has ended when it cannot be told.
                _ => {}
            }
        }
    }
}
