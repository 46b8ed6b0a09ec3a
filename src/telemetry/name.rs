//! Every metric by name: one table, which documentation, dashboard and rules are held to.

/// What a metric is to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, from 0 at the start of the process.
    Counter,
    /// Goes up and down; absent while it is not known.
    Gauge,
    /// Counts observations by size: `_bucket`, `_sum` and `_count`.
    Histogram,
}

/// Suffixes of a histogram's series.
const OF_HISTOGRAM: [&str; 3] = ["_bucket", "_sum", "_count"];

macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $variant:ident: $kind:ident $name:literal [$($label:literal),*];)+) => {
        /// Every metric of the engine.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum MetricName {
            $($(#[doc = $help])+ $variant,)+
        }

        impl MetricName {
            /// All of them, in the order of the enum.
            pub const ALL: &'static [MetricName] = &[$(MetricName::$variant),+];

            /// The name as Prometheus sees it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(MetricName::$variant => $name,)+
                }
            }

            /// Counter, gauge or histogram.
            #[must_use]
            pub const fn kind(self) -> MetricKind {
                match self {
                    $(MetricName::$variant => MetricKind::$kind,)+
                }
            }

            /// Names of its labels. Their values are bounded by the topology, the partitions that are read, and enums.
            #[must_use]
            pub const fn labels(self) -> &'static [&'static str] {
                match self {
                    $(MetricName::$variant => &[$($label),*],)+
                }
            }

            /// One line on what it counts.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self {
                    $(MetricName::$variant => concat!($($help),+).trim_ascii(),)+
                }
            }
        }
    };
}

metrics! {
    /// 1, with the version of the engine.
    BuildInfo: Gauge "keyfold_build_info" ["version"];
    /// 1, with what this process runs.
    StageInfo: Gauge "keyfold_stage_info" ["pipeline", "stage", "mode", "guarantee"];
    /// 1 for what the run is doing now, 0 for the other phases.
    Phase: Gauge "keyfold_phase" ["phase"];
    /// Group mode: 1 while nothing comes through and the group is not polled for that reason, so that others take over.
    Stalled: Gauge "keyfold_stalled" [];
    /// Shards that records flow for.
    ShardsOwned: Gauge "keyfold_shards_owned" [];
    /// Shards of this instance that are not restored yet, or whose pointer is undecided.
    ShardsRestoring: Gauge "keyfold_shards_restoring" [];
    /// Group mode: assignments that were taken back, or lost.
    Rebalances: Counter "keyfold_rebalances_total" [];
    /// Times that the run began again in place, by what was wrong with a local copy.
    Restarts: Counter "keyfold_restarts_total" ["reason"];
    /// Tries of a step after the first.
    Retries: Counter "keyfold_retries_total" ["step"];
    /// Current back-off; 0 when nothing is being tried again.
    Backoff: Gauge "keyfold_backoff_seconds" [];
    /// Records read from a source, committed or not.
    SourceRecords: Counter "keyfold_source_records_total" ["source"];
    /// Bytes of keys and values of the records read from a source.
    SourceBytes: Counter "keyfold_source_bytes_total" ["source"];
    /// Times that a source could not be read or served, each tried again.
    SourceErrors: Counter "keyfold_source_errors_total" ["source"];
    /// Records that a source handed out again below its position; they are dropped.
    RecordsRewound: Counter "keyfold_records_rewound_total" [];
    /// Records read in committed epochs.
    RecordsCommitted: Counter "keyfold_records_committed_total" [];
    /// Outputs produced for a sink, dead letters too, committed or not.
    SinkRecords: Counter "keyfold_sink_records_total" ["sink"];
    /// Bytes of keys, values and headers of the outputs produced for a sink.
    SinkBytes: Counter "keyfold_sink_bytes_total" ["sink"];
    /// Records that a step refused, whatever the policy.
    BadRecords: Counter "keyfold_bad_records_total" ["reason", "step"];
    /// Refused records that were written to a dead-letter sink.
    DeadLetters: Counter "keyfold_dead_letters_total" ["reason", "step"];
    /// Offsets from the committed position to the last stable offset: what can be read and is not committed yet.
    LagStable: Gauge "keyfold_lag_stable_offsets" ["topic", "partition"];
    /// Offsets from the committed position to the partition's end, what lies in open transactions too.
    LagEnd: Gauge "keyfold_lag_end_offsets" ["topic", "partition"];
    /// Epochs committed.
    Epochs: Counter "keyfold_epochs_committed_total" [];
    /// Time that an epoch took, by phase.
    EpochSeconds: Histogram "keyfold_epoch_seconds" ["phase"];
    /// Bytes of the epoch objects that became durable.
    EpochBytes: Counter "keyfold_epoch_bytes_total" [];
    /// Entries of state that committed epochs changed.
    EpochChanges: Counter "keyfold_epoch_changed_entries_total" [];
    /// Epochs that were written again, because too much time had passed before they could be published.
    Rewritten: Counter "keyfold_epochs_rewritten_total" [];
    /// Epochs whose outcome had to be read back.
    InDoubt: Counter "keyfold_epochs_in_doubt_total" [];
    /// Producer sessions opened anew after the first.
    SessionRebuilds: Counter "keyfold_session_rebuilds_total" [];
    /// When offsets were last committed, in seconds since 1970.
    LastCommit: Gauge "keyfold_last_commit_timestamp_seconds" [];
    /// Where a lane's time went.
    LaneSeconds: Counter "keyfold_lane_seconds_total" ["lane", "activity"];
    /// Records that a lane took.
    LaneRecords: Counter "keyfold_lane_records_total" ["lane"];
    /// Look-ups of keys that were in the typed map.
    MapHits: Counter "keyfold_map_hits_total" ["state"];
    /// Keys that were read from the local copy.
    MapMisses: Counter "keyfold_map_misses_total" ["state"];
    /// Entries that were dropped from the typed map to keep its limit.
    MapEvictions: Counter "keyfold_map_evictions_total" ["state"];
    /// Memory of the typed maps' entries, estimated.
    MapBytes: Gauge "keyfold_map_bytes" ["state"];
    /// Entries in the typed maps.
    MapEntries: Gauge "keyfold_map_entries" ["state"];
    /// Entries of state removed from the local copies after their time to live.
    StateExpired: Counter "keyfold_state_expired_total" [];
    /// Epochs behind the base of the shard that has most of them.
    ChainObjects: Gauge "keyfold_chain_epochs" [];
    /// Their bytes, of the shard that has most of them.
    ChainBytes: Gauge "keyfold_chain_bytes" [];
    /// Bases, by what became of them.
    Bases: Counter "keyfold_bases_total" ["outcome"];
    /// Bytes that were written for bases.
    BaseBytes: Counter "keyfold_base_bytes_total" [];
    /// Bytes of bases that were fetched to restore shards.
    FetchedBytes: Counter "keyfold_restore_fetched_bytes_total" [];
    /// Bytes that the restores at work have yet to fetch.
    RestoreLeft: Gauge "keyfold_restore_left_bytes" [];
    /// Time that they will take for it at the present rate.
    RestoreSeconds: Gauge "keyfold_restore_left_seconds" [];
    /// Rounds of collection, by what became of them.
    Collections: Counter "keyfold_collections_total" ["outcome"];
    /// Objects that collection removed from the checkpoint store.
    CollectedObjects: Counter "keyfold_collected_objects_total" [];
    /// Their bytes.
    CollectedBytes: Counter "keyfold_collected_bytes_total" [];
    /// What the memory budget gives to a part.
    MemoryLimit: Gauge "keyfold_memory_limit_bytes" ["part"];
    /// What the part takes now.
    MemoryUsed: Gauge "keyfold_memory_used_bytes" ["part"];
    /// Block cache of all local copies, memtables charged to it included.
    RocksCache: Gauge "keyfold_rocksdb_block_cache_bytes" [];
    /// Memtables of all local copies.
    RocksMemtables: Gauge "keyfold_rocksdb_memtables_bytes" [];
    /// Table files of all local copies on disk.
    RocksFiles: Gauge "keyfold_rocksdb_sst_bytes" [];
    /// Bytes that compaction has yet to rewrite, estimated.
    RocksCompaction: Gauge "keyfold_rocksdb_pending_compaction_bytes" [];
    /// Times that RocksDB slowed a local copy's writes down, or stopped them.
    RocksStalls: Counter "keyfold_rocksdb_write_stalls_total" ["kind"];
    /// CPU time of the process, user and system.
    ProcessCpu: Counter "process_cpu_seconds_total" [];
    /// Memory of the process that is in RAM.
    ProcessResident: Gauge "process_resident_memory_bytes" [];
    /// Address space of the process.
    ProcessVirtual: Gauge "process_virtual_memory_bytes" [];
    /// Files and sockets that the process has open.
    ProcessOpenFds: Gauge "process_open_fds" [];
    /// How many it may have open.
    ProcessMaxFds: Gauge "process_max_fds" [];
    /// Threads of the process.
    ProcessThreads: Gauge "process_threads" [];
    /// When the process started, in seconds since 1970.
    ProcessStart: Gauge "process_start_time_seconds" [];
}

