//! When barriers come.
use std::time::Duration;

/// How often the driver looks at high-water marks and a stop.
pub(super) const TICK: Duration = Duration::from_millis(2);
/// Barriers are an interval apart, also where a commit takes longer: the part of an interval that is left then between its end and the next
/// barrier. A smaller one would give upkeep, compaction and the broker less room between two commits just when they are slow; a larger one
/// would keep outputs waiting for nothing.
const ROOM: u32 = 4;

/// When the next barrier is due: an interval after the last one was ordered, however long its commit took. What was missed is not made up for:
/// an epoch holds what there is.
pub(super) fn next_due(interval: Duration, ordered: Duration, finished: Duration) -> Duration {
    (ordered + interval).max(finished + interval / ROOM)
}

/// How long the driver waits before it looks again: not beyond a barrier that is due soon. One that is overdue waits for something else.
pub(super) fn nap(left: Duration) -> Duration {
    if left.is_zero() { TICK } else { left.min(TICK) }
}
