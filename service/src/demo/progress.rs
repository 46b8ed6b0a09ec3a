//! The progress line: one that changes on a terminal, one for every tenth elsewhere.
use super::report::grouped;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const REDRAW: Duration = Duration::from_millis(100);

/// Shows how far the job is.
pub struct ProgressLine {
    total: u64,
    is_terminal: bool,
    drawn: Option<Instant>,
    tenth: u64,
}

impl ProgressLine {
    /// For so many orders.
    pub fn new(total: u64) -> ProgressLine {
        ProgressLine {
            total,
            is_terminal: std::io::stdout().is_terminal(),
            drawn: None,
            tenth: 0,
        }
    }

    /// Figures over all runs.
    pub fn show(&mut self, folded: u64, committed: u64) {
        let percent = percent(folded, self.total);
        let text = format!(
            "  {percent:5.1} %   folded {:>9}   committed {:>9}",
            grouped(folded),
            grouped(committed)
        );
        if self.is_terminal {
            if self.drawn.is_none_or(|at| at.elapsed() >= REDRAW) {
                self.drawn = Some(Instant::now());
                print!("\r{text}");
                flush();
            }
        } else if percent as u64 / 10 > self.tenth {
            self.tenth = percent as u64 / 10;
            println!("{text}");
        }
    }

    /// Ends the changing line, so that others can follow. The next run shows its tenths from `folded` on.
    pub fn end(&mut self, folded: u64, committed: u64) {
        if self.is_terminal && self.drawn.is_some() {
            self.drawn = None;
            self.show(folded, committed);
            println!();
            self.drawn = None;
        }
        self.tenth = percent(folded, self.total) as u64 / 10;
    }

    /// The next run starts again at `folded`.
    pub fn rewind(&mut self, folded: u64) {
        self.tenth = percent(folded, self.total) as u64 / 10;
    }
}

/// Of the input.
pub fn percent(part: u64, total: u64) -> f64 {
    part as f64 * 100.0 / total.max(1) as f64
}

fn flush() {
    // A line that cannot be shown is no reason to stop.
    let _ = std::io::stdout().flush();
}
