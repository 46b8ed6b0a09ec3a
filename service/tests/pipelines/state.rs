//! State over restarts and over changes of a pipeline.
use crate::support::{build, driver, epoch, texts};
use keyfold::testing::TestRecord;

fn totals(aggregates: &str) -> String {
    format!(
        "job: totals\n\
         sources: {{ input: {{ connector: kafka, topic: in, value: {{ format: json, schema: {{ n: int64, s: string }} }} }} }}\n\
         steps: [{{ id: totals, key_by: _key, aggregate: {{ {aggregates} }} }}]\n\
         sinks: {{ out: {{ connector: kafka, topic: out, value: json }} }}\n"
    )
}

fn record(n: i64) -> TestRecord {
    TestRecord::new("k", format!(r#"{{"n":{n},"s":"s{}"}}"#, n % 3))
}

/// Every kind of accumulator is written at the barrier and read again after the local copies are lost.
#[test]
fn aggregates_come_back_from_the_checkpoints() {
    let text = totals(
        "rows: count(), sum: sum(n), mean: avg(n), low: min(s), kinds: count(DISTINCT s), first: first(s), last: last(n)",
    );
    let mut driver = driver(&text, &["in", "out"]);
    driver.start().expect("starts");
    epoch(&mut driver, "in", (1..=4).map(record));
    driver.stop().expect("ends well");
    driver.lose_copies();
    driver.start().expect("starts");
    driver.outputs("out");
    epoch(&mut driver, "in", [record(5)]);
    let expected = r#"k={"rows":5,"sum":15,"mean":3.0,"low":"s0","kinds":3,"first":"s1","last":5}"#;
    assert_eq!(texts(&driver.outputs("out")), [expected]);
}

/// Sums of one thing would be taken for those of another.
#[test]
fn an_aggregate_that_has_changed_is_refused_with_both() {
    for changed in [
        "sum: sum(n * 2)",
        "total: sum(n)",
        "sum: max(n)",
        "sum: sum(n), rows: count()",
    ] {
        let mut driver = driver(&totals("sum: sum(n)"), &["in", "out"]);
        driver.start().expect("starts");
        epoch(&mut driver, "in", [record(1)]);
        driver.stop().expect("ends well");
        driver.rebuild(build(&totals(changed)));
        let error = driver.start().expect_err("refused").to_string();
        assert!(
            error.contains("totals")
                && error.contains("sum: sum(n) as")
                && error.contains(&changed.split(',').next().expect("one").replace(" * ", "*")),
            "{error}"
        );
        driver.rebuild(build(&totals("sum:  sum( n )")));
        driver.start().expect("only white space has changed");
    }
}
