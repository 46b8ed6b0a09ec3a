//! Outputs between lane and sink: what is refused at the start, how much may wait, and to whom an outbox is delivered.
use crate::support::sums;
use keyfold::checkpoint::MemoryStore;
use keyfold::config::Config;
use keyfold::runtime::{ExitCode, Runtime, store_log};
use keyfold::testing::MemoryBroker;
use std::sync::Arc;

/// A job read files and wrote to a topic. It started, folded records, and ended only when the first output was to be sent.
#[test]
fn a_stage_whose_log_takes_no_outputs_is_refused_before_it_reads_a_record() {
    let broker = MemoryBroker::default();
    broker.create_topic("in", 1);
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(MemoryStore::new(1));
    let topology = sums(&broker).expect("built");
    let runtime = Runtime::single(topology, Config::new(dir.path()), store_log(store.clone()), store);
    let progress = runtime.progress();
    let error = runtime.run().expect_err("refused");
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn);
    assert!(error.to_string().contains("writes to topic out"), "{error}");
    assert_eq!(progress.read(), 0);
}