impl MetricName {
    /// The metric that a series of this name belongs to: a histogram has three.
    #[must_use]
    pub fn of_series(series: &str) -> Option<MetricName> {
        let is_of = |name: &MetricName| match name.kind() {
            MetricKind::Histogram => OF_HISTOGRAM
                .iter()
                .any(|suffix| series.strip_suffix(suffix) == Some(name.as_str())),
            MetricKind::Counter | MetricKind::Gauge => series == name.as_str(),
        };
        MetricName::ALL.iter().copied().find(is_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prometheus's own advice on names: a prefix, the base unit, `_total` for counters and for nothing else.
    #[test]
    fn names_are_unique_and_end_in_their_unit() {
        const UNITS: [&str; 10] = [
            "_epochs",
            "_seconds",
            "_bytes",
            "_offsets",
            "_info",
            "_entries",
            "_owned",
            "_restoring",
            "_fds",
            "_threads",
        ];
        for (index, name) in MetricName::ALL.iter().enumerate() {
            let text = name.as_str();
            assert_eq!(*name as usize, index);
            assert!(text.starts_with("keyfold_") || text.starts_with("process_"), "{text}");
            assert_eq!(text.ends_with("_total"), name.kind() == MetricKind::Counter, "{text}");
            let has_unit = UNITS.iter().any(|unit| text.ends_with(unit));
            let is_flag = matches!(name, MetricName::Phase | MetricName::Stalled);
            assert!(
                has_unit || is_flag || name.kind() == MetricKind::Counter,
                "{text} has no unit"
            );
            assert_eq!(
                MetricName::ALL.iter().filter(|n| n.as_str() == text).count(),
                1,
                "{text}"
            );
            assert!(name.help().ends_with('.') && !name.help().starts_with(' '), "{text}");
        }
    }

    #[test]
    fn a_series_of_a_histogram_is_the_histograms() {
        assert_eq!(
            MetricName::of_series("keyfold_epoch_seconds_bucket"),
            Some(MetricName::EpochSeconds)
        );
        assert_eq!(MetricName::of_series("keyfold_epoch_seconds"), None);
        assert_eq!(MetricName::of_series("keyfold_stalled"), Some(MetricName::Stalled));
        assert_eq!(MetricName::of_series("keyfold_stalled_bucket"), None);
    }
}
