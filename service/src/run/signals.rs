//! SIGTERM and SIGINT.
use crate::console::Console;
use keyfold::runtime::StopHandle;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::time::{Duration, Instant};

/// Exit code of a process that a second SIGINT has ended at once, as shells have it: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;

/// A SIGINT so soon after the one that asked for the stop is that one once more: a terminal and `timeout` send it to the group of processes
/// and to the process. Nobody presses Ctrl-C twice as fast.
const SAME: Duration = Duration::from_millis(500);

/// The first of SIGTERM and SIGINT asks for a last epoch. A SIGINT after that ends the process at once: what is not committed is replayed at
/// the next start, so nothing is lost by it. A SIGTERM after that is heard and changes nothing: supervisors send several.
///
/// # Errors
/// When signals cannot be caught.
pub fn stop_on_signals(stop: &StopHandle, console: &Console) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let (stop, console) = (stop.clone(), console.clone());
    let listen = move || {
        let mut asked_at: Option<Instant> = None;
        for signal in signals.forever() {
            let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
            if !stop.asked() {
                tracing::info!(
                    signal = name,
                    "stopping: a last epoch is being committed; what fails is tried again for 20 s at most; a SIGINT now ends at once"
                );
                stop.stop();
                asked_at = Some(Instant::now());
            } else if signal == SIGINT && asked_at.is_none_or(|at| at.elapsed() >= SAME) {
                console.status("");
                tracing::warn!("ended at once; what is not committed is replayed at the next start");
                // Without the destructors of the libraries, which wait for their threads.
                signal_hook::low_level::exit(i32::from(INTERRUPTED));
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
    Ok(())
}
