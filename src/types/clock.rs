//! Time, behind a trait so that tests and the simulation can set it.
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time. Ordering and ids never come from the wall clock.
pub trait Clock: Send + Sync {
    /// Monotone time since an arbitrary start.
    fn elapsed(&self) -> Duration;
    /// Wall-clock time, for checks of record timestamps only.
    fn now_ms(&self) -> i64;
    /// Blocks the caller.
    fn sleep(&self, time: Duration);
}

/// The machine's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
    fn now_ms(&self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|d| d.as_millis() as i64)
            .unwrap_or(0)
    }
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
