//! At-least-once: a thread that sends outputs as they are produced, outside of any transaction.
//!
//! What was handed over is kept until the deliveries of its epoch are known to be good. If one is not, a new sender sends all of it again:
//! outputs come twice then, which this mode allows, and none is lost.
use super::backoff::Patience;
use super::commit::CommitDriver;
use super::error::RuntimeError;
use crate::sink::{EagerSender, LogError, LogErrorKind, OutputBuffer, SpillDir};
use crate::types::OutputRef;
use crate::types::output::OutputFrames;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Frames in flight between the lanes and the sender; each is what one batch produced.
const QUEUE: usize = 16;
/// How long the thread waits for reports before it looks whether it should end, and the driver for the thread before it looks at a stop.
const SLICE: Duration = Duration::from_millis(100);
/// How often a sender may refuse the same output as "not now" (each time after waiting) before it counts as failed. The lanes wait
/// meanwhile; afterwards they do not, since what they hand over is only kept.
const TRIES: u32 = 5;

type Reply = Result<(), LogError>;

enum Command {
    /// Wait until everything that has been handed over was acknowledged.
    Drain(Sender<Reply>),
    /// Send all that is kept with a new sender.
    Renew(Box<dyn EagerSender>),
}

/// The sender's thread.
pub(super) struct Eager {
    /// Where lanes hand over.
    pub frames: Sender<OutputFrames>,
    commands: Sender<Command>,
    quit: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Eager {
    /// `bytes_max` of what is kept stay in memory, the rest goes to `spill`.
    pub fn start(sender: Box<dyn EagerSender>, spill: SpillDir, bytes_max: usize) -> std::io::Result<Eager> {
        let (frames, incoming) = bounded(QUEUE);
        let (commands, orders) = bounded(1);
        let quit: Arc<AtomicBool> = Arc::default();
        let worker = Worker {
            sender,
            failed: None,
            quit: quit.clone(),
        };
        let mut desk = Desk {
            worker,
            kept: OutputBuffer::default(),
            spill,
            bytes_max,
        };
        let thread = std::thread::Builder::new()
            .name("eager".to_owned())
            .spawn(move || desk.run(&incoming, &orders))?;
        Ok(Eager {
            frames,
            commands,
            quit,
            thread: Some(thread),
        })
    }

    /// Waits until everything that lanes have handed over so far was acknowledged; a failed delivery is tried again with a new sender for as
    /// long as it takes. Called after every lane's share is in.
    pub fn drain(&self, driver: &mut CommitDriver) -> Result<(), RuntimeError> {
        let mut backoff = driver.patience.backoff("send");
        let mut refusals = 0;
        loop {
            let mut why = match self.ask(&driver.patience)? {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            refusals += u32::from(why.kind == LogErrorKind::OutputRefused);
            if refusals > driver.refusal_retries_max {
                return Err(RuntimeError::CannotGoOn(format!(
                    "an output was refused {refusals} times: {why}; raise the topic's or broker's limit, or give the source a bad-record \
                     policy"
                )));
            }
            let sender = loop {
                if why.kind == LogErrorKind::Fatal {
                    return Err(RuntimeError::CannotGoOn(why.to_string()));
                }
                backoff.wait(&why)?;
                match driver.log.eager_sender() {
                    Ok(Some(sender)) => break sender,
                    Ok(None) => return Err(RuntimeError::CannotGoOn(format!("{why}; the log sends no more"))),
                    Err(error) => why = error,
                }
            };
            self.commands.send(Command::Renew(sender)).map_err(|_| ended())?;
        }
    }

    fn ask(&self, patience: &Patience) -> Result<Reply, RuntimeError> {
        let (reply, answer) = bounded(1);
        let mut order = Some(Command::Drain(reply));
        loop {
            // The thread may be at work still on what it was told before.
            if let Some(unsent) = order.take() {
                order = match self.commands.send_timeout(unsent, SLICE) {
                    Ok(()) => None,
                    Err(e) if e.is_disconnected() => return Err(ended()),
                    Err(e) => Some(e.into_inner()),
                };
            } else {
                match answer.recv_timeout(SLICE) {
                    Ok(answer) => return Ok(answer),
                    Err(RecvTimeoutError::Disconnected) => return Err(ended()),
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
            patience.stop_waits(&"waiting for the delivery of outputs")?;
            patience.still_ours("while outputs were delivered")?;
        }
    }
}

fn ended() -> RuntimeError {
    RuntimeError::CannotGoOn("the sender's thread has ended".to_owned())
}

fn failure(kind: LogErrorKind, reason: impl ToString) -> LogError {
    LogError {
        kind,
        context: "send outputs".to_owned(),
        reason: reason.to_string(),
    }
}

/// Sends, until something fails.
struct Worker {
    sender: Box<dyn EagerSender>,
    failed: Option<LogError>,
    quit: Arc<AtomicBool>,
}

impl Worker {
    fn send(&mut self, out: &OutputRef<'_>) {
        let mut tries = 0;
        while self.failed.is_none() {
            match self.sender.send(out) {
                Ok(()) => return,
                Err(e) => {
                    tries += 1;
                    let again = e.kind == LogErrorKind::Retriable && tries < TRIES && !self.quit.load(Ordering::SeqCst);
                    self.failed = (!again).then_some(e);
                }
            }
        }
    }

    fn drain(&mut self) -> Reply {
        while self.failed.is_none() {
            match self.sender.drain(SLICE) {
                Ok(true) => return Ok(()),
                Ok(false) if self.quit.load(Ordering::SeqCst) => {
                    return Err(failure(LogErrorKind::Retriable, "the run ends"));
                }
                Ok(false) => {}
                Err(e) => self.failed = Some(e),
            }
        }
        self.failed.clone().map_or(Ok(()), Err)
    }
}

/// Keeps what the worker sends.
struct Desk {
    worker: Worker,
    kept: OutputBuffer,
    spill: SpillDir,
    bytes_max: usize,
}

impl Desk {
    fn run(&mut self, incoming: &Receiver<OutputFrames>, orders: &Receiver<Command>) {
        loop {
            select! {
                recv(incoming) -> frames => match frames {
                    Ok(frames) => self.take(&frames),
                    Err(_) => return,
                },
                recv(orders) -> order => match order {
                    Ok(Command::Drain(reply)) => {
                        // The lanes' shares are in: what they handed over before lies in the channel, and no more of it is looked at, since
                        // they go on filling it.
                        let waiting = incoming.len();
                        incoming.try_iter().take(waiting).for_each(|frames| self.take(&frames));
                        let drained = self.worker.drain();
                        if drained.is_ok() {
                            self.kept = OutputBuffer::default();
                        }
                        let _ = reply.send(drained);
                    }
                    Ok(Command::Renew(sender)) => self.renew(sender),
                    Err(_) => return,
                }
            }
        }
    }

    fn take(&mut self, frames: &OutputFrames) {
        self.kept.append(frames);
        if self.kept.bytes() > self.bytes_max
            && let Err(error) = self.kept.spill(&self.spill)
        {
            // They stay in memory, and the gate bounds what a lane hands over in an epoch.
            tracing::warn!(%error, "outputs are kept in memory");
        }
        for out in frames.iter() {
            match out {
                Ok(out) => self.worker.send(&out),
                Err(e) => self.worker.failed = Some(failure(LogErrorKind::Fatal, e)),
            }
        }
    }

    fn renew(&mut self, sender: Box<dyn EagerSender>) {
        self.worker.sender = sender;
        self.worker.failed = None;
        tracing::info!(outputs = self.kept.len(), "sending again what was not acknowledged");
        let worker = &mut self.worker;
        let walked = self.kept.walk(&mut |out| {
            worker.send(out);
            Ok::<(), LogError>(())
        });
        if let Err(lost) = walked {
            self.worker.failed = Some(failure(LogErrorKind::Fatal, lost));
        }
    }
}

impl Drop for Eager {
    fn drop(&mut self) {
        self.quit.store(true, Ordering::SeqCst);
        let (frames, _) = bounded(0);
        let (commands, _) = bounded(0);
        self.frames = frames;
        self.commands = commands;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::StopHandle;
    use crate::telemetry::Metrics;
    use crate::testing::ManualClock;

    struct Client {
        acknowledges: bool,
    }

    impl EagerSender for Client {
        fn send(&mut self, _: &OutputRef<'_>) -> Result<(), LogError> {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        }
        fn drain(&mut self, _: Duration) -> Result<bool, LogError> {
            Ok(self.acknowledges)
        }
    }

    fn eager(acknowledges: bool, dir: &tempfile::TempDir) -> Eager {
        let spill = SpillDir::create(&dir.path().join("spill")).expect("spill dir");
        Eager::start(Box::new(Client { acknowledges }), spill, 64).expect("a thread")
    }

    fn frames() -> OutputFrames {
        let mut frames = OutputFrames::default();
        frames.push(&OutputRef {
            sink: 0,
            timestamp: 1,
            partition: -1,
            key: None,
            value: Some(b"value"),
            headers: b"",
        });
        frames
    }

    /// The sender emptied its channel before it waited for acknowledgements; lanes that are quicker than the broker kept filling it, and
    /// the epoch was never committed.
    #[test]
    fn a_drain_ends_while_lanes_hand_over_more() {
        let dir = tempfile::tempdir().expect("temp dir");
        let eager = eager(true, &dir);
        let patience = Patience {
            clock: Arc::new(ManualClock::new(0)),
            stop: StopHandle::default(),
            metrics: Metrics::new(),
            group: None,
            of_driver: true,
            over: None,
        };
        let lane = eager.frames.clone();
        let filling = std::thread::spawn(move || while lane.send(frames()).is_ok() {});
        for _ in 0..3 {
            eager.ask(&patience).expect("no stop").expect("acknowledged");
        }
        drop(eager);
        filling.join().expect("the lane sees that the sender has ended");
    }

    /// A broker that was away kept a stop waiting for as long as the client waits for a report: 310 s.
    #[test]
    fn a_run_that_ends_does_not_wait_for_acknowledgements() {
        let dir = tempfile::tempdir().expect("temp dir");
        let eager = eager(false, &dir);
        eager.frames.send(frames()).expect("taken");
        let (reply, answer) = bounded(1);
        eager.commands.send(Command::Drain(reply)).expect("taken");
        assert!(answer.recv_timeout(Duration::from_millis(50)).is_err());
        drop(eager);
        assert!(answer.recv().expect("answered").is_err());
    }
}
