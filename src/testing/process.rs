//! A process as the protocol sees it: calls to the log and to the store, any of which may fail, or be its last.
use super::faults::Crash;
use crate::checkpoint::store::StoreError;
use crate::runtime::{Runtime, RuntimeError};
use crate::sink::{LogError, LogErrorKind};
use crate::types::Clock;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// `Log::open_session`
    Session,
    /// `Log::committed`
    Committed,
    /// `Log::group_has_members`
    Members,
    /// `Log::begin`
    Begin,
    /// `Log::send`
    Send,
    /// `Log::drain`
    Drain,
    /// `Log::send_offsets`
    Offsets,
    /// `Log::commit`
    Commit,
    /// `Log::abort`
    Abort,
    /// `EagerSender::send`
    Eager,
    /// `EagerSender::drain`
    EagerDrain,
    /// `Store::put_new`
    Put,
    /// Every reading call of a store.
    Read,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails and has no effect. A store's call fails as retriable, whatever the kind.
    Fail(LogErrorKind),
    /// It has its effect and fails all the same: the acknowledgement is lost.
    Lost(LogErrorKind),
    /// It takes this much longer, by the broker's clock.
    Slow(Duration),
    /// The process stops before the call has any effect, as one that gets SIGSTOP: this and every other call waits for [`Process::thaw`].
    Freeze,
    /// It panics, as a bug would, and the process lives on.
    Panic,
    /// The process dies before the call has any effect.
    CrashBefore,
    /// The process dies after the call has had its effect.
    CrashAfter,
}

/// How a run ended.
#[derive(Debug)]
pub enum RunEnd {
    /// Stopped as asked.
    Stopped,
    /// With an error; its exit code tells what a process would have exited with.
    Failed(RuntimeError),
    /// It died at the named point or step.
    Crashed(String),
}

#[derive(Debug, Default)]
struct Inner {
    dead: bool,
    steps: u64,
    crash: Option<(u64, bool)>,
    seen: HashMap<Call, u64>,
    script: HashMap<(Call, u64), Fault>,
    suspect: bool,
    frozen: bool,
    anonymous: bool,
}

/// One process. Clones are the same process.
#[derive(Debug, Clone, Default)]
pub struct Process {
    inner: Arc<Mutex<Inner>>,
    thawed: Arc<Condvar>,
}

