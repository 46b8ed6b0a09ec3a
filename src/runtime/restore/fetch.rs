//! Fetches a base: its pieces side by side, each hashed and written part by part, while it is in the processor's caches. What is written is no copy yet:
//! it lies beside the shard's place under another name, nobody opens it, and [`Rebuild::finish`], which puts it there, comes when every piece has
//! been verified. After an error or a crash before that it is removed by the next try.
use crate::checkpoint::base::{BaseError, Manifest, Piece, PieceError, manifest_of, read_piece};
use crate::checkpoint::chain::{Chain, RestoreError};
use crate::runtime::error::RuntimeError;
use crate::state::{BackendFactory, Rebuild};
use crate::telemetry::Metrics;
use crate::testing::Faults;
use crate::types::{BaseLink, Clock, Shard};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Pieces that are fetched at a time, for each shard that is restored: a store that is far away answers slowly, and takes many questions. Those who wait
/// for the disk are among them.
const AT_ONCE: usize = 4;
/// How often the log tells how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Counts what the restores of a process fetch, together.
pub(crate) struct FetchMeter {
    metrics: Metrics,
    clock: Arc<dyn Clock>,
    total: AtomicU64,
    done: AtomicU64,
    /// When the first fetch began, and when the log was told last.
    times: Mutex<Option<(Duration, Duration)>>,
}

impl FetchMeter {
    pub fn new(metrics: Metrics, clock: Arc<dyn Clock>) -> FetchMeter {
        FetchMeter {
            metrics,
            clock,
            total: AtomicU64::new(0),
            done: AtomicU64::new(0),
            times: Mutex::new(None),
        }
    }

    fn begin(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        let now = self.clock.elapsed();
        self.times.lock().get_or_insert((now, now));
    }

    /// So many bytes more are there.
    fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let total = self.total.load(Ordering::Relaxed);
        let left = total.saturating_sub(done);
        let now = self.clock.elapsed();
        let mut times = self.times.lock();
        let Some((since, told)) = times.as_mut() else { return };
        let rate = done as f64 / now.saturating_sub(*since).as_secs_f64().max(1e-3);
        let left_s = left as f64 / rate.max(1.0);
        self.metrics.fetched(bytes, left, Some(left_s));
        if now >= *told + TOLD_EVERY || left == 0 {
            *told = now;
            tracing::info!(
                done_bytes = done,
                total_bytes = total,
                bytes_per_second = rate as u64,
                left_seconds = left_s as u64,
                "fetching bases"
            );
        }
    }
}

impl Drop for FetchMeter {
    fn drop(&mut self) {
        self.metrics.fetch_ended();
    }
}

/// One base that is fetched.
pub(super) struct Fetch<'a> {
    pub chain: Chain<'a>,
    pub backends: &'a dyn BackendFactory,
    pub faults: &'a Faults,
    pub meter: &'a FetchMeter,
    pub shard: Shard,
    pub base: &'a BaseLink,
}

impl Fetch<'_> {
    /// What it consists of.
    pub fn manifest(&self) -> Result<Manifest, RuntimeError> {
        let (store, layout) = self.chain.place();
        let manifest = manifest_of(store, layout, self.shard, self.base).map_err(|e| self.error(e))?;
        self.check_kind(&manifest)?;
        Ok(manifest)
    }

    /// Puts the base in the place of the shard's copy, which must not be open.
    pub fn run(&self, manifest: &Manifest) -> Result<(), RuntimeError> {
        self.meter.begin(manifest.bytes());
        let rebuild = self.backends.rebuild(self.shard)?;
        self.pieces(manifest, rebuild.as_ref())?;
        tracing::debug!(shard = %self.shard, "files of the base are written");
        rebuild.finish()?;
        let (shard, bytes) = (self.shard, manifest.bytes());
        tracing::info!(%shard, sequence = self.base.sequence, bytes, "base fetched");
        Ok(())
    }

    fn check_kind(&self, manifest: &Manifest) -> Result<(), RuntimeError> {
        let (found, own) = (manifest.kind, self.backends.kind());
        if found == own {
            return Ok(());
        }
        let path = self.chain.place().1.base_manifest(self.base.id).to_string();
        let reason = format!(
            "it was made from a copy of the kind {found:?}, and this program keeps {own:?}: run one that is built like the one that made it"
        );
        Err(self.error(BaseError::Foreign { path, reason }))
    }

    /// The copy that was made of it equals another section than its manifest names.
    pub fn not_what_it_says(&self) -> RuntimeError {
        let path = self.chain.place().1.base_manifest(self.base.id).to_string();
        let reason = "the copy that it describes equals another section than it names".to_owned();
        self.error(BaseError::Damaged { path, reason })
    }

    fn pieces(&self, manifest: &Manifest, rebuild: &dyn Rebuild) -> Result<(), RuntimeError> {
        let next = AtomicUsize::new(0);
        let left = pieces_of_files(manifest);
        let work = || {
            let _restoring = self.faults.restoring();
            while let Some(piece) = manifest.pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let fetched = self.piece(piece, rebuild).and_then(|()| {
                    // The last of a file waits for the disk while others read on.
                    match left
                        .get(piece.file.as_str())
                        .map(|left| left.fetch_sub(1, Ordering::AcqRel))
                    {
                        Some(1) => Ok(rebuild.sync(&piece.file)?),
                        _ => Ok(()),
                    }
                });
                if fetched.is_err() {
                    // The others need not go on.
                    next.store(manifest.pieces.len(), Ordering::Relaxed);
                    return fetched;
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            for done in joined {
                // A fail point that unwinds stands for a process that dies.
                done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok(())
        })
    }

    fn piece(&self, piece: &Piece, rebuild: &dyn Rebuild) -> Result<(), RuntimeError> {
        self.chain.go_on(self.shard)?;
        // A file without a byte is a file, too.
        rebuild.write(&piece.file, piece.offset, &[])?;
        let (store, layout) = self.chain.place();
        read_piece(store, layout, piece, |at, part| {
            rebuild.write(&piece.file, piece.offset + at, part)
        })
        .map_err(|error| match error {
            PieceError::Base(error) => self.error(error),
            PieceError::Taken(error) => error.into(),
        })?;
        self.faults.at("mid_fetch")?;
        self.meter.add(piece.bytes);
        Ok(())
    }

    fn error(&self, source: BaseError) -> RuntimeError {
        let (shard, sequence) = (self.shard, self.base.sequence);
        RuntimeError::Restore(RestoreError::Base {
            shard,
            sequence,
            source,
        })
    }
}

/// How many pieces each file has.
fn pieces_of_files(manifest: &Manifest) -> HashMap<&str, AtomicUsize> {
    let mut files: HashMap<&str, AtomicUsize> = HashMap::new();
    for piece in &manifest.pieces {
        *files.entry(&piece.file).or_default().get_mut() += 1;
    }
    files
}
