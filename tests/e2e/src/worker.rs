//! The process that is killed: the bin `worker`, and what it tells about itself.
//!
//! It prints lines `keyfold-event <JSON>` to its standard error: `{"event":"started","epoch":<id>,"restored":<n>}` once
//! it has restored its state, `{"event":"progress","folded":<n>,"committed":<n>,"rebuilds":<n>,"in_doubt":<n>}` at
//! least every 100 ms, the first two counted in input records since its start, and `{"event":"ended",...}` with the same
//! and more counters when it ends by itself; `{"event":"spare"}` once it waits because another instance is alive.
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::guard::{die_with_parent, sibling, signal};

const MARK: &str = "keyfold-event ";

/// Exit code of a worker that was fenced.
pub const EXIT_FENCED: i32 = 12;
/// Exit code of a worker that cannot go on.
pub const EXIT_CANNOT_GO_ON: i32 = 13;

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The brokers.
    pub brokers: String,
    /// The topic that it reads.
    pub input: String,
    /// The topic that it writes.
    pub output: String,
    /// The job's id.
    pub job: String,
    /// Its local state.
    pub state_dir: PathBuf,
    /// The checkpoint store.
    pub store_dir: PathBuf,
    /// Time between two barriers.
    pub epoch_ms: u64,
    /// Do not wait while another instance is alive.
    pub take_over: bool,
    /// Not exactly once.
    pub at_least_once: bool,
    /// `KEYFOLD_FAULTS`.
    pub faults: Option<String>,
    /// Arguments that are passed on as they are.
    pub more: Vec<String>,
    /// Everything that it prints is appended here.
    pub log: PathBuf,
}

/// What a worker has done for the checkpoint store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Bases that its epochs have named.
    pub bases: u64,
    /// Bytes of bases that it has fetched.
    pub fetched: u64,
    /// Objects that it has removed.
    pub collected: u64,
    /// Epochs that it has written again before they were published.
    pub rewritten: u64,
}

/// What the worker has told so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// It has told something: it is far enough to be told something, too.
    pub heard: bool,
    /// The epoch that it resumed from, once it has started; empty when it began anew.
    pub started: Option<String>,
    /// Records restored or replayed into its state, as the worker counts them.
    pub restored: u64,
    /// Input records folded since its start.
    pub folded: u64,
    /// Those of them that belong to committed epochs.
    pub committed: u64,
    /// Its counters, once it has ended by itself.
    pub ended: Option<serde_json::Value>,
    /// It waits, because another instance is alive.
    pub spare: bool,
    /// Producer sessions that were opened anew.
    pub rebuilds: u64,
    /// Outcomes of a commit that were read back.
    pub in_doubt: u64,
    /// What it has done for the checkpoint store.
    pub upkeep: Upkeep,
    /// The last lines that were no events.
    pub last_lines: Vec<String>,
}

impl Told {
    fn take(&mut self, line: &str) {
        let Some(event) = line.strip_prefix(MARK).and_then(|json| serde_json::from_str(json).ok()) else {
            if self.last_lines.len() >= 10 {
                self.last_lines.remove(0);
            }
            return self.last_lines.push(line.to_owned());
        };
        let event: serde_json::Value = event;
        self.heard = true;
        let number = |name: &str| event[name].as_u64().unwrap_or(0);
        if matches!(event["event"].as_str(), Some("progress" | "ended")) {
            (self.folded, self.committed) = (number("folded"), number("committed"));
            (self.rebuilds, self.in_doubt) = (number("rebuilds"), number("in_doubt"));
            // The last event of a run does not have them.
            if event["event"] == "progress" {
                self.upkeep = Upkeep {
                    bases: number("bases"),
                    fetched: number("fetched"),
                    collected: number("collected"),
                    rewritten: number("rewritten"),
                };
            }
        }
        match event["event"].as_str() {
            Some("started") => {
                self.started = Some(event["epoch"].as_str().unwrap_or_default().to_owned());
                self.restored = number("restored");
            }
            Some("ended") => self.ended = Some(event),
            Some("spare") => self.spare = true,
            _ => {}
        }
    }

    /// A counter of the event `ended`; 0 when it is not there.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.ended.as_ref().and_then(|e| e[name].as_u64()).unwrap_or(0)
    }

    /// Records folded and not committed.
    #[must_use]
    pub fn at_risk(&self) -> u64 {
        self.folded.saturating_sub(self.committed)
    }
}