impl Process {
    /// A process that nothing happens to.
    #[must_use]
    pub fn new() -> Process {
        Process::default()
    }
    /// It dies at the `n`-th call to log and store together, counted from 1 and from its start; after the call's effect, or before.
    pub fn crash_at_step(&self, n: u64, after: bool) {
        self.inner.lock().crash = Some((n, after));
    }
    /// The `k`-th call of this kind from now on, counted from 1, meets a fault.
    pub fn fault(&self, call: Call, k: u64, fault: Fault) {
        let mut inner = self.inner.lock();
        let at = inner.seen.get(&call).copied().unwrap_or(0) + k;
        inner.script.insert((call, at), fault);
    }
    /// The client's error callback fires: the session is suspect until it is opened anew.
    pub fn make_suspect(&self) {
        self.inner.lock().suspect = true;
    }
    /// It is dead from here on: every further call fails without effect.
    pub fn kill(&self) {
        self.inner.lock().dead = true;
    }
    /// Its offsets are sent without a generation and a member, which a classic group takes unseen: EP-7 is off.
    pub fn make_anonymous(&self) {
        self.inner.lock().anonymous = true;
    }
    pub(super) fn is_anonymous(&self) -> bool {
        self.inner.lock().anonymous
    }
    /// Whether a [`Fault::Freeze`] has stopped it.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.inner.lock().frozen
    }
    /// Lets it go on.
    pub fn thaw(&self) {
        self.inner.lock().frozen = false;
        self.thawed.notify_all();
    }
    /// Nothing more happens to it: faults that have not come yet are forgotten, and it goes on if it is frozen.
    pub fn calm(&self) {
        self.inner.lock().script.clear();
        self.thaw();
    }
    /// Calls so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.inner.lock().steps
    }
    /// Calls of a kind so far.
    #[must_use]
    pub fn calls(&self, call: Call) -> u64 {
        self.inner.lock().seen.get(&call).copied().unwrap_or(0)
    }

    /// Whether it is dead; waits while it is frozen.
    pub(super) fn is_dead(&self) -> bool {
        let mut inner = self.inner.lock();
        self.thawed.wait_while(&mut inner, |inner| inner.frozen);
        inner.dead
    }
    fn freeze(&self) {
        let mut inner = self.inner.lock();
        inner.frozen = true;
        self.thawed.wait_while(&mut inner, |inner| inner.frozen);
    }
    pub(super) fn suspect(&self) -> bool {
        self.inner.lock().suspect
    }
    pub(super) fn clear_suspect(&self) {
        self.inner.lock().suspect = false;
    }

    /// Runs a job in this process; returns how it ended.
    #[must_use]
    pub fn run(&self, runtime: Runtime) -> RunEnd {
        match catch_unwind(AssertUnwindSafe(|| runtime.run())) {
            Ok(Ok(())) => RunEnd::Stopped,
            Ok(Err(error)) if self.inner.lock().dead => RunEnd::Crashed(error.to_string()),
            Ok(Err(error)) => RunEnd::Failed(error),
            Err(payload) => match payload.downcast::<Crash>() {
                Ok(crash) => {
                    self.inner.lock().dead = true;
                    RunEnd::Crashed(crash.0)
                }
                Err(other) => resume_unwind(other),
            },
        }
    }

    /// Counts a call; what happens to it, and None once the process is dead.
    fn enter(&self, call: Call) -> Option<Option<Fault>> {
        let mut inner = self.inner.lock();
        self.thawed.wait_while(&mut inner, |inner| inner.frozen);
        if inner.dead {
            return None;
        }
        inner.steps += 1;
        let seen = inner.seen.entry(call).or_default();
        *seen += 1;
        let at = (call, *seen);
        let scripted = inner.script.remove(&at);
        let died = inner
            .crash
            .filter(|(n, _)| *n == inner.steps)
            .map(|(_, after)| match after {
                true => Fault::CrashAfter,
                false => Fault::CrashBefore,
            });
        Some(died.or(scripted))
    }

    fn die(&self, call: Call) -> ! {
        let step = {
            let mut inner = self.inner.lock();
            inner.dead = true;
            inner.steps
        };
        resume_unwind(Box::new(Crash(format!("step {step} ({call:?})"))))
    }

    /// Passes a call to the log.
    pub(super) fn log<T>(
        &self,
        call: Call,
        clock: &dyn Clock,
        act: impl FnOnce() -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let error = |kind, reason: &str| LogError {
            kind,
            context: format!("{call:?}"),
            reason: reason.to_owned(),
        };
        let Some(fault) = self.enter(call) else {
            return Err(error(LogErrorKind::Fatal, "the process is dead"));
        };
        match fault {
            None => act(),
            Some(Fault::Fail(kind)) => Err(error(kind, "told to fail")),
            Some(Fault::Lost(kind)) => {
                act()?;
                Err(error(kind, "told to lose the acknowledgement"))
            }
            Some(Fault::Slow(time)) => {
                clock.sleep(time);
                act()
            }
            Some(Fault::Freeze) => {
                self.freeze();
                act()
            }
            Some(Fault::Panic) => panic!("{call:?} was told to panic"),
            Some(Fault::CrashBefore) => self.die(call),
            Some(Fault::CrashAfter) => {
                let _ = act();
                self.die(call)
            }
        }
    }

    /// Passes a call to the store.
    pub(super) fn store<T>(
        &self,
        call: Call,
        path: &str,
        act: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (path, reason) = (path.to_owned(), "told to fail".to_owned());
        let Some(fault) = self.enter(call) else {
            let reason = "the process is dead".to_owned();
            return Err(StoreError::Fatal { path, reason });
        };
        match fault {
            None | Some(Fault::Slow(_)) => act(),
            Some(Fault::Freeze) => {
                self.freeze();
                act()
            }
            Some(Fault::Fail(_)) => Err(StoreError::Retriable { path, reason }),
            Some(Fault::Lost(_)) => {
                act()?;
                Err(StoreError::Retriable { path, reason })
            }
            Some(Fault::Panic) => panic!("{call:?} was told to panic"),
            Some(Fault::CrashBefore) => self.die(call),
            Some(Fault::CrashAfter) => {
                let _ = act();
                self.die(call)
            }
        }
    }
}
