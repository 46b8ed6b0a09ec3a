//! What a process has used.
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

/// The most memory that this process has had resident, in bytes.
#[must_use]
pub fn peak_rss_of_self() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}
