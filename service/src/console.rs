//! Standard error, with a status line that log lines do not mix with.
use parking_lot::Mutex;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use tracing_subscriber::fmt::MakeWriter;

/// Standard error of the process. Cheap to clone.
#[derive(Clone)]
pub struct Console {
    inner: Arc<Inner>,
}

struct Inner {
    /// A terminal that can go back to the start of a line.
    live: bool,
    status: Mutex<String>,
}

/// To the start of the line, and the line emptied.
const ERASE: &str = "\r\x1b[2K";
/// Where the terminal does not say.
const COLUMNS: usize = 80;

impl Console {
    /// Standard error; on a terminal it can show a status line.
    #[must_use]
    pub fn stderr() -> Console {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Console {
            inner: Arc::new(Inner {
                live: io::stderr().is_terminal() && !dumb,
                status: Mutex::default(),
            }),
        }
    }

    /// Whether it is a terminal that shows a status line.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.inner.live
    }

    /// Shows a status line in place of the one before; an empty one takes it away.
    pub fn status(&self, line: &str) {
        if !self.inner.live {
            return;
        }
        let mut status = self.inner.status.lock();
        *status = line.chars().take(columns().saturating_sub(1)).collect();
        // Nobody can be told that standard error is gone.
        let _ = write!(io::stderr().lock(), "{ERASE}{status}");
    }

    /// A line for people.
    pub fn say(&self, line: &str) {
        let _ = self.above(format!("{line}\n").as_bytes());
    }

    /// Writes whole lines above the status line.
    fn above(&self, lines: &[u8]) -> io::Result<()> {
        let status = self.inner.status.lock();
        let mut out = io::stderr().lock();
        if status.is_empty() {
            return out.write_all(lines);
        }
        out.write_all(ERASE.as_bytes())?;
        out.write_all(lines)?;
        out.write_all(status.as_bytes())?;
        out.flush()
    }
}

/// The terminal's width.
fn columns() -> usize {
    // SAFETY: all zeroes is a value of the struct, and the call fills it, or fails.
    let (size, asked) = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        let asked = libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size);
        (size, asked)
    };
    match usize::from(size.ws_col) {
        columns if asked == 0 && columns > 0 => columns,
        _ => COLUMNS,
    }
}

/// Writes a log's events, each of them in one call.
pub struct Lines(Console);

impl Write for Lines {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.above(lines)?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Console {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        Lines(self.clone())
    }
}
