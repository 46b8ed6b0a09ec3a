//! The checker at work: a reader for each topic, one judge.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rdkafka::message::Message;

use crate::follow::Follower;
use crate::judge::{Counts, Judge, Report};

/// Starts checks.
pub struct Checker;

impl Checker {
    /// Begins to read both topics from their beginning, beside whoever writes them.
    ///
    /// # Errors
    /// When a topic is not there, or no consumer can be created.
    pub fn start(brokers: &str, input: &str, output: &str) -> Result<Running> {
        let judge = Arc::new(Mutex::new(Judge::new()));
        let (of_input, of_output) = (judge.clone(), judge.clone());
        let output = Follower::start(brokers, output, move |m| {
            lock(&of_output).output((m.partition(), m.offset()), m.key(), m.payload());
        })?;
        let input = Follower::start(brokers, input, move |m| {
            lock(&of_input).input(m.partition(), m.offset(), m.key(), m.payload());
        })?;
        Ok(Running { judge, input, output })
    }
}

/// A check that goes on. Dropping it ends it without a verdict.
pub struct Running {
    judge: Arc<Mutex<Judge>>,
    input: Follower,
    output: Follower,
}

impl Running {
    /// The numbers so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        lock(&self.judge).counts()
    }

    /// What is wrong already, if anything. Lost records show at the end only.
    #[must_use]
    pub fn violation(&self) -> Option<String> {
        let judged = lock(&self.judge).first_offender().map(ToString::to_string);
        judged
            .or_else(|| self.input.failure())
            .or_else(|| self.output.failure())
    }

    /// Waits until every input record read so far has an output, at most for `limit`; false when it took too long or
    /// something is wrong.
    #[must_use]
    pub fn wait_until_answered(&self, limit: Duration) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < limit && self.violation().is_none() {
            let counts = self.counts();
            if counts.records_in > 0 && counts.records_out >= counts.records_in {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Reads both topics to their stable end and judges. Nobody writes to them any more.
    ///
    /// # Errors
    /// When the end is not reached within `limit`: a transaction stays open, or the broker does not answer.
    pub fn finish(self, limit: Duration) -> Result<Report> {
        let deadline = Instant::now() + limit;
        self.input.read_to_stable_end(deadline)?;
        self.output.read_to_stable_end(deadline)?;
        let Running { judge, input, output } = self;
        drop((input, output));
        let Ok(judge) = Arc::try_unwrap(judge) else {
            bail!("invariant: the readers have ended")
        };
        Ok(judge.into_inner().unwrap_or_else(PoisonError::into_inner).finish())
    }
}

fn lock(judge: &Mutex<Judge>) -> MutexGuard<'_, Judge> {
    judge.lock().unwrap_or_else(PoisonError::into_inner)
}
