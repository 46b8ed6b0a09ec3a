//! What is measured beside the data path: the control thread looks at it, on a timer, and nobody waits for it.
use super::lanes::Gate;
use super::{Config, Runtime};
use crate::config::{Budget, Guarantee};
use crate::sink::QueueGauge;
use crate::source::{PartitionEnd, Prefetch, Source};
use crate::state::{Backend, CopySizes};
use crate::telemetry::{self, BackendSizes, MemoryPart, Metrics};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often what costs a few loads is looked at. A scrape comes every few seconds at most.
const QUICK: Duration = Duration::from_secs(1);
/// How often the databases are asked, which takes their locks.
const SLOW: Duration = Duration::from_secs(5);

/// Says what this process runs. Counters of sources and sinks are there from the start.
pub(super) fn announce(runtime: &Runtime) {
    let (metrics, topology) = (&runtime.metrics, &runtime.topology);
    let mode = if runtime.group.signals().is_some() {
        "group"
    } else {
        "single"
    };
    let guarantee = match runtime.config.guarantee {
        Guarantee::ExactlyOnce => "exactly-once",
        Guarantee::AtLeastOnce => "at-least-once",
    };
    metrics.stage(&topology.job, &topology.stage, mode, guarantee);
    topology.sources.iter().for_each(|s| drop(metrics.source(&s.id)));
    let sinks: Vec<&str> = topology.sinks.iter().map(|(id, _)| id.as_str()).collect();
    metrics.set_sinks(&sinks);
}

/// Looks while records flow; what was known of the flow is forgotten when it ends.
pub(super) struct Sampler<'a> {
    metrics: Metrics,
    budget: Budget,
    gate: &'a Gate,
    backends: Vec<Arc<dyn Backend>>,
    queue: Option<QueueGauge>,
    /// What each copy had told of its stalls.
    stalls: Vec<(u64, u64)>,
    quick_at: Instant,
    slow_at: Instant,
}

impl<'a> Sampler<'a> {
    pub fn new(
        metrics: &Metrics,
        config: &Config,
        gate: &'a Gate,
        backends: &[Arc<dyn Backend>],
        queue: Option<QueueGauge>,
    ) -> Sampler<'a> {
        let now = Instant::now();
        Sampler {
            metrics: metrics.clone(),
            budget: config.budget(),
            gate,
            backends: backends.to_vec(),
            queue,
            stalls: vec![(0, 0); backends.len()],
            quick_at: now,
            slow_at: now,
        }
    }

    /// Looks at what is due.
    pub fn look<'s>(&mut self, sources: impl Iterator<Item = &'s mut Box<dyn Source>>) {
        let now = Instant::now();
        if now >= self.quick_at {
            self.quick_at = now + QUICK;
            self.memory();
            self.sources(sources);
        }
        if now >= self.slow_at {
            self.slow_at = now + SLOW;
            self.copies();
        }
    }

    fn memory(&self) {
        let load = self.gate.load();
        let in_flight = self.gate.in_flight();
        let (budget, queue) = (&self.budget, self.queue.as_ref().map(QueueGauge::bytes));
        let tell = |part, limit: Option<usize>, used: Option<u64>| {
            self.metrics.memory(part, limit.map(|b| b as u64), used);
        };
        tell(
            MemoryPart::Maps,
            Some(budget.maps_bytes),
            Some(self.metrics.maps_bytes()),
        );
        tell(MemoryPart::Dirty, Some(budget.dirty_bytes), Some(load.dirty as u64));
        let waiting = self.gate.waiting.load(Ordering::Relaxed) as u64;
        tell(MemoryPart::Waiting, Some(budget.dirty_bytes), Some(waiting));
        tell(
            MemoryPart::Outputs,
            Some(budget.outputs_bytes),
            Some(load.outputs as u64),
        );
        // Its bound is what dirty state and outputs leave of theirs.
        tell(MemoryPart::InFlight, None, Some(in_flight as u64));
        if queue.is_some() {
            tell(MemoryPart::Producer, Some(budget.producer_bytes), queue);
        }
    }

    fn sources<'s>(&self, sources: impl Iterator<Item = &'s mut Box<dyn Source>>) {
        let mut prefetch: Option<Prefetch> = None;
        for source in sources {
            let figures = source.figures();
            let end = |e: PartitionEnd| telemetry::PartitionEnd {
                partition: e.partition,
                stable: e.stable,
                end: e.end,
            };
            self.metrics.ends(&source.topic(), figures.ends.into_iter().map(end));
            prefetch = match (prefetch, figures.prefetch) {
                (Some(a), Some(b)) => Some(Prefetch {
                    limit_bytes: a.limit_bytes + b.limit_bytes,
                    used_bytes: a.used_bytes.zip(b.used_bytes).map(|(a, b)| a + b),
                }),
                (known, None) | (None, known) => known,
            };
        }
        if let Some(Prefetch {
            limit_bytes,
            used_bytes,
        }) = prefetch
        {
            self.metrics.memory(MemoryPart::Prefetch, Some(limit_bytes), used_bytes);
        }
    }

    fn copies(&mut self) {
        let sizes: Vec<Option<CopySizes>> = self.backends.iter().map(|b| b.sizes()).collect();
        let mut all: Option<BackendSizes> = None;
        let (mut delays, mut stops) = (0, 0);
        for (sizes, told) in sizes.iter().zip(&mut self.stalls) {
            let Some(sizes) = sizes else { continue };
            let sum = all.get_or_insert_default();
            // One cache for all.
            sum.cache_bytes = sum.cache_bytes.max(sizes.cache_bytes);
            sum.memtables_bytes += sizes.memtables_bytes;
            sum.files_bytes += sizes.files_bytes;
            sum.compaction_bytes += sizes.compaction_bytes;
            delays += sizes.delays.saturating_sub(told.0);
            stops += sizes.stops.saturating_sub(told.1);
            *told = (sizes.delays, sizes.stops);
        }
        self.metrics.backend(all);
        if let Some(all) = all {
            self.metrics.stalls(delays, stops);
            let limit = self.budget.backend_bytes as u64;
            self.metrics
                .memory(MemoryPart::Backend, Some(limit), Some(all.cache_bytes));
        }
    }
}

impl Drop for Sampler<'_> {
    fn drop(&mut self) {
        self.metrics.flow_ended();
    }
}
