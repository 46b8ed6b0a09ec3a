//! Time that stands still until a test moves it.
use crate::types::Clock;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
struct Times {
    elapsed: Duration,
    wall_ms: i64,
}

/// A clock that tests set. Clones show the same time. Sleeping moves it on, so that a retry loop ends at once.
#[derive(Debug, Clone)]
pub struct ManualClock {
    times: Arc<Mutex<Times>>,
}

impl ManualClock {
    /// A clock that shows `wall_ms`.
    #[must_use]
    pub fn new(wall_ms: i64) -> ManualClock {
        let elapsed = Duration::ZERO;
        ManualClock {
            times: Arc::new(Mutex::new(Times { elapsed, wall_ms })),
        }
    }

    /// Moves both times on.
    pub fn advance(&self, by: Duration) {
        let mut times = self.times.lock();
        times.elapsed += by;
        times.wall_ms = times.wall_ms.saturating_add(by.as_millis() as i64);
    }

    /// Sets the wall clock, also back; the monotone time stays.
    pub fn set_wall_ms(&self, wall_ms: i64) {
        self.times.lock().wall_ms = wall_ms;
    }
}

/// What a sleep costs in real time: threads that wait for each other get their turn.
const TURN: Duration = Duration::from_micros(50);

impl Clock for ManualClock {
    fn elapsed(&self) -> Duration {
        self.times.lock().elapsed
    }
    fn now_ms(&self) -> i64 {
        self.times.lock().wall_ms
    }
    fn sleep(&self, time: Duration) {
        self.advance(time);
        std::thread::sleep(TURN);
    }
}
