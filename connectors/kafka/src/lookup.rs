//! Whether a topic is there, when a job starts.
use crate::ffi::{Client, Failure};
use std::time::Duration;

/// A topic is missing when this many answers in a row say so: a broker that has just started, or another one than the topic was created
/// through, may not know it yet. More would only hold up who has mistyped its name.
const ANSWERS: u32 = 3;
const BETWEEN: Duration = Duration::from_secs(1);

/// Number of partitions; None when the cluster does not know the topic, or knows no partition of it, and goes on saying so.
pub(crate) fn partitions(client: &Client, topic: &str, wait: Duration) -> Result<Option<u32>, Failure> {
    for answer in 0..ANSWERS {
        if answer > 0 {
            std::thread::sleep(BETWEEN);
        }
        if let Some(count) = client.partitions(topic, wait)?.filter(|n| *n > 0) {
            return Ok(Some(count));
        }
    }
    Ok(None)
}
