//! State over restarts and over changes of a pipeline.
use crate::support::{build, driver, epoch, texts};
use keyfold::testing::TestRecord;

fn totals(aggregates: &str) -> String {
    format!(
        "job: totals\n\
         sources: {{ input: {{ connector: kafka, topic: in, value: {{ format: json, schema: {{ n: int64, s: string, t: string }} }} }} }}\n\
         steps: [{{ id: totals, key_by: _key, aggregate: {{ {aggregates} }} }}]\n\
         sinks: {{ out: {{ connector: kafka, topic: out, value: json }} }}\n"
    )
}

fn record(n: i64) -> TestRecord {
    TestRecord::new("k", format!(r#"{{"n":{n},"s":"s{0}","t":"t{0}"}}"#, n % 3))
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

/// What is kept may have more digits than the column has now, and everything behind relies on the column's: it was taken as it lay. More digits
/// before the point, and fewer that suffice, change nothing.
#[test]
fn a_kept_decimal_is_refused_by_a_column_that_has_no_room_for_it() {
    let text = |digits: u8, call: &str| {
        totals(&format!("kept: {call}")).replace("n: int64", &format!("n: 'decimal({digits},2)'"))
    };
    let amount = |n: &str| TestRecord::new("k", format!(r#"{{"n":{n}}}"#));
    for (call, kept) in [("max(n)", "12345.67"), ("last(n)", "1.00"), ("count(DISTINCT n)", "2")] {
        let mut driver = driver(&text(9, call), &["in", "out"]);
        driver.start().expect("starts");
        epoch(&mut driver, "in", [amount("12345.67")]);
        for digits in [18, 7] {
            driver.stop().expect("ends well");
            driver.rebuild(build(&text(digits, call)));
            driver.start().expect("starts");
            driver.outputs("out");
            epoch(&mut driver, "in", [amount("1.00")]);
            assert_eq!(texts(&driver.outputs("out")), [format!(r#"k={{"kept":{kept}}}"#)]);
            driver.pipe("in", amount("12345.67")).expect("taken");
        }
        driver.stop().expect("ends well");
        driver.rebuild(build(&text(6, call)));
        driver.start().expect("starts");
        driver.pipe("in", amount("1.00")).expect("taken");
        let error = driver.barrier().expect_err("refused").to_string();
        assert!(
            error.contains("more digits than decimal(6,2): give the column the precision"),
            "{error}"
        );
    }
}

/// The sum behind an average is of the former column as well: the average came out with more digits than its type has, or as NULL.
#[test]
fn a_kept_average_is_refused_by_a_column_that_has_no_room_for_its_sum() {
    let text = |digits: u8| totals("kept: avg(n)").replace("n: int64", &format!("n: 'decimal({digits},2)'"));
    let mut driver = driver(&text(9), &["in", "out"]);
    driver.start().expect("starts");
    let amount = |n: &str| TestRecord::new("k", format!(r#"{{"n":{n}}}"#));
    epoch(&mut driver, "in", [amount("12345.67")]);
    driver.stop().expect("ends well");
    driver.rebuild(build(&text(6)));
    driver.start().expect("starts");
    driver.pipe("in", amount("1.00")).expect("taken");
    let error = driver.barrier().expect_err("refused").to_string();
    assert!(error.contains("more digits than decimal(6,2)"), "{error}");
}

/// Rows of another key would be added to the totals that lie under it: the key's expressions are known like those of the aggregates.
#[test]
fn a_key_that_means_something_else_is_refused() {
    let keyed = |key: &str| totals("sum: sum(n)").replace("key_by: _key", &format!("key_by: {key}"));
    for (before, changed) in [
        ("s", "t"),
        ("{ k: upper(s) }", "{ k: lower(s) }"),
        ("{ k: n + 1 }", "{ k: n + 2 }"),
        ("[s, t]", "[t, s]"),
    ] {
        let mut driver = driver(&keyed(before), &["in", "out"]);
        driver.start().expect("starts");
        epoch(&mut driver, "in", [record(1)]);
        driver.stop().expect("ends well");
        driver.rebuild(build(&keyed(changed)));
        let error = driver.start().expect_err("refused").to_string();
        assert!(
            error.contains("what keys are made of") && error.contains("former topology"),
            "{error}"
        );
        let same = before.replace("upper(s)", "upper( s )").replace("n + 1", "n+1");
        driver.rebuild(build(&keyed(&same)));
        driver.start().expect("only white space has changed");
    }
}

/// A job finds its offsets and its state by its own id: a source under another id, or in front of others, does not make it begin again.
#[test]
fn sources_under_other_ids_and_in_another_order_go_on() {
    let two = |sources: [(&str, &str); 2]| {
        let [one, other] = sources.map(|(id, topic)| {
            format!("{id}: {{ connector: kafka, topic: {topic}, value: {{ format: json, schema: {{ n: int64 }} }} }}")
        });
        format!(
            "job: totals\n\
             sources: {{ {one}, {other} }}\n\
             steps: [{{ id: totals, key_by: _key, aggregate: {{ sum: sum(n) }} }}]\n\
             sinks: {{ out: {{ connector: kafka, topic: out, value: json }} }}\n"
        )
    };
    let mut driver = driver(&two([("a", "in"), ("b", "more")]), &["in", "more", "out"]);
    driver.start().expect("starts");
    epoch(&mut driver, "in", [record(1)]);
    for (sources, sum) in [([("b", "more"), ("a", "in")], 2), ([("c", "in"), ("b", "more")], 3)] {
        driver.stop().expect("ends well");
        driver.rebuild(build(&two(sources)));
        driver.start().expect("starts");
        driver.outputs("out");
        epoch(&mut driver, "in", [record(1)]);
        assert_eq!(texts(&driver.outputs("out")), [format!(r#"k={{"sum":{sum}}}"#)]);
    }
}
