//! What the member's thread and the driver tell each other at once, past the queue of events.
use crate::types::{Assignment, Clock};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Shared by the member's thread, which keeps the membership, and the driver, which works on what was assigned.
pub struct Signals {
    clock: Arc<dyn Clock>,
    /// How often the group has taken the assignment back, and of how many of those the driver knows.
    taken_back: AtomicU64,
    settled: AtomicU64,
    /// When the time for the last one is over, in milliseconds of the clock.
    until: AtomicU64,
    /// The newest assignment; for the switch `break:EP-12` only, which sends what is old under it.
    newest: Mutex<Option<Assignment>>,
    deaf: AtomicBool,
    failed: AtomicBool,
    /// The driver's last sign of life, in milliseconds of the clock.
    alive: AtomicU64,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Signals {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Signals {
        let alive = AtomicU64::new(millis(clock.elapsed()));
        Signals {
            clock,
            taken_back: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            until: AtomicU64::new(0),
            newest: Mutex::new(None),
            deaf: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            alive,
        }
    }

    /// What the clock shows.
    pub(super) fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// The assignment is taken back; the epoch at hand may be finished within `budget`.
    pub(super) fn take_back(&self, budget: Duration) {
        let mut until = millis(self.clock.elapsed() + budget);
        // While the driver is busy with what was taken back before, that one's time counts: it must not begin anew.
        if self.is_taken_back() {
            until = until.min(self.until.load(Ordering::SeqCst));
        }
        self.until.store(until, Ordering::SeqCst);
        self.taken_back.fetch_add(1, Ordering::SeqCst);
    }

    /// The driver works no more on what was taken back first.
    pub(super) fn settle(&self) {
        self.settled.fetch_add(1, Ordering::SeqCst);
    }

    /// How many of the group's decisions to take back the driver has answered.
    pub(super) fn settled(&self) -> u64 {
        self.settled.load(Ordering::SeqCst)
    }

    /// How many of them there were.
    pub(super) fn taken_back(&self) -> u64 {
        self.taken_back.load(Ordering::SeqCst)
    }

    /// Whether what the driver works on was taken back: it should come to an end.
    pub(super) fn is_taken_back(&self) -> bool {
        self.taken_back() > self.settled()
    }

    /// Whether the time for that is over, too.
    pub(super) fn time_is_over(&self) -> bool {
        self.is_taken_back() && millis(self.clock.elapsed()) >= self.until.load(Ordering::SeqCst)
    }

    /// What is not sent yet must not be sent any more (EP-12).
    pub(in crate::runtime) fn over(&self) -> bool {
        let kept = !self.time_is_over() && !self.failed.load(Ordering::SeqCst);
        !kept && !self.deaf.load(Ordering::Relaxed)
    }

    /// `break:EP-12`: the driver does not hear that its time is over.
    pub(super) fn make_deaf(&self) {
        self.deaf.store(true, Ordering::Relaxed);
    }

    pub(super) fn assigned(&self, assignment: &Assignment) {
        *self.newest.lock() = Some(assignment.clone());
    }

    /// What was assigned last, whether or not the driver has come to it.
    pub(in crate::runtime) fn newest(&self) -> Option<Assignment> {
        self.newest.lock().clone()
    }

    /// Whether the work on an assignment should end, for whatever reason of the group's.
    pub(in crate::runtime) fn end_of_work(&self) -> bool {
        self.is_taken_back() || self.failed.load(Ordering::SeqCst)
    }

    /// The member's thread has ended with an error.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
    }

    /// The driver is alive: it has come to the end of a barrier, a batch or a try.
    pub(in crate::runtime) fn tick(&self) {
        self.alive.store(millis(self.clock.elapsed()), Ordering::Relaxed);
    }

    /// How long the driver has given no sign of life.
    pub(super) fn silence(&self) -> Duration {
        let now = millis(self.clock.elapsed());
        Duration::from_millis(now.saturating_sub(self.alive.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualClock;

    #[test]
    fn what_was_taken_back_may_be_finished_within_its_time_and_not_after() {
        let clock = Arc::new(ManualClock::new(0));
        let signals = Signals::new(clock.clone());
        assert!(!signals.is_taken_back() && !signals.over());
        signals.take_back(Duration::from_secs(1));
        assert!(signals.is_taken_back() && !signals.over());
        clock.advance(Duration::from_secs(1));
        assert!(signals.over());
        signals.settle();
        assert!(!signals.is_taken_back() && !signals.over());
    }

    /// A second revocation while the driver was busy with the first began its time anew, and what was to be dropped was sent late.
    #[test]
    fn of_two_revocations_the_time_that_ends_earlier_counts() {
        let second = Duration::from_secs(1);
        for (first, then) in [(second, second * 10), (second * 10, second)] {
            let clock = Arc::new(ManualClock::new(0));
            let signals = Signals::new(clock.clone());
            signals.take_back(first);
            signals.take_back(then);
            assert!(!signals.over());
            clock.advance(second);
            assert!(signals.over(), "{first:?}, then {then:?}");
        }
    }

    /// Two revocations in a row while the driver was busy: having dealt with the first must not make the second forgotten.
    #[test]
    fn each_decision_to_take_back_has_to_be_settled() {
        let signals = Signals::new(Arc::new(ManualClock::new(0)));
        signals.take_back(Duration::ZERO);
        signals.take_back(Duration::ZERO);
        signals.settle();
        assert!(signals.over());
        signals.settle();
        assert!(!signals.over());
    }
}
