use super::*;
use crate::checkpoint::tests::History;
use crate::state::backend::memory::MemoryFactory;
use crate::testing::ManualClock;

fn meter(metrics: &Metrics, clock: &ManualClock) -> FetchMeter {
    FetchMeter::new(metrics.clone(), Arc::new(clock.clone()))
}

/// The group takes a shard back while its base is fetched: what is left of it is not fetched, and nothing is put in place.
#[test]
fn a_fetch_ends_with_the_lease_of_its_shard() {
    let history = History::new();
    let base = history.base(0, 7).base;
    let (metrics, clock) = (Metrics::new(), ManualClock::new(0));
    let (faults, factory, meter) = (Faults::none(), MemoryFactory::default(), meter(&metrics, &clock));
    let taken_back = || true;
    let chain = Chain::new(&history.store, &history.layout, &history.expected).until(&taken_back);
    let fetch = Fetch {
        chain,
        backends: &factory,
        faults: &faults,
        meter: &meter,
        shard: Shard(0),
        base: &base,
    };
    let ended = fetch.manifest().and_then(|manifest| fetch.run(&manifest));
    let stopped = matches!(
        &ended,
        Err(RuntimeError::Restore(RestoreError::Stopped { shard: Shard(0) }))
    );
    assert!(stopped, "{ended:?}");
    assert_eq!(metrics.fetched_bytes(), 0);
    let copy = factory.open(Shard(0)).expect("opens");
    assert_eq!(copy.applied().expect("reads"), None);
}

#[test]
fn progress_is_told_in_bytes_and_time_left() {
    let (metrics, clock) = (Metrics::new(), ManualClock::new(0));
    let meter = meter(&metrics, &clock);
    meter.begin(1000);
    clock.advance(Duration::from_secs(2));
    meter.add(250);
    let told = |metrics: &Metrics, line: &str| metrics.text().lines().any(|l| l == line);
    assert!(told(&metrics, "keyfold_restore_left_bytes 750"));
    assert!(
        told(&metrics, "keyfold_restore_left_seconds 6"),
        "at 125 bytes a second"
    );
    meter.begin(250);
    meter.add(250);
    assert!(
        told(&metrics, "keyfold_restore_left_bytes 750"),
        "of all restores together"
    );
    assert!(told(&metrics, "keyfold_restore_left_seconds 3"));
    assert_eq!(metrics.fetched_bytes(), 500);
    drop(meter);
    assert!(told(&metrics, "keyfold_restore_left_bytes 0"), "nothing is fetched");
    assert!(told(&metrics, "keyfold_restore_left_seconds 0"));
}
