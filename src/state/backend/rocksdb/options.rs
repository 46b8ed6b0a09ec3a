//! How the databases are set up.
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, LogLevel, LruCacheOptions, Options,
    WriteBufferManager,
};

/// The one column family. Opened by name, because batched reads ask for its handle.
pub(super) const COLUMN_FAMILY: &str = "default";

/// Memory of all local copies together; the sum bounds block cache, index and filter blocks, and memtables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RocksSettings {
    /// Blocks, indexes and filters, in bytes.
    pub block_cache_bytes: usize,
    /// Memtables, in bytes: high-water mark at which they are flushed.
    pub write_buffer_bytes: usize,
    /// Table files that each database keeps open; -1 for all of them.
    pub open_files_max: i32,
    /// Databases that share the memtables' part.
    pub shards: usize,
}

impl RocksSettings {
    /// Splits a budget: three eighths for memtables, the rest for blocks. What changes again before its memtable is flushed is never written; with
    /// half, those that were being flushed took more than the budget had left.
    #[must_use]
    pub fn of_budget(bytes: usize, shards: usize) -> RocksSettings {
        let write_buffer_bytes = bytes / 8 * 3;
        RocksSettings {
            block_cache_bytes: bytes - write_buffer_bytes,
            write_buffer_bytes,
            open_files_max: -1,
            shards: shards.max(1),
        }
    }
}

impl RocksSettings {
    /// A memtable of one database. There may be two: one that is written to, and one that is flushed; writes wait for a third.
    fn memtable_bytes(&self) -> usize {
        let fair = self.write_buffer_bytes / self.shards;
        let one = fair.max(MEMTABLE_BYTES_OF_MANY).min(self.write_buffer_bytes / 2);
        one.clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX)
    }

    fn arena_bytes(&self) -> usize {
        (self.write_buffer_bytes / self.shards / 8).clamp(ARENA_BYTES_MIN, ARENA_BYTES_MAX)
    }
}

/// What the databases of a process share.
pub(super) struct Shared {
    settings: RocksSettings,
    cache: Cache,
    write_buffers: WriteBufferManager,
}

/// Bounds of one memtable: smaller ones make level 0 too fine, larger ones make a flush, and so the tail after a crash, too long.
const MEMTABLE_BYTES_MIN: usize = 64 << 10;
const MEMTABLE_BYTES_MAX: usize = 64 << 20;
/// With many shards one may still fill so much while most of them do little: the write-buffer manager bounds their sum.
const MEMTABLE_BYTES_OF_MANY: usize = 1 << 20;
/// Bounds of what a memtable takes from the allocator at a time. The first entry takes that much, in every shard.
const ARENA_BYTES_MIN: usize = 8 << 10;
const ARENA_BYTES_MAX: usize = 1 << 20;

/// Least size of a part of the cache. Memtables are charged to it as blocks of 256 KiB that lie in any of its parts, and a part that is full of them
/// keeps no other: with RocksDB's own parts of a megabyte or two chance made that of many.
const CACHE_PART_BYTES: usize = 8 << 20;

fn cache(bytes: usize) -> Cache {
    let parts = (bytes / CACHE_PART_BYTES).clamp(1, 64);
    let mut options = LruCacheOptions::default();
    options.set_capacity(bytes);
    options.set_num_shard_bits(parts.ilog2() as i32);
    Cache::new_lru_cache_opts(&options)
}

impl Shared {
    pub fn new(settings: RocksSettings) -> Self {
        // Memtables are charged to the cache, so that its capacity is the one bound.
        let cache = cache(settings.block_cache_bytes + settings.write_buffer_bytes);
        // Never stalls writers: the commit driver applies, and it must not wait for another shard's flush.
        let write_buffers =
            WriteBufferManager::new_write_buffer_manager_with_cache(settings.write_buffer_bytes, false, cache.clone());
        Shared {
            settings,
            cache,
            write_buffers,
        }
    }

    /// Of one memtable.
    pub fn memtable_bytes(&self) -> usize {
        self.settings.memtable_bytes()
    }

    /// Options of one database. Memtables are flushed when it is closed (`avoid_flush_during_shutdown` is off by default), so that a
    /// clean restart has no tail to replay.
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_paranoid_checks(true);
        options.set_write_buffer_manager(&self.write_buffers);
        options.set_write_buffer_size(self.memtable_bytes());
        options.set_arena_block_size(self.settings.arena_bytes());
        // A key that was never there is not looked for in the memtable's list: ten bits a key, of some hundred bytes.
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(0.015);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_compression_type(DBCompressionType::Lz4);
        // Level 0 is four tables at most but in a restore, and under load lives for seconds: compressing it took a quarter of the time of a flush.
        options.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
        options.set_max_background_jobs(2);
        options.set_max_open_files(self.settings.open_files_max);
        options.set_bytes_per_sync(1 << 20);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options.set_skip_stats_update_on_db_open(true);
        options.set_keep_log_file_num(2);
        options.set_log_level(LogLevel::Warn);
        options.set_block_based_table_factory(&self.table_options());
        options
    }

    fn table_options(&self) -> BlockBasedOptions {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        table.set_bloom_filter(10.0, false);
        table.set_cache_index_and_filter_blocks(true);
        // In small parts: the cache is cut into parts of some megabytes, and a filter that is larger than one is read anew each time.
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_metadata_block_size(4 << 10);
        table.set_pin_top_level_index_and_filter(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table
    }
}
