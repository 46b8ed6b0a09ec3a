//! The limit of open files of the process. Each shard's local copy keeps its table files open, and each client its connections.
use std::io;

/// Files and connections of the process itself, and what a shard's copy keeps open when it is small.
const OF_PROCESS: u64 = 64;
const OF_SHARD: u64 = 16;

#[allow(unsafe_code)]
fn limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call writes to the structure, which outlives it.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Raises the process's limit of open files to the most that it may have; returns it. For programs, at their start.
///
/// # Errors
/// When the system refuses it.
#[allow(unsafe_code)]
pub fn raise_limit() -> io::Result<u64> {
    let mut limit = limit()?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the call reads the structure, which outlives it.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => Ok(limit.rlim_cur),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Warns before anything is opened: a limit that is met later fails in the middle of the work.
pub(super) fn check(shards: u32) {
    let needed = needed(shards);
    if let Ok(limit) = limit()
        && limit.rlim_cur < needed
    {
        tracing::warn!(
            limit = limit.rlim_cur,
            needed,
            shards,
            "few open files are allowed: with many keys the local copies will not do; raise the limit (ulimit -n, LimitNOFILE of the service)"
        );
    }
}

fn needed(shards: u32) -> u64 {
    OF_PROCESS + OF_SHARD * u64::from(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_most_there_is_and_compared_with_what_the_shards_take() {
        let raised = raise_limit().expect("up to the hard limit is allowed");
        let now = limit().expect("read");
        assert_eq!((raised, now.rlim_cur), (now.rlim_max, now.rlim_max));
        assert!(needed(4) < 256 && needed(64) > 1024, "{} {}", needed(4), needed(64));
    }
}
