//! What goes wrong again and again is said at once, then at growing intervals: the log of an outage stays readable, and small.
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// Without a failure for so long it is over. A client that cannot reach its brokers tries again every 10 s, so less means nothing.
const CALM: Duration = Duration::from_secs(15);

/// One kind of failure that repeats. Times are those of a [`Clock`](crate::types::Clock)'s `elapsed`.
#[derive(Debug, Default)]
pub struct Trouble(Option<Lasting>);

#[derive(Debug)]
struct Lasting {
    since: Duration,
    last: Duration,
    said: Duration,
    pause: Duration,
    unsaid: u64,
}

impl Trouble {
    /// It has failed. When that is to be said now: how many times it was not, since it was said last.
    pub fn failed(&mut self, now: Duration) -> Option<u64> {
        self.0.take_if(|lasting| lasting.is_over(now));
        let Some(lasting) = &mut self.0 else {
            self.0 = Some(Lasting {
                since: now,
                last: now,
                said: now,
                pause: FIRST,
                unsaid: 0,
            });
            return Some(0);
        };
        lasting.last = now;
        if now.saturating_sub(lasting.said) < lasting.pause {
            lasting.unsaid += 1;
            return None;
        }
        lasting.said = now;
        lasting.pause = (lasting.pause * 2).min(LONGEST);
        Some(std::mem::take(&mut lasting.unsaid))
    }

    /// It has not failed this time, which does not mean much. How long it had, once it has not for long enough; told once.
    pub fn calm(&mut self, now: Duration) -> Option<Duration> {
        self.0.take_if(|lasting| lasting.is_over(now)).map(|l| l.lasted())
    }

    /// It works for certain. How long it had not; told once.
    pub fn works(&mut self) -> Option<Duration> {
        self.0.take().map(|l| l.lasted())
    }
}

impl Lasting {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= CALM
    }

    fn lasted(&self) -> Duration {
        self.last.saturating_sub(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_lasts_is_said_at_growing_intervals_and_once_that_it_is_over() {
        let mut trouble = Trouble::default();
        let tenth = Duration::from_millis(100);
        let said = (0..600u32).filter(|k| trouble.failed(tenth * *k).is_some());
        let said: Vec<u32> = said.map(|k| k / 10).collect();
        assert_eq!(said, [0, 1, 3, 7, 15, 25, 35, 45, 55]);
        let end = tenth * 599;
        assert_eq!(trouble.calm(end + CALM - tenth), None);
        assert_eq!(trouble.calm(end + CALM), Some(end));
        assert_eq!((trouble.calm(end + CALM), trouble.works()), (None, None));
    }

    #[test]
    fn what_was_left_out_is_counted_and_a_new_failure_is_said_at_once() {
        let mut trouble = Trouble::default();
        let second = Duration::from_secs(1);
        assert_eq!(trouble.failed(Duration::ZERO), Some(0));
        assert_eq!(trouble.failed(second / 4), None);
        assert_eq!(trouble.failed(second / 2), None);
        assert_eq!(trouble.failed(second), Some(2));
        assert_eq!(trouble.works(), Some(second));
        assert_eq!(trouble.failed(second * 2), Some(0));
        assert_eq!(trouble.failed(second * 2 + CALM), Some(0));
        assert_eq!(trouble.failed(second * 2 + CALM), None);
    }
}
