//! Event time: how far a partition, a lane or a shard has come.
use super::record::TimestampMs;

/// No record with a smaller timestamp is expected, as far as that can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// The time; `i64::MIN` before the first record.
    pub at: TimestampMs,
    /// At its end for now: holds nobody back.
    pub idle: bool,
}

impl Watermark {
    /// Before anything is known.
    pub const NONE: Watermark = Watermark {
        at: i64::MIN,
        idle: false,
    };

    /// What inputs mean together: the lowest of those that are not idle. When all are, the lowest that has seen a record, and idle.
    #[must_use]
    pub fn of_inputs(inputs: impl Iterator<Item = Watermark> + Clone) -> Watermark {
        let active = inputs.clone().filter(|w| !w.idle).map(|w| w.at).min();
        let idle = active.is_none();
        let seen = || inputs.map(|w| w.at).filter(|at| *at != i64::MIN).min();
        Watermark {
            at: active.or_else(seen).unwrap_or(i64::MIN),
            idle,
        }
    }

    /// Moves on to `next`; the time never goes back.
    pub fn advance(&mut self, next: Watermark) {
        *self = Watermark {
            at: self.at.max(next.at),
            idle: next.idle,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn w(at: i64, idle: bool) -> Watermark {
        Watermark { at, idle }
    }

    /// Two sources, one of which never had a record: its "none" held the watermark of every shard at none for ever.
    #[test]
    fn an_idle_input_holds_nobody_back() {
        let of = |inputs: &[Watermark]| Watermark::of_inputs(inputs.iter().copied());
        assert_eq!(of(&[w(7, false), w(i64::MIN, true)]), w(7, false));
        assert_eq!(of(&[w(7, false), w(3, false), w(1, true)]), w(3, false));
        assert_eq!(of(&[w(7, true), w(3, true), w(i64::MIN, true)]), w(3, true));
        assert_eq!(of(&[w(7, false), w(i64::MIN, false)]), w(i64::MIN, false));
    }

    #[test]
    fn it_never_goes_back() {
        let mut mark = w(9, false);
        mark.advance(w(4, true));
        assert_eq!(mark, w(9, true));
    }
}
