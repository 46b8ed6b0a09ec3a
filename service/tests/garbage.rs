//! `make soak` for a few seconds: pipelines over mutated, cut, deeply nested and huge records, at full speed. No panic, memory within the budget,
//! and every record comes out as a row, a dead letter with its bytes, or a count.
use std::time::Duration;

use keyfold_e2e::soak::{Options, run};

#[test]
fn garbage_at_full_speed_is_accounted_for_record_by_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let verdict = run(&Options {
        program: env!("CARGO_BIN_EXE_keyfold").into(),
        time: Duration::from_secs(4),
        seed: 11,
        memory_mib: 512,
        dir: dir.path().to_owned(),
        forget: None,
    });
    let verdict = verdict.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(verdict.ok(), "{}\n{}", verdict.account.told.join("\n"), verdict.line());
    // As many of each as show that nothing has run empty.
    let account = &verdict.account;
    let least = account.outputs.min(account.skipped).min(account.letters);
    assert!(least > 1000, "{}", verdict.line());
}
