//! Keeps the machine's cores busy, so that a round is played by processes that wait for their turn.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

/// As many as the smallest machine that this is run on has cores. They have no lower priority than the workers.
const THREADS: usize = 2;

/// Threads that spin while they are told to. Dropping it ends them.
pub struct Busy {
    on: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// They rest at first.
    pub fn start() -> Result<Busy> {
        let (on, end) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let thread = |number| {
            let (on, end) = (on.clone(), end.clone());
            let named = std::thread::Builder::new().name(format!("busy-{number}"));
            named.spawn(move || spin(&on, &end)).context("starting a busy thread")
        };
        let threads = (0..THREADS).map(thread).collect::<Result<_>>()?;
        Ok(Busy { on, end, threads })
    }

    /// Whether they spin.
    pub fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }
}

fn spin(on: &AtomicBool, end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        if on.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // There is nothing in it that could panic.
            let _ = thread.join();
        }
    }
}
