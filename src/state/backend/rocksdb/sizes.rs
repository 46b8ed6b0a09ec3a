//! Sizes and stalls of one database, from its properties. Each takes RocksDB's own lock for a moment.
use crate::state::CopySizes;
use rocksdb::DB;

/// Reads them; None when the database does not tell all of them.
pub(super) fn read(db: &DB) -> Option<CopySizes> {
    let number = |name: &str| db.property_int_value(name).ok().flatten();
    let stalls = db.property_value("rocksdb.cf-write-stall-stats").ok().flatten()?;
    Some(CopySizes {
        cache_bytes: number("rocksdb.block-cache-usage")?,
        memtables_bytes: number("rocksdb.size-all-mem-tables")?,
        files_bytes: number("rocksdb.total-sst-files-size")?,
        compaction_bytes: number("rocksdb.estimate-pending-compaction-bytes")?,
        delays: count(&stalls, "total-delays")?,
        stops: count(&stalls, "total-stops")?,
    })
}

/// The number of `name: n` in `Write Stall (count): a: 1, b: 2`.
fn count(stalls: &str, name: &str) -> Option<u64> {
    let (_, rest) = stalls.split_once(name)?;
    let digits = rest.strip_prefix(':')?.trim_start();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read_from_rocksdbs_text() {
        let text = "Write Stall (count): memtable-limit-delays: 3, total-delays: 12, total-stops: 0\ninterval: 12 total count\n";
        assert_eq!(count(text, "total-delays"), Some(12));
        assert_eq!(count(text, "total-stops"), Some(0));
        assert_eq!(count(text, "total"), None);
        assert_eq!(count("", "total-stops"), None);
    }
}