/// A worker process. Killed when dropped, and when the thread that started it ends.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    told: Arc<Mutex<Told>>,
    reader: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the program `worker` that lies beside the running one.
    ///
    /// # Errors
    /// When it is not there or cannot be started.
    pub fn start(options: &WorkerOptions) -> Result<Worker> {
        Worker::start_program(&sibling("worker")?, options)
    }

    /// As [`Worker::start`], with another program that keeps the same contract.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_program(program: &std::path::Path, options: &WorkerOptions) -> Result<Worker> {
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&options.log)
            .context("opening the log")?;
        let out = Stdio::from(log.try_clone()?);
        let mut command = command(program, options);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn()
            .context("worker")?;
        writeln!(log, "--- pid {} faults {:?}", child.id(), options.faults)?;
        let told = Arc::new(Mutex::new(Told::default()));
        let (told_too, lines) = (told.clone(), child.stderr.take().context("invariant: stderr is piped")?);
        let reader = std::thread::Builder::new()
            .name("worker-lines".into())
            .spawn(move || read(lines, log, &told_too));
        let mut worker = Worker {
            child,
            told,
            reader: None,
        };
        worker.reader = Some(reader.context("reading the worker's lines")?);
        Ok(worker)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has told so far.
    #[must_use]
    pub fn told(&self) -> Told {
        lock(&self.told).clone()
    }

    /// Its exit status, once it has ended.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("asking for the worker's status")
    }

    /// Waits until what it tells fits, and says so; false when `limit` has passed or it has ended.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn wait_for(&mut self, limit: Duration, fits: impl Fn(&Told) -> bool) -> Result<bool> {
        let begin = Instant::now();
        loop {
            if fits(&lock(&self.told)) {
                return Ok(true);
            }
            if begin.elapsed() > limit || self.ended()?.is_some() {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGKILL; returns what it had told, the last lines included.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill9(&mut self) -> Result<Told> {
        self.child.kill().context("killing the worker")?;
        self.child.wait().context("waiting for the worker")?;
        self.join();
        Ok(self.told())
    }

    /// Any signal: SIGTERM, SIGSTOP, SIGCONT ...
    ///
    /// # Errors
    /// When it has ended already.
    pub fn signal(&mut self, number: libc::c_int) -> Result<()> {
        if self.ended()?.is_some() {
            bail!("the worker has ended");
        }
        signal(self.pid(), number).context("signalling the worker")
    }

    /// Whether it is stopped, by SIGSTOP.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn is_stopped(&mut self) -> Result<bool> {
        if self.ended()?.is_some() {
            bail!("the worker has ended");
        }
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).context("the worker's state")?;
        // The state follows the program's name, which is in parentheses and may hold any character.
        Ok(stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
    }

    /// Waits until it ends by itself; none when `limit` has passed.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let begin = Instant::now();
        while begin.elapsed() <= limit {
            if let Some(status) = self.ended()? {
                self.join();
                return Ok(Some(status));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(None)
    }

    fn join(&mut self) {
        if let Some(reader) = self.reader.take() {
            // The pipe has ended with the process; a panic there loses lines only.
            let _ = reader.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(program: &std::path::Path, options: &WorkerOptions) -> Command {
    let mut command = Command::new(program);
    command
        .args([
            "--brokers",
            &options.brokers,
            "--input",
            &options.input,
            "--output",
            &options.output,
        ])
        .args(["--job", &options.job, "--epoch-ms", &options.epoch_ms.to_string()])
        .arg("--state-dir")
        .arg(&options.state_dir)
        .arg("--store-dir")
        .arg(&options.store_dir)
        .args(&options.more);
    for (flag, on) in [
        ("--take-over", options.take_over),
        ("--at-least-once", options.at_least_once),
    ] {
        if on {
            command.arg(flag);
        }
    }
    match &options.faults {
        Some(faults) => command.env("KEYFOLD_FAULTS", faults),
        None => command.env_remove("KEYFOLD_FAULTS"),
    };
    die_with_parent(&mut command);
    command
}

fn read(lines: ChildStderr, mut log: std::fs::File, told: &Mutex<Told>) {
    for line in BufReader::new(lines).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        lock(told).take(&line);
        if !line.contains("\"progress\"") {
            // The log is for people; the test goes on without it.
            let _ = writeln!(log, "{line}");
        }
    }
}

fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_understood_and_other_lines_kept() {
        let mut told = Told::default();
        told.take(r#"keyfold-event {"event":"started","epoch":"00aa-3","restored":17}"#);
        told.take(r#"keyfold-event {"event":"progress","folded":10,"committed":4}"#);
        told.take("fail point post_commit: Kill");
        told.take(r#"keyfold-event {"event":"ended","folded":10,"committed":4,"rebuilds":2}"#);
        assert_eq!((told.counter("rebuilds"), told.counter("retries")), (2, 0));
        assert_eq!(
            (told.started.as_deref(), told.restored, told.at_risk()),
            (Some("00aa-3"), 17, 6)
        );
        assert_eq!(told.last_lines, ["fail point post_commit: Kill"]);
    }
}
