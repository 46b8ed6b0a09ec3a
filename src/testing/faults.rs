//! Named fail points at the steps of the commit protocol, and switches that each break one protection on purpose.
//!
//! Compiled in always, off unless asked for: `KEYFOLD_FAULTS` is read by [`Faults::from_env`] only, which programs for tests call.
//! Grammar: `item;item`, an item being `point=action[@k]` (act when the point is reached for the k-th time, default 1) with action
//! `kill` (SIGKILL to itself), `stop` (SIGSTOP), `error`, `sleep:<ms>`, `wait:<path>` (until this file is there), `crash` (the thread that runs the protocol unwinds, as if the
//! process had died there; for drivers inside one process); or `break:EP-n` (a protection is off).
use parking_lot::RwLock;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Every fail point, in the order in which an epoch passes them; the last three belong to start and restore.
pub const POINTS: [&str; 16] = [
    "barrier_aligned",
    "object_built",
    "object_staged",
    "object_renamed",
    "post_manifest",
    "txn_begun",
    "outputs_half_sent",
    "outputs_sent",
    "post_send_offsets",
    "post_commit",
    "pre_apply",
    "mid_apply",
    "post_apply",
    "post_init",
    "mid_restore",
    "pre_genesis_commit",
];

/// Fail points beside the commit path, passed on threads of their own: a base is made, garbage is collected, a base is fetched.
pub const BESIDE: [&str; 7] = [
    "base_imaged",
    "base_piece_put",
    "base_manifest_put",
    "collect_marked",
    "collect_decided",
    "collect_removed",
    "mid_fetch",
];

fn is_point(name: &str) -> bool {
    POINTS.contains(&name) || BESIDE.contains(&name)
}

/// What a fail point does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// SIGKILL to the own process.
    Kill,
    /// SIGSTOP to the own process.
    Stop,
    /// The step fails with an error.
    Error,
    /// The step takes longer.
    Sleep(Duration),
    /// The step waits until a test has made this file.
    Wait(PathBuf),
    /// The thread unwinds with a [`Crash`].
    Crash,
}

/// What a thread unwinds with that was told to crash; names the point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash(pub String);

#[derive(Debug)]
struct Point {
    action: Action,
    at: u64,
    seen: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    points: RwLock<HashMap<String, Point>>,
    broken: HashSet<String>,
}

/// The fail points of one runtime. Cheap to clone; the default does nothing.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    inner: Option<Arc<Inner>>,
}

thread_local! {
    static RESTORING: Cell<bool> = const { Cell::new(false) };
}

/// See [`Faults::restoring`].
#[derive(Debug)]
pub struct Restoring(());

impl Drop for Restoring {
    fn drop(&mut self) {
        RESTORING.set(false);
    }
}

/// A fail point that was told to fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fail point {0} was told to fail")]
pub struct Injected(pub String);

impl Faults {
    /// No faults.
    #[must_use]
    pub fn none() -> Faults {
        Faults::default()
    }

    /// Reads `KEYFOLD_FAULTS`.
    ///
    /// # Errors
    /// Names the item that does not parse.
    pub fn from_env() -> Result<Faults, String> {
        match std::env::var("KEYFOLD_FAULTS") {
            Ok(text) => Faults::parse(&text),
            Err(_) => Ok(Faults::none()),
        }
    }

    /// Parses the grammar above.
    ///
    /// # Errors
    /// Names the item that does not parse.
    pub fn parse(text: &str) -> Result<Faults, String> {
        let mut inner = Inner::default();
        for item in text.split(';').map(str::trim).filter(|i| !i.is_empty()) {
            if let Some(id) = item.strip_prefix("break:") {
                inner.broken.insert(id.to_owned());
                continue;
            }
            let (name, point) = parse_point(item)?;
            inner.points.get_mut().insert(name, point);
        }
        let any = !inner.points.get_mut().is_empty() || !inner.broken.is_empty();
        Ok(Faults {
            inner: any.then(|| Arc::new(inner)),
        })
    }

    /// Without any item, ready for [`Faults::arm`].
    #[must_use]
    pub fn armable() -> Faults {
        Faults {
            inner: Some(Arc::default()),
        }
    }

    /// Adds an item `point=action[@k]` while the runtime runs, counted from now.
    ///
    /// # Errors
    /// When it does not parse, and for faults that are [`Faults::none`].
    pub fn arm(&self, item: &str) -> Result<(), String> {
        let inner = self.inner.as_ref().ok_or("these faults are none and stay so")?;
        let (name, point) = parse_point(item)?;
        inner.points.write().insert(name, point);
        Ok(())
    }

    /// A restore applies sections too, any number of them: until what this returns is dropped, this thread neither passes nor counts the
    /// points of an epoch's apply. Others do: in group mode epochs are applied beside a restore.
    #[must_use]
    pub fn restoring(&self) -> Restoring {
        RESTORING.set(true);
        Restoring(())
    }

