//! What a process has used.
use std::fs;
use std::io;
use std::time::Duration;

/// CPU time of this process so far, user and system.
#[must_use]
#[allow(unsafe_code)]
pub fn cpu_of_self() -> Duration {
    // SAFETY: the struct is plain data, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::from_micros(t.tv_sec.unsigned_abs() * 1_000_000 + t.tv_usec.unsigned_abs());
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// CPU time of another process so far, user and system, in steps of 10 ms.
///
/// # Errors
/// When it is gone.
pub fn cpu_of(pid: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Its name, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(") ").ok_or(io::ErrorKind::InvalidData)?;
    let fields = rest.split(' ').skip(11).take(2);
    let ticks: u64 = fields.filter_map(|n| n.parse::<u64>().ok()).sum();
    // Linux counts in hundredths.
    Ok(Duration::from_millis(ticks * 10))
}

/// The most memory that this process has had resident, in bytes.
#[must_use]
pub fn peak_rss_of_self() -> u64 {
    peak_rss("self").unwrap_or_default()
}

/// The most memory that another process has had resident, in bytes.
///
/// # Errors
/// When it is gone.
pub fn peak_rss_of(pid: u32) -> io::Result<u64> {
    peak_rss(&pid.to_string())
}

fn peak_rss(process: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or(io::ErrorKind::InvalidData.into())
}
