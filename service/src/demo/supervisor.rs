//! Starts the job, kills it, starts it again, and judges.
use super::directory::Layout;
use super::place::Place;
use super::progress::{ProgressLine, percent};
use super::report::{grouped, print_verdict};
use super::status::Status;
use super::worker_process::WorkerProcess;
use super::{DemoOptions, input};
use anyhow::{Context, Result, bail};
use keyfold::runtime::ExitCode;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The kill falls into this part of the input, in percent ...
const KILL_BETWEEN: RangeInclusive<u64> = 30..=70;
/// ... and the moment is waited for from a point on that lies before this.
const KILL_DRAWN_BELOW: u64 = 60;
/// From here on, in percent, any moment will do: on a busy machine commits may be rare.
const KILL_ANYHOW_FROM: u64 = 66;
/// Time since the last commit at which the next one is far enough away: epochs take 200 ms.
const BETWEEN_COMMITS: RangeInclusive<u128> = 30..=130;
/// A machine that is too busy may commit between the last word of the worker and its end; then nothing is replayed, and the new run is
/// killed as well.
const KILLS_MAX: u32 = 3;
const LISTEN: Duration = Duration::from_millis(50);
/// The job has not moved for so long: it does not move at all.
const STALLED: Duration = Duration::from_secs(30);
/// Until records flow.
const START_WITHIN: Duration = Duration::from_secs(60);

/// Runs the demonstration: 0 when all totals are equal.
pub fn run(options: &DemoOptions) -> Result<ExitCode> {
    let began = Instant::now();
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, interrupt.clone()).context("registering the signal handler")?;
    }
    let dirs = Layout::new(&options.dir);
    let _lock = dirs.make_anew()?;
    let job = match options.kafka {
        None => "keyfold-demo".to_owned(),
        Some(_) => format!("keyfold-demo-{:08x}", random() as u32),
    };
    let place = Place { options, dirs, job };
    println!(
        "orders: {} of {} customers in {}",
        grouped(options.total()),
        grouped(options.customers),
        place.describe_input()
    );
    input::generate(&place)?;
    let mut show = Show {
        place: &place,
        line: ProgressLine::new(options.total()),
        interrupt,
    };
    show.run_and_kill()?;
    let verdict = place.judge()?;
    print_verdict(&verdict);
    tracing::info!(seconds = began.elapsed().as_secs_f64(), "done");
    match verdict.is_equal() {
        true => Ok(ExitCode::Ok),
        false => Ok(ExitCode::Failed),
    }
}

struct Show<'a> {
    place: &'a Place<'a>,
    line: ProgressLine,
    interrupt: Arc<AtomicBool>,
}

/// A worker whose records flow.
struct Running {
    worker: WorkerProcess,
    resumed: Option<String>,
    /// Orders that were committed before it started.
    base: u64,
}

impl Running {
    fn folded(&self) -> u64 {
        self.base + self.worker.figures().folded
    }
    fn committed(&self) -> u64 {
        self.base + self.worker.figures().committed
    }
}

impl Show<'_> {
    fn run_and_kill(&mut self) -> Result<()> {
        let total = self.place.options.total();
        let mut running = self.start()?;
        println!("run 1: pid {}", running.worker.pid());
        for kill in 1..=KILLS_MAX {
            let pid = running.worker.pid();
            let folded = self.kill_midway(running)?;
            running = self.start()?;
            let replayed = folded.saturating_sub(running.base);
            let Some(epoch) = running.resumed.clone() else {
                bail!("run {} did not resume: it began anew", kill + 1);
            };
            println!(
                "run {}: pid {}, resumed from epoch {epoch}",
                kill + 1,
                running.worker.pid()
            );
            println!(
                "  replayed: {} orders that pid {pid} had folded and not committed",
                grouped(replayed)
            );
            self.line.rewind(running.base);
            if replayed > 0 {
                self.run_to_the_end(&mut running)?;
                let pid = running.worker.pid();
                running.worker.terminate()?;
                println!(
                    "pid {pid} stopped with SIGTERM, exit code 0; all {} orders are committed in {}",
                    grouped(total),
                    self.place.describe_output()
                );
                return Ok(());
            }
            println!("  the kill hit a moment at which all was committed, so it is done again");
        }
        bail!("after {KILLS_MAX} kills nothing had to be replayed; is the machine too busy?")
    }

    fn start(&self) -> Result<Running> {
        let mut worker = WorkerProcess::start(self.place)?;
        let began = Instant::now();
        while began.elapsed() < START_WITHIN {
            self.check_interrupt()?;
            if let Some(Status::Started { resumed, positions }) = worker.listen(LISTEN)? {
                let base = self.place.orders_before(&positions)?;
                return Ok(Running { worker, resumed, base });
            }
        }
        bail!("the worker {} does not begin to read", worker.pid())
    }

    /// SIGKILL at a random point, with records folded and not committed. Returns how many were folded.
    fn kill_midway(&mut self, mut running: Running) -> Result<u64> {
        let total = self.place.options.total();
        let (from, to) = (*KILL_BETWEEN.start(), *KILL_BETWEEN.end());
        let drawn = from * 10 + random() % ((KILL_DRAWN_BELOW - from) * 10);
        let not_before = (total * drawn / 1000).max(running.base + total / 100);
        let mut committed = (running.committed(), Instant::now());
        loop {
            self.step(&mut running)?;
            running.worker.catch_up();
            if running.committed() != committed.0 {
                committed = (running.committed(), Instant::now());
            }
            let folded = running.folded();
            if folded > total * to / 100 {
                bail!("the job was past {to} % before there was a moment for the kill; is the machine too busy?");
            }
            let is_between = BETWEEN_COMMITS.contains(&committed.1.elapsed().as_millis());
            let is_late = folded >= total * KILL_ANYHOW_FROM / 100;
            if folded >= not_before && folded > running.committed() && (is_between || is_late) {
                break;
            }
        }
        let (pid, base) = (running.worker.pid(), running.base);
        let last = running.worker.kill9()?;
        let (folded, committed) = (base + last.folded, base + last.committed);
        self.line.end(folded, committed);
        println!(
            "pid {pid} killed with SIGKILL at {:.1} % of the input: {} orders folded, {} of them committed",
            percent(folded, total),
            grouped(folded),
            grouped(committed)
        );
        Ok(folded)
    }

    fn run_to_the_end(&mut self, running: &mut Running) -> Result<()> {
        let total = self.place.options.total();
        let mut moved = (running.folded(), running.committed(), Instant::now());
        while running.committed() != total {
            self.step(running)?;
            if (moved.0, moved.1) != (running.folded(), running.committed()) {
                moved = (running.folded(), running.committed(), Instant::now());
            }
            if running.committed() > total || moved.2.elapsed() > STALLED {
                bail!(
                    "the job stands at {} committed orders of {total}, and does not move",
                    running.committed()
                );
            }
        }
        self.line.end(running.folded(), running.committed());
        Ok(())
    }

    fn step(&mut self, running: &mut Running) -> Result<()> {
        self.check_interrupt()?;
        if running.worker.listen(LISTEN)?.is_some() {
            self.line.show(running.folded(), running.committed());
        }
        Ok(())
    }

    fn check_interrupt(&self) -> Result<()> {
        match self.interrupt.load(Ordering::SeqCst) {
            true => bail!("interrupted"),
            false => Ok(()),
        }
    }
}

/// The standard library keys each hasher at random.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}
