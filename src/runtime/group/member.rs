//! The thread that keeps the membership. It polls the group while the driver restores, commits and waits, so that nothing of that costs the
//! membership; and it stops polling when the driver gives no sign of life, so that others take over (a watchdog of our own: clients count
//! any call for a sign of life).
use super::signals::Signals;
use crate::runtime::RuntimeError;
use crate::runtime::error::no_thread;
use crate::source::{GroupEvent, Membership, MembershipError};
use crate::telemetry::{Metrics, Trouble};
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
/// Each error of a client that cannot reach its brokers is one to retry, and a decision that lies behind them must not wait. So it is the
/// log that becomes quieter in an outage ([`Trouble`]), not the polling.
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
    trouble: Trouble,
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
            trouble: Trouble::default(),
        };
        let spawned = std::thread::Builder::new()
            .name("member".into())
            .spawn(move || keeper.keep());
        let thread = spawned.map_err(|e| no_thread("the member's", &e))?;
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
        let mut leave = false;
        if let Err(error) = kept.unwrap_or_else(panicked) {
            // Exit 13: nobody is going to come back for the partitions.
            leave = matches!(error, MembershipError::Fatal(_));
            self.signals.fail();
            self.tell(Decision::Failed(error));
        }
        self.membership.close(leave || self.leave.load(Ordering::SeqCst));
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
                    self.works(event.as_ref());
                    return Ok(event);
                }
                Err(MembershipError::Retriable(why)) => {
                    if let Some(unsaid) = self.trouble.failed(self.signals.now()) {
                        tracing::warn!(why, unsaid, "group membership, trying again");
                    }
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

    /// A poll that finds nothing may do so without any broker; an assignment comes from one.
    fn works(&mut self, event: Option<&GroupEvent>) {
        let lasted = match event {
            Some(GroupEvent::Assigned(_)) => self.trouble.works(),
            _ => self.trouble.calm(self.signals.now()),
        };
        if let Some(lasted) = lasted {
            tracing::info!(
                lasted_ms = lasted.as_millis() as u64,
                "group membership, nothing fails any more"
            );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualClock;
    use crate::types::Clock;
    use std::sync::atomic::AtomicUsize;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Subscriber};

    const OUTAGE: Duration = Duration::from_secs(60);

    /// Fails every second poll in an outage of a minute, and finds nothing in the others.
    struct Flaps {
        clock: ManualClock,
        fails: bool,
        closing: Arc<AtomicBool>,
        polls: Arc<AtomicUsize>,
    }

    impl Membership for Flaps {
        fn join(&mut self) -> Result<(), MembershipError> {
            Ok(())
        }
        fn poll(&mut self, _: Duration) -> Result<Option<GroupEvent>, MembershipError> {
            self.clock.advance(Duration::from_millis(250));
            self.polls.fetch_add(1, Ordering::SeqCst);
            self.fails = !self.fails && self.clock.elapsed() < OUTAGE;
            if self.clock.elapsed() > OUTAGE * 2 {
                self.closing.store(true, Ordering::SeqCst);
            }
            match self.fails {
                true => Err(MembershipError::Retriable("no broker".to_owned())),
                false => Ok(None),
            }
        }
        fn release(&mut self) -> Result<(), MembershipError> {
            Ok(())
        }
        fn close(&mut self, _: bool) {}
    }

    #[derive(Clone, Default)]
    struct Lines {
        warnings: Arc<AtomicUsize>,
        others: Arc<AtomicUsize>,
    }

    impl Subscriber for Lines {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let lines = match *event.metadata().level() {
                Level::WARN => &self.warnings,
                _ => &self.others,
            };
            lines.fetch_add(1, Ordering::SeqCst);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// An outage of the broker wrote several lines a second for as long as it lasted: polls that find nothing lie between those that fail.
    #[test]
    fn an_outage_is_said_at_growing_intervals_while_the_group_is_polled_all_the_time() {
        let clock = ManualClock::new(0);
        let (closing, polls) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut keeper = Keeper {
            membership: Box::new(Flaps {
                clock: clock.clone(),
                fails: false,
                closing: closing.clone(),
                polls: polls.clone(),
            }),
            signals: Arc::new(Signals::new(Arc::new(clock))),
            decisions: bounded(EVENTS_MAX).0,
            closing,
            leave: Arc::default(),
            budget: Duration::ZERO,
            stall_after: Duration::MAX,
            metrics: Metrics::default(),
            trouble: Trouble::default(),
        };
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || keeper.until_closed()).expect("goes on");
        assert!(polls.load(Ordering::SeqCst) > 400, "polled all the time");
        let warnings = lines.warnings.load(Ordering::SeqCst);
        assert!((5..=10).contains(&warnings), "{warnings} warnings in a minute");
        assert_eq!(lines.others.load(Ordering::SeqCst), 1, "and one line when it is over");
    }
}
