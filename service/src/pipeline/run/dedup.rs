//! Drops rows of a key that was seen a short time ago, by event time.
use super::refused;
use crate::value::Row;
use keyfold::operator::process::ProcessError;
use keyfold::operator::{BadReason, KeyedProcess, ProcessContext, StateScope, ValueState};
use keyfold::types::TimestampMs;
use keyfold::types::codec::LongBe;
use std::time::Duration;

/// Lets the first row of a key through, and then no other one whose timestamp is less than `within` away from that one's, before or
/// behind it. A row further behind is let through and is the one that counts from then on; one further before it is let through and
/// is not remembered.
pub struct Dedup {
    within_ms: i64,
    /// Timestamp of the latest row of the key that was let through. It expires when no row can be near enough to it any more.
    seen: ValueState<TimestampMs>,
}

impl Dedup {
    /// One lane's.
    pub fn new(within: Duration, scope: &mut StateScope) -> Dedup {
        Dedup {
            within_ms: i64::try_from(within.as_millis()).unwrap_or(i64::MAX),
            seen: scope.value_with_ttl("seen", LongBe, within),
        }
    }
}

impl KeyedProcess<Row, Row> for Dedup {
    fn process(&mut self, row: Row, context: &mut ProcessContext<'_, Row>) -> Result<(), ProcessError> {
        let now = context.timestamp();
        if now < 0 {
            let message = "the record has no timestamp, and dedup goes by it: give the source one, for files with `timestamp_field`";
            return Err(refused(BadReason::Timestamp, message).into());
        }
        let seen = self.seen.get()?;
        if seen.is_some_and(|seen| (now - seen).abs() < self.within_ms) {
            return Ok(());
        }
        if seen.is_none_or(|seen| now > seen) {
            self.seen.set(now)?;
        }
        context.emit(row);
        Ok(())
    }
}
