//! What an instance's log tells about the parts of a pause.
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(Duration::from_nanos((since.as_nanos() % DAY.as_nanos()) as u64))
    }

    /// Of a line of the log: `2026-01-31T12:34:56.123456Z  INFO ...`.
    fn of(line: &str) -> Option<Moment> {
        let (_, time) = line.split_once('T')?;
        let (time, _) = time.split_once('Z')?;
        let mut parts = time.split(':').map(str::parse::<f64>);
        let mut next = || parts.next()?.ok();
        let seconds = next()? * 3600.0 + next()? * 60.0 + next()?;
        (0.0..DAY.as_secs_f64())
            .contains(&seconds)
            .then(|| Moment(Duration::from_secs_f64(seconds)))
    }

    /// How long it was after `other`, also over midnight.
    pub fn since(self, other: Moment) -> Duration {
        match self.0.checked_sub(other.0) {
            Some(time) => time,
            None => DAY + self.0 - other.0,
        }
    }
}

/// The log of one instance in one run.
pub struct Log {
    lines: Vec<String>,
}

impl Log {
    /// Reads it.
    pub fn read(path: &Path) -> Result<Log> {
        let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let lines = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
        Ok(Log { lines })
    }

    /// The shards that it has worked on.
    pub fn resumed(&self) -> BTreeSet<usize> {
        self.lines.iter().filter_map(|line| shard(line, "resumed")).collect()
    }

    /// How long after `event` it was assigned what it then restored, and how long until the last of `shards` was there.
    pub fn parts(&self, event: Moment, shards: &BTreeSet<usize>) -> Option<(Duration, Duration)> {
        let after = |line: &&String| Moment::of(line).is_some_and(|at| at.since(event) < DAY / 2);
        let lines: Vec<&String> = self.lines.iter().filter(after).collect();
        let ours = |line: &&&String| shard(line, "resumed").is_some_and(|s| shards.contains(&s));
        let first = lines.iter().position(|line| ours(&line))?;
        let last = lines.iter().rposition(|line| ours(&line))?;
        let assigned = lines.get(..first)?.iter().rev().find(|l| l.contains(": assigned "))?;
        let at = |line: &str| Moment::of(line).map(|at| at.since(event));
        Some((at(assigned)?, at(lines.get(last)?)?))
    }
}

/// `... keyfold::runtime::group::hold: resumed shard=2 epoch=...`
fn shard(line: &str, what: &str) -> Option<usize> {
    let (_, rest) = line.split_once(&format!(": {what} shard="))?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Log {
        Log {
            lines: lines.iter().map(|l| (*l).to_owned()).collect(),
        }
    }

    #[test]
    fn the_parts_of_a_pause_are_read_from_the_log_also_over_midnight() {
        let log = log(&[
            "2026-01-31T23:59:50.000000Z  INFO keyfold::runtime::group::hold: assigned generation=1 shards=2",
            "2026-01-31T23:59:51.000000Z  INFO keyfold::runtime::group::hold: resumed shard=1 epoch=a-1",
            "2026-02-01T00:00:02.000000Z  INFO keyfold::runtime::group::hold: assigned generation=2 shards=2",
            "2026-02-01T00:00:05.500000Z  INFO keyfold::runtime::group::hold: resumed shard=3 epoch=a-1",
        ]);
        assert_eq!(log.resumed(), BTreeSet::from([1, 3]));
        let event = Moment(DAY - Duration::from_secs(8));
        let parts = log.parts(event, &BTreeSet::from([3])).expect("there");
        assert_eq!(
            (parts.0.as_millis(), parts.1.as_millis()),
            (10_000, 13_500),
            "assigned, restored"
        );
    }
}
