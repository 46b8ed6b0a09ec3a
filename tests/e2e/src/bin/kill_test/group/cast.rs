//! The instances that run, and what is asked of those that have to go on.
use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use keyfold_e2e::Worker;
use keyfold_e2e::worker::Told;

use crate::busy::Busy;
use crate::group::plan::GUEST;
use crate::round::{START, ensure_alive};
use crate::scene::{PARTITIONS, Scene};

/// The shortest session that brokers allow by default: an instance that stays away is missed after it.
const SESSION_MS: u64 = 6000;

/// How long what an instance has left undecided keeps its partitions from others. Longer than a broker's restart, so that not every
/// outage ends a transaction, and shorter than the default of 15 s, for which a round would only wait.
const TRANSACTION_MS: u64 = 8000;

/// How long others may take to work on all partitions of an instance that is gone: session, transaction, the broker's sweep, a
/// rebalance and a restore make about 12 s on an idle machine.
pub const TAKE_OVER: Duration = Duration::from_secs(60);

const STEP: Duration = Duration::from_millis(20);

/// All that run.
pub struct Cast<'a> {
    /// What is beside them.
    pub scene: &'a mut Scene,
    /// Keeps the cores busy.
    pub busy: Busy,
    /// Those that must not end.
    alive: BTreeMap<&'static str, Worker>,
}

impl<'a> Cast<'a> {
    /// Nobody runs yet.
    pub fn new(scene: &'a mut Scene) -> Result<Cast<'a>> {
        let busy = Busy::start()?;
        Ok(Cast {
            scene,
            busy,
            alive: BTreeMap::new(),
        })
    }

    /// Starts an instance that has to live from now on.
    pub fn start(&mut self, who: &'static str) -> Result<()> {
        let worker = self.doomed(who, None)?;
        self.alive.insert(who, worker);
        Ok(())
    }

    /// Starts an instance of which it is not asked that it lives.
    pub fn doomed(&mut self, who: &'static str, faults: Option<String>) -> Result<Worker> {
        ensure!(!self.alive.contains_key(who), "invariant: {who} is not started twice");
        let mut more = vec!["--group".to_owned(), "--instance".into(), who.into()];
        for (flag, value) in [
            ("--session-timeout-ms", SESSION_MS),
            ("--transaction-timeout-ms", TRANSACTION_MS),
        ] {
            more.extend([flag.to_owned(), value.to_string()]);
        }
        if who == GUEST {
            more.push("--leave".into());
        }
        self.scene.worker(who, more, faults)
    }

    /// From now on it has to live.
    pub fn keep(&mut self, who: &'static str, worker: Worker) {
        self.alive.insert(who, worker);
    }

    /// From now on it may end.
    pub fn take(&mut self, who: &str) -> Result<Worker> {
        self.alive.remove(who).with_context(|| format!("invariant: {who} runs"))
    }

    /// Whether it runs and has to.
    pub fn runs(&self, who: &str) -> bool {
        self.alive.contains_key(who)
    }

    /// What one that runs has told.
    pub fn told(&self, who: &str) -> Told {
        self.alive.get(who).map(Worker::told).unwrap_or_default()
    }

    /// One that runs.
    pub fn running(&mut self, who: &str) -> Result<&mut Worker> {
        self.alive
            .get_mut(who)
            .with_context(|| format!("invariant: {who} runs"))
    }

    /// Those that run.
    pub fn names(&self) -> Vec<&'static str> {
        self.alive.keys().copied().collect()
    }

    /// All that run, for the last run.
    pub fn end(self) -> Vec<Worker> {
        self.alive.into_values().collect()
    }

    /// Fails as soon as anything is known to be wrong.
    pub fn check(&mut self) -> Result<()> {
        self.scene.check()?;
        for (who, worker) in &mut self.alive {
            ensure_alive(worker).with_context(|| format!("instance {who} has to go on"))?;
        }
        Ok(())
    }

    /// Sleeps, with an eye on everything.
    pub fn pause_between(&mut self, low_ms: u64, high_ms: u64) -> Result<()> {
        let end = Instant::now() + Duration::from_millis(self.scene.rng.between(low_ms, high_ms));
        while Instant::now() < end {
            self.check()?;
            std::thread::sleep(STEP);
        }
        self.check()
    }

    /// Waits, with an eye on everything.
    pub fn until(
        &mut self,
        limit: Duration,
        what: &str,
        mut fits: impl FnMut(&mut Cast<'a>) -> Result<bool>,
    ) -> Result<()> {
        let begin = Instant::now();
        while !fits(self)? {
            self.check()?;
            if begin.elapsed() > limit {
                bail!("not within {} s: {what}; {}", limit.as_secs(), self.situation()?);
            }
            std::thread::sleep(STEP);
        }
        self.check()
    }

    fn situation(&self) -> Result<String> {
        let lines = |(who, worker): (&&str, &Worker)| format!("{who}: {:?}", worker.told().last_lines.last());
        let each: Vec<String> = self.alive.iter().map(lines).collect();
        Ok(format!(
            "members {:?}; {}",
            self.scene.owners()?.members(),
            each.join("; ")
        ))
    }

    /// Waits until an instance works: it has folded records since its start, and committed for partitions that it owns.
    pub fn until_it_works(&mut self, who: &str) -> Result<()> {
        self.until(START, &format!("{who} works"), |cast| {
            let told = cast.told(who);
            let works = told.started.is_some() && told.folded > 0;
            Ok(works && !cast.scene.owners()?.served_by(who).is_empty())
        })
    }

    /// Waits until those that run work on all partitions.
    pub fn until_they_work_alone(&mut self, names: &[&str]) -> Result<()> {
        self.until(TAKE_OVER, &format!("{names:?} work on all partitions"), |cast| {
            let owners = cast.scene.owners()?;
            let members = owners.members();
            let served: usize = names.iter().map(|who| owners.served_by(who).len()).sum();
            Ok(members.keys().eq(names) && served == PARTITIONS as usize)
        })
    }

    /// SIGTERM to an instance, which must end in good order, or say that its last epoch is not committed: right after the broker was killed its
    /// session may be over, and the epoch is the next owner's.
    pub fn stop(&mut self, who: &str) -> Result<()> {
        // Before it can take the signal, it would die of it.
        self.until(START, &format!("{who} is heard of"), |cast| Ok(cast.told(who).heard))?;
        let mut worker = self.take(who)?;
        worker.signal(libc::SIGTERM)?;
        match self.wait_for_end(&mut worker, START)? {
            Some(status) if status.success() => Ok(()),
            Some(status) if status.code() == Some(1) && stopped_early(&worker) => Ok(()),
            Some(status) => bail!(
                "after SIGTERM {who} ended with {status}: {:?}",
                worker.told().last_lines
            ),
            None => bail!("{who} did not end within {} s of SIGTERM", START.as_secs()),
        }
    }

    /// Waits until a worker ends, with an eye on the others.
    pub fn wait_for_end(&mut self, worker: &mut Worker, limit: Duration) -> Result<Option<ExitStatus>> {
        let begin = Instant::now();
        while begin.elapsed() < limit {
            if let Some(status) = worker.wait(Duration::from_millis(50))? {
                return Ok(Some(status));
            }
            self.check()?;
        }
        Ok(None)
    }
}

fn stopped_early(worker: &Worker) -> bool {
    let lines = worker.told().last_lines;
    lines
        .last()
        .is_some_and(|line| line.contains("is replayed at the next start"))
}
