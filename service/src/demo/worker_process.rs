//! The process that is killed, as the supervisor sees it.
use super::place::Place;
use super::status::{Figures, Status};
use anyhow::{Context, Result, bail};
use keyfold::runtime::ExitCode;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A clean end commits a last epoch; more than that is no clean end.
const END_WITHIN: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);

/// A worker that ended when it should not have.
#[derive(Debug)]
pub struct WorkerEnded {
    pid: u32,
    status: ExitStatus,
    log: PathBuf,
    last_words: String,
}

impl fmt::Display for WorkerEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pid, status, log) = (self.pid, self.status, self.log.display());
        write!(f, "the worker {pid} has ended: {status}; its log is {log}")?;
        match self.last_words.is_empty() {
            true => Ok(()),
            false => write!(f, ", and ends with: {}", self.last_words),
        }
    }
}

impl std::error::Error for WorkerEnded {}

impl WorkerEnded {
    /// What the supervisor exits with.
    pub fn exit_code(&self) -> ExitCode {
        match self.status.code() {
            Some(12) => ExitCode::Fenced,
            Some(13) => ExitCode::CannotGoOn,
            _ => ExitCode::Failed,
        }
    }
}

/// A running worker. Killed when dropped; it also ends by itself when the supervisor is gone, because its standard
/// input ends then.
pub struct WorkerProcess {
    child: Child,
    told: Receiver<Status>,
    figures: Figures,
    log: PathBuf,
}

impl WorkerProcess {
    /// Starts this program again, as the worker.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(place: &Place<'_>) -> Result<WorkerProcess> {
        let log = place.dirs.log();
        let log_file = OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("demo-worker").arg("--dir").arg(&place.options.dir).args([
            "--job",
            &place.job,
            "--pace",
            &place.options.pace().to_string(),
        ]);
        if let Some(brokers) = &place.options.kafka {
            command.args(["--kafka", brokers]);
        }
        // A process group of its own: Ctrl-C is for the supervisor.
        command.process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(log_file));
        let mut child = command.spawn().context("starting the worker")?;
        let out = child.stdout.take();
        let (sender, told) = channel();
        let worker = WorkerProcess {
            child,
            told,
            figures: Figures::default(),
            log,
        };
        let out = out.context("invariant: the worker's output is piped")?;
        std::thread::spawn(move || listen(out, &sender));
        Ok(worker)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The last figures that it told.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The next line that it tells; none when it says nothing for a moment.
    ///
    /// # Errors
    /// [`WorkerEnded`]
    pub fn listen(&mut self, patience: Duration) -> Result<Option<Status>> {
        match self.told.recv_timeout(patience) {
            Ok(status) => {
                if let Status::Progress(figures) = &status {
                    self.figures = figures.clone();
                }
                Ok(Some(status))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()?.into()),
        }
    }

    /// Takes what it has told meanwhile, so that [`WorkerProcess::figures`] are those of now.
    pub fn catch_up(&mut self) {
        for status in self.told.try_iter() {
            if let Status::Progress(figures) = status {
                self.figures = figures;
            }
        }
    }

    /// SIGKILL; then takes the last that it told.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill9(mut self) -> Result<Figures> {
        self.child.kill().context("killing the worker")?;
        let status = self.child.wait().context("waiting for the worker")?;
        if status.code().is_some() {
            bail!("the worker ended before it was killed: {status}");
        }
        // The pipe ends with the process.
        while let Ok(status) = self.told.recv() {
            if let Status::Progress(figures) = status {
                self.figures = figures;
            }
        }
        Ok(std::mem::take(&mut self.figures))
    }

    /// SIGTERM; waits until it has ended.
    ///
    /// # Errors
    /// When it does not end in time, or not with 0.
    pub fn terminate(mut self) -> Result<()> {
        terminate(self.pid())?;
        let began = Instant::now();
        while began.elapsed() < END_WITHIN {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return Err(self.ended()?.into()),
                None => std::thread::sleep(STEP),
            }
        }
        bail!("the worker {} does not end on SIGTERM", self.pid())
    }

    fn ended(&mut self) -> Result<WorkerEnded> {
        // It may have closed its output without ending.
        let _ = self.child.kill();
        let status = self.child.wait().context("waiting for the worker")?;
        Ok(WorkerEnded {
            pid: self.pid(),
            status,
            log: self.log.clone(),
            last_words: last_line(&self.log),
        })
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(out: ChildStdout, sender: &Sender<Status>) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        // A line that was cut by the kill, or nobody who listens.
        let Ok(status) = serde_json::from_str(&line) else {
            return;
        };
        if sender.send(status).is_err() {
            return;
        }
    }
}

fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or_default().to_owned()
}

/// SIGTERM to a process that was not waited for yet, so that its number is still its own.
fn terminate(pid: u32) -> Result<()> {
    let pid = libc::pid_t::try_from(pid).context("a process id")?;
    // SAFETY: takes plain integers.
    match unsafe { libc::kill(pid, libc::SIGTERM) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("stopping the worker"),
    }
}
