//! Each kind of step, and how steps go together.
use crate::support::{driver, epoch, load, run, run_records, texts};
use keyfold::testing::TestRecord;

/// A pipeline from `in` to `out` with these steps.
fn pipeline(schema: &str, steps: &str) -> String {
    format!(
        "job: steps\n\
         sources:\n  input: {{ connector: kafka, topic: in, key: string, value: {{ format: json, schema: {schema} }} }}\n\
         steps:\n{steps}\n\
         sinks:\n  out: {{ connector: kafka, topic: out, value: json }}\n"
    )
}

#[test]
fn a_pipeline_without_steps_copies_and_leaves_out_what_the_schema_does_not_name() {
    let copy = pipeline("{ a: int64, b: { c: [string] } }", "");
    let out = run(
        &copy,
        &[r#"{"a":1,"x":true,"b":{"c":["p",null],"d":1}}"#, r#"{"b":null}"#],
    );
    assert_eq!(out, [r#"k={"a":1,"b":{"c":["p",null]}}"#, r#"k={"a":null,"b":null}"#]);
}

#[test]
fn a_filter_keeps_true_only() {
    let text = pipeline("{ n: int64 }", "  - { id: some, filter: n > 1 }");
    assert_eq!(
        run(&text, &[r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":null}"#, "{}"]),
        [r#"k={"n":2}"#]
    );
}

#[test]
fn a_map_makes_the_row_anew_or_keeps_what_it_does_not_name() {
    let schema = "{ a: int64, b: int64, c: string }";
    let row = r#"{"a":1,"b":2,"c":"x"}"#;
    let anew = pipeline(
        schema,
        "  - { id: m, map: { sum: a + b, a: c, key: _key, at: _offset } }",
    );
    assert_eq!(run(&anew, &[row]), [r#"k={"sum":3,"a":"x","key":"k","at":0}"#]);
    let kept = pipeline(schema, "  - { id: m, map: { '*': keep, b: a * 10, d: b } }");
    assert_eq!(run(&kept, &[row]), [r#"k={"a":1,"b":10,"c":"x","d":2}"#]);
    let twice = pipeline(
        schema,
        "  - { id: m, map: { '*': keep } }\n  - { id: n, map: { where: _topic || CAST(_partition AS string), a: a } }",
    );
    assert_eq!(run(&twice, &[row]), [r#"k={"where":"in0","a":1}"#]);
}

#[test]
fn a_flat_map_makes_a_row_for_each_element() {
    let text = pipeline(
        "{ id: int64, tags: [string], items: [{ price: decimal(9,2) }] }",
        "  - { id: each, flat_map: { array: tags, as: tag } }\n  - { id: m, map: { id: id, tag: tag, n: _offset } }",
    );
    let rows = [
        r#"{"id":1,"tags":["a",null,"b"]}"#,
        r#"{"id":2,"tags":[]}"#,
        r#"{"id":3}"#,
        r#"{"id":4,"tags":["c"]}"#,
    ];
    let expected = [
        r#"{"id":1,"tag":"a","n":0}"#,
        r#"{"id":1,"tag":null,"n":0}"#,
        r#"{"id":1,"tag":"b","n":0}"#,
        r#"{"id":4,"tag":"c","n":3}"#,
    ];
    assert_eq!(run(&text, &rows), expected.map(|v| format!("k={v}")));
    let structs = pipeline(
        "{ items: [{ price: decimal(9,2) }] }",
        "  - { id: each, flat_map: { array: items, as: item } }\n  - { id: m, map: { price: item.price } }",
    );
    assert_eq!(
        run(&structs, &[r#"{"items":[{"price":1.5},{}]}"#]),
        [r#"k={"price":1.50}"#, r#"k={"price":null}"#]
    );
}

#[test]
fn a_branch_takes_the_first_condition_that_is_true_and_drops_what_none_takes() {
    let text = |arms: &str| {
        format!(
            "job: branches\n\
             sources: {{ input: {{ connector: kafka, topic: in, value: {{ format: json, schema: {{ n: int64 }} }} }} }}\n\
             steps:\n  - {{ id: route, branch: {{ {arms} }} }}\n  - {{ id: tens, from: route.big, map: {{ big: n * 10 }} }}\n\
             sinks:\n  big: {{ connector: kafka, topic: out, value: json }}\n  \
             mid: {{ connector: kafka, topic: out, value: json, from: route.mid }}\n"
        )
    };
    let rows = [5, 50, 500].map(|n| format!("{{\"n\":{n}}}"));
    let rows: Vec<&str> = rows.iter().map(String::as_str).chain(["{}"]).collect();
    assert_eq!(
        run(&text("big: n > 100, mid: n > 10"), &rows),
        [r#"k={"n":50}"#, r#"k={"big":5000}"#]
    );
    let with_else = run(&text("big: n > 10, mid: else"), &rows);
    assert_eq!(
        with_else,
        [
            r#"k={"n":5}"#,
            r#"k={"big":500}"#,
            r#"k={"big":5000}"#,
            r#"k={"n":null}"#
        ]
    );
}

#[test]
fn steps_behind_an_aggregate_see_its_row_and_may_key_it_again() {
    let text = pipeline(
        "{ customer: string, region: string, amount: int64 }",
        "  - { id: totals, key_by: [region, customer], aggregate: { total: sum(amount) } }\n  \
         - { id: large, filter: total >= 10 }\n  \
         - { id: named, map: { region: upper(region), total: total } }\n  \
         - { id: regions, key_by: region, aggregate: { best: max(total), rows: count() } }\n  \
         - { id: shown, map: { '*': keep, twice: best * 2 } }",
    );
    let row = |c: &str, r: &str, n: i64| format!(r#"{{"customer":"{c}","region":"{r}","amount":{n}}}"#);
    let rows = [
        row("a", "eu", 6),
        row("a", "eu", 6),
        row("b", "us", 30),
        row("b", "eu", 11),
    ];
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let mut out = run(&text, &rows);
    out.sort();
    // Which of the two customers of a region comes first is left to the lanes.
    assert_eq!(out.len(), 3, "{out:?}");
    assert_eq!(out[2], r#"US={"region":"US","best":30,"rows":1,"twice":60}"#);
    assert!(out[1].ends_with(r#""best":12,"rows":2,"twice":24}"#), "{out:?}");
}

#[test]
fn a_key_by_of_its_own_serves_several_steps_and_the_same_key_is_not_exchanged_again() {
    let text = pipeline(
        "{ a: string, n: int64 }",
        "  - { id: by-a, key_by: { lower_a: lower(a) } }\n  \
         - { id: fresh, dedup: { within: 1m } }\n  \
         - { id: sums, aggregate: { sum: sum(n) } }\n  \
         - { id: again, key_by: lower_a, aggregate: { top: max(sum) } }",
    );
    let records = [("A", 1, 0), ("a", 2, 1000), ("a", 4, 60_000)];
    let records = records.map(|(a, n, at)| TestRecord::new("k", format!(r#"{{"a":"{a}","n":{n}}}"#)).at(at));
    let out = run_records(&text, records);
    assert_eq!(out, [r#"a={"lower_a":"a","top":1}"#, r#"a={"lower_a":"a","top":5}"#]);
}

#[test]
fn every_aggregate_gives_its_value_and_nulls_are_left_out() {
    let text = pipeline(
        "{ n: int64, s: string }",
        "  - id: all\n    key_by: _key\n    aggregate:\n      rows: count()\n      n: count(n)\n      sum: sum(n)\n      low: min(n)\n      \
         high: max(s)\n      mean: avg(n)\n      first: first(s)\n      last: last(n)\n      kinds: count_distinct(s)\n  \
         - { id: out, filter: rows >= 3 }",
    );
    let out = run(&text, &[r#"{"n":4,"s":"b"}"#, r#"{"s":"a"}"#, r#"{"n":1,"s":"b"}"#]);
    let expected = r#"k={"rows":3,"n":2,"sum":5,"low":1,"high":"b","mean":2.5,"first":"b","last":1,"kinds":2}"#;
    assert_eq!(out, [expected]);
}

#[test]
fn an_aggregate_that_refuses_a_row_has_changed_in_none_of_its_parts() {
    let text = pipeline(
        "{ n: int64, d: int64 }",
        "  - { id: sums, key_by: _key, aggregate: { rows: count(), total: sum(n), parts: sum(n / d) }, on_error: skip }",
    );
    let most = i64::MAX;
    let rows = [
        r#"{"n":6,"d":2}"#.to_owned(),
        r#"{"n":1,"d":0}"#.to_owned(),
        format!(r#"{{"n":{most},"d":1}}"#),
        r#"{"n":2,"d":1}"#.to_owned(),
    ];
    let out = run(&text, &rows.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        out,
        [
            r#"k={"rows":1,"total":6,"parts":3}"#,
            r#"k={"rows":2,"total":8,"parts":5}"#
        ]
    );
}

#[test]
fn an_epoch_gives_the_last_row_of_each_key() {
    let text = pipeline(
        "{ n: int64 }",
        "  - { id: sums, key_by: _key, aggregate: { sum: sum(n) }, emit: epoch }",
    );
    let mut driver = driver(&text, &["in", "out"]);
    driver.start().expect("starts");
    let record = |key: &str, n: i64| TestRecord::new(key, format!(r#"{{"n":{n}}}"#));
    epoch(&mut driver, "in", [record("a", 1), record("b", 5), record("a", 2)]);
    let mut out = texts(&driver.outputs("out"));
    out.sort();
    assert_eq!(out, [r#"a={"sum":3}"#, r#"b={"sum":5}"#]);
    epoch(&mut driver, "in", [record("a", 4)]);
    assert_eq!(texts(&driver.outputs("out")), [r#"a={"sum":7}"#]);
}

#[test]
fn sources_whose_schemas_agree_are_merged_whatever_the_order_of_their_columns() {
    let text = "job: merged\n\
         sources:\n  \
         left: { connector: kafka, topic: in, key: string, value: { format: json, schema: { a: int64, b: string } } }\n  \
         right: { connector: kafka, topic: more, key: string, value: { format: json, schema: { b: string, a: int64 } } }\n\
         steps:\n  - { id: all, filter: a > 0 }\n  - { id: named, map: { b: b, a: a, from: _topic } }\n  - { id: copy, from: right, map: { only: a } }\n\
         sinks:\n  out: { connector: kafka, topic: out, value: json, from: [named, other] }\n";
    let text = text.replace("from: [named, other]", "from: named");
    let text = text.replace(
        "sinks:\n",
        "sinks:\n  copy: { connector: kafka, topic: copies, value: long, from: copy }\n",
    );
    let mut driver = driver(&text, &["in", "more", "out", "copies"]);
    driver.start().expect("starts");
    driver
        .pipe("more", TestRecord::new("k", r#"{"a":2,"b":"r"}"#))
        .expect("taken");
    epoch(&mut driver, "in", [TestRecord::new("k", r#"{"a":1,"b":"l"}"#)]);
    let mut out = texts(&driver.outputs("out"));
    out.sort();
    assert_eq!(
        out,
        [r#"k={"b":"l","a":1,"from":"in"}"#, r#"k={"b":"r","a":2,"from":"more"}"#]
    );
    assert_eq!(driver.outputs("copies").len(), 1);
}

/// Steps that were merged read each other's rows by name, and a branch may go on in two places.
#[test]
fn branches_are_merged_again() {
    let text = pipeline(
        "{ n: int64 }",
        "  - { id: route, branch: { odd: n % 2 = 1, even: else } }\n  \
         - { id: odd, from: route.odd, map: { kind: \"'odd'\", n: n } }\n  \
         - { id: even, from: route.even, map: { n: n, kind: \"'even'\" } }\n  \
         - { id: both, from: [odd, even], filter: n > 0 }",
    );
    let mut out = run(&text, &[r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":0}"#]);
    out.sort();
    assert_eq!(out, [r#"k={"kind":"even","n":2}"#, r#"k={"kind":"odd","n":1}"#]);
}

/// A column that nobody reads is not decoded: what it holds is not looked at beyond its syntax.
#[test]
fn columns_that_nobody_reads_are_not_decoded() {
    let read = pipeline("{ n: int64, other: int64 }", "  - { id: m, map: { n: n } }");
    assert_eq!(run(&read, &[r#"{"n":1,"other":"no number"}"#]), [r#"k={"n":1}"#]);
    let loaded = load(&read, &crate::support::environment()).expect("good");
    assert!(
        loaded.describe().text().contains("not read: other"),
        "{}",
        loaded.describe().text()
    );
}

#[test]
fn dedup_out_of_order_and_without_a_timestamp() {
    let text = pipeline(
        "{ n: int64 }",
        "  - { id: once, key_by: _key, dedup: { within: 10s }, on_error: skip }",
    );
    let times = [100_000, 95_000, 105_000, 90_000, 80_000, 80_001, 109_999, 110_000, -1];
    let records = (0..)
        .zip(times)
        .map(|(n, at)| TestRecord::new("k", format!(r#"{{"n":{n}}}"#)).at(at));
    // 90 s and earlier are too far before 100 s to be told from other rows, and are not remembered.
    let expected = [0, 3, 4, 5, 7].map(|n| format!(r#"k={{"n":{n}}}"#));
    assert_eq!(run_records(&text, records.collect::<Vec<_>>()), expected);
}

#[test]
fn tombstones_are_refused_unless_the_source_skips_them() {
    let mut driver = driver(&pipeline("{ n: int64 }", ""), &["in", "out"]);
    driver.start().expect("starts");
    driver.pipe("in", TestRecord::new("k", "").tombstone()).expect("taken");
    let error = driver.barrier().expect_err("stops").to_string();
    assert!(
        error.contains("in-0 offset 0: step input: decode: there is no value (a tombstone)"),
        "{error}"
    );
    let skipping = pipeline("{ n: int64 }", "  - { id: rows, map: { one: 1 } }")
        .replace("key: string", "key: string, tombstones: skip");
    let records = [TestRecord::new("k", "").tombstone(), TestRecord::new("k", "{}")];
    assert_eq!(run_records(&skipping, records), [r#"k={"one":1}"#]);
}

#[test]
fn a_row_without_a_key_is_refused_and_the_policy_of_the_step_holds() {
    let text = pipeline(
        "{ c: string }",
        "  - { id: counts, key_by: c, aggregate: { n: count() }, on_error: skip }",
    );
    assert_eq!(
        run(&text, &[r#"{"c":"a"}"#, "{}", r#"{"c":""}"#]),
        [r#"a={"c":"a","n":1}"#, r#"={"c":"","n":1}"#]
    );
    let record_key = pipeline(
        "{ c: string }",
        "  - { id: counts, key_by: _key, aggregate: { n: count() }, on_error: skip }",
    );
    let records = [TestRecord::new("", "{}").without_key(), TestRecord::new("a", "{}")];
    assert_eq!(run_records(&record_key, records), [r#"a={"n":1}"#]);
}

/// A column of a key that nobody reads any more was dropped, the key with it, and a file that is right was refused for want of the key's other
/// columns.
#[test]
fn a_key_of_several_columns_is_kept_as_long_as_one_of_them_is_read() {
    const SOURCE: &str = "job: keys\nsources: { in: { connector: kafka, topic: in, value: { format: json, schema: \
                          { customer: string, region: string, tags: [string], n: int64 } } } }\n";
    let value = r#"{"customer":"ada","region":"eu","tags":["x","y"],"n":3}"#;
    let text = format!(
        "{SOURCE}steps:\n  - {{ id: by, key_by: [customer, region] }}\n  - {{ id: tagged, flat_map: {{ array: tags, as: tag }} }}\n  \
         - {{ id: totals, aggregate: {{ n: count() }} }}\n  - {{ id: out, map: {{ customer: customer, n: n }} }}\n\
         sinks: {{ s: {{ connector: kafka, topic: out, value: json }} }}\n"
    );
    assert_eq!(
        run(&text, &[value]),
        [
            r#"["ada","eu"]={"customer":"ada","n":1}"#,
            r#"["ada","eu"]={"customer":"ada","n":2}"#
        ]
    );
    let text = format!(
        "{SOURCE}steps:\n  - {{ id: totals, key_by: [customer, region], aggregate: {{ total: sum(n) }} }}\n  \
         - {{ id: who, map: {{ customer: customer }} }}\n\
         sinks:\n  a: {{ connector: kafka, topic: out, value: json, from: who }}\n  \
         b: {{ connector: kafka, topic: longs, value: long, from: totals }}\n"
    );
    let mut driver = driver(&text, &["in", "out", "longs"]);
    driver.start().expect("starts");
    epoch(&mut driver, "in", [TestRecord::new("k", value)]);
    assert_eq!(texts(&driver.outputs("out")), [r#"["ada","eu"]={"customer":"ada"}"#]);
    assert_eq!(
        driver.outputs("longs")[0].value.as_deref(),
        Some(&3i64.to_be_bytes()[..])
    );
}

/// A record of a megabyte with a hundred thousand elements would have been rows of a hundred gigabytes, all in one epoch.
#[test]
fn elements_that_would_repeat_too_much_are_refused() {
    let text = "job: wide\nsources: { in: { connector: kafka, topic: in, value: { format: json, schema: { blob: string, tags: [string] } } } }\n\
         steps:\n  - { id: tagged, flat_map: { array: tags, as: tag }, on_error: skip }\n\
         sinks: { s: { connector: kafka, topic: out, value: json } }\n";
    let blob = "b".repeat(900_000);
    let tags = vec!["\"t\""; 100].join(",");
    let wide = format!(r#"{{"blob":"{blob}","tags":[{tags}]}}"#);
    let outputs = run(text, &[&wide, r#"{"blob":"b","tags":["t"]}"#]);
    assert_eq!(outputs, [r#"k={"blob":"b","tags":["t"],"tag":"t"}"#]);
}

/// A record without a timestamp was of the last millisecond of 1969.
#[test]
fn a_record_without_a_timestamp_has_none() {
    let text = "job: times\nsources: { in: { connector: kafka, topic: in, value: { format: json, schema: { n: int64 } } } }\n\
         steps:\n  - { id: timed, map: { n: n, at: _timestamp } }\n\
         sinks: { s: { connector: kafka, topic: out, value: json } }\n";
    let outputs = run_records(text, [TestRecord::new("k", r#"{"n":-0}"#).at(-1)]);
    assert_eq!(outputs, [r#"k={"n":0,"at":null}"#]);
}
