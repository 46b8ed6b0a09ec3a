//! How the C library's allocator is set up. RocksDB and librdkafka use it too.

/// Blocks from here on are given back to the system as soon as they are free: the changes of an epoch, its object, a write batch. Below it are
/// those that lanes take for their batches, for which asking the system each time would cost more than it saves.
const MAPPED_FROM: i32 = 4 << 20;
/// What may stay free at the top of a heap; once the threshold above is set, the library's own value is 128 KiB.
const KEPT_FREE: i32 = 16 << 20;

/// Makes glibc give large blocks back when they are freed. By itself it keeps blocks of up to 32 MiB as soon as one of that size was freed, and
/// their remains add up to more than the memory budget. For programs, at their start; `MALLOC_MMAP_THRESHOLD_` in the environment goes before.
#[allow(unsafe_code)]
pub fn give_large_blocks_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if std::env::var_os("MALLOC_MMAP_THRESHOLD_").is_none() {
        // SAFETY: the calls set two numbers in the allocator, under its own lock.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_FREE);
        }
    }
}