    /// Passes a fail point.
    ///
    /// # Errors
    /// When the point was told to fail.
    pub fn at(&self, name: &str) -> Result<(), Injected> {
        debug_assert!(is_point(name), "unknown fail point {name}");
        let Some(inner) = &self.inner else { return Ok(()) };
        let action = {
            let points = inner.points.read();
            let Some(point) = points.get(name) else { return Ok(()) };
            if RESTORING.get() && name.ends_with("_apply") {
                return Ok(());
            }
            if point.seen.fetch_add(1, Ordering::Relaxed) + 1 != point.at {
                return Ok(());
            }
            point.action.clone()
        };
        eprintln!("fail point {name}: {action:?}");
        match action {
            Action::Kill => signal_self(libc::SIGKILL),
            Action::Stop => signal_self(libc::SIGSTOP),
            Action::Sleep(time) => std::thread::sleep(time),
            Action::Wait(file) => wait_for(&file),
            Action::Error => return Err(Injected(name.to_owned())),
            Action::Crash => std::panic::resume_unwind(Box::new(Crash(name.to_owned()))),
        }
        Ok(())
    }

    /// True when the protection of this invariant (`EP-1` ...) is switched off on purpose.
    #[must_use]
    pub fn broken(&self, id: &str) -> bool {
        self.inner.as_ref().is_some_and(|i| i.broken.contains(id))
    }
}

/// Parses `point=action[@k]`.
fn parse_point(item: &str) -> Result<(String, Point), String> {
    let (name, action) = item
        .split_once('=')
        .ok_or_else(|| format!("fault item {item}: no '='"))?;
    if !is_point(name) {
        return Err(format!(
            "fault item {item}: no such point; the points are {}, {}",
            POINTS.join(", "),
            BESIDE.join(", ")
        ));
    }
    let (action, at) = match action.split_once('@') {
        Some((action, k)) => (
            action,
            k.parse()
                .map_err(|_| format!("fault item {item}: {k} is not a count"))?,
        ),
        None => (action, 1),
    };
    let action = match action {
        "kill" => Action::Kill,
        "stop" => Action::Stop,
        "error" => Action::Error,
        "crash" => Action::Crash,
        other => with_argument(other).ok_or_else(|| format!("fault item {item}: no such action"))?,
    };
    let seen = AtomicU64::new(0);
    Ok((name.to_owned(), Point { action, at, seen }))
}

/// `sleep:<ms>` or `wait:<path>`.
fn with_argument(action: &str) -> Option<Action> {
    match action.split_once(':')? {
        ("sleep", ms) => ms.parse().ok().map(Duration::from_millis).map(Action::Sleep),
        ("wait", path) => Some(Action::Wait(path.into())),
        _ => None,
    }
}

fn wait_for(file: &Path) {
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[allow(unsafe_code)]
fn signal_self(signal: libc::c_int) {
    // SAFETY: both calls take plain integers and touch no memory of ours.
    unsafe {
        libc::kill(libc::getpid(), signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kth_pass_fails_and_only_it() {
        let faults = Faults::parse("post_manifest=error@2; break:EP-3").expect("valid");
        assert!(faults.at("post_manifest").is_ok());
        assert_eq!(faults.at("post_manifest"), Err(Injected("post_manifest".into())));
        assert!(faults.at("post_manifest").is_ok());
        assert!(faults.broken("EP-3") && !faults.broken("EP-4"));
    }

    #[test]
    fn a_step_that_waits_goes_on_once_the_file_is_there() {
        let dir = tempfile::tempdir().expect("directory");
        let file = dir.path().join("go");
        let faults = Faults::parse(&format!("pre_apply=wait:{}@1", file.display())).expect("valid");
        let waiting = std::thread::spawn(move || faults.at("pre_apply"));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        std::fs::write(&file, "").expect("written");
        assert!(waiting.join().expect("no panic").is_ok());
    }

    #[test]
    fn unknown_points_and_actions_are_refused() {
        for text in [
            "nowhere=kill",
            "post_manifest=explode",
            "post_manifest",
            "post_manifest=kill@x",
        ] {
            assert!(Faults::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_restore_passes_no_point_of_an_apply_and_the_thread_beside_it_does() {
        let faults = Faults::parse("post_apply=error; mid_restore=error").expect("valid");
        let restoring = faults.restoring();
        assert!(faults.at("post_apply").is_ok());
        assert!(faults.at("mid_restore").is_err());
        let beside = faults.clone();
        let passed = std::thread::spawn(move || beside.at("post_apply"))
            .join()
            .expect("no panic");
        assert!(passed.is_err());
        drop(restoring);
        let faults = Faults::parse("post_apply=error").expect("valid");
        assert!(faults.at("post_apply").is_err());
    }
}
