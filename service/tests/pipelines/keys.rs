//! Bytes of keys, as docs/pipelines.md gives them, and formats of keys and values.
use crate::support::{driver, environment, epoch, load, run_records};
use keyfold::testing::TestRecord;

fn keyed(key_by: &str) -> String {
    format!(
        "job: keys\n\
         sources:\n  input:\n    connector: kafka\n    topic: in\n    value:\n      format: json\n      \
         schema: {{ s: string, n: int64, d: decimal(9,2), t: timestamp, b: bool, f: float64, x: bytes, st: {{ in: string }} }}\n\
         steps:\n  - {{ id: k, key_by: {key_by} }}\n  - {{ id: m, map: {{ one: 1 }} }}\n\
         sinks: {{ out: {{ connector: kafka, topic: out, value: json }} }}\n"
    )
}

fn key_of(key_by: &str, value: &str) -> Vec<u8> {
    let mut driver = driver(&keyed(key_by), &["in", "out"]);
    driver.start().expect("starts");
    epoch(&mut driver, "in", [TestRecord::new("k", value)]);
    let out = driver.outputs("out");
    assert_eq!(out.len(), 1);
    out[0].key.clone().expect("a key")
}

#[test]
fn one_column_is_written_as_other_programs_write_it() {
    let value =
        r#"{"s":"\u20ac","n":-2,"d":12.5,"t":"1970-01-01T00:00:01Z","b":true,"f":1e21,"x":"AP8=","st":{"in":"deep"}}"#;
    assert_eq!(key_of("s", value), "\u{20ac}".as_bytes());
    assert_eq!(key_of("n", value), (-2i64).to_be_bytes());
    assert_eq!(key_of("d", value), 1250i64.to_be_bytes());
    assert_eq!(key_of("t", value), 1000i64.to_be_bytes());
    assert_eq!(key_of("b", value), b"true");
    assert_eq!(key_of("f", value), b"1e+21");
    assert_eq!(key_of("x", value), [0, 255]);
    assert_eq!(key_of("st.in", value), b"deep");
    assert_eq!(key_of("{ length: length(s) }", value), 1i64.to_be_bytes());
    assert_eq!(key_of("_key", value), b"k");
}

#[test]
fn several_columns_are_a_json_array() {
    let value = r#"{"s":"a\"b","n":-2,"d":12.5,"t":"1970-01-01T00:00:01Z","b":false,"f":-0.0,"x":"AP8="}"#;
    let key = key_of("[s, n, d, t, b, f, x]", value);
    assert_eq!(
        String::from_utf8_lossy(&key),
        r#"["a\"b",-2,12.50,"1970-01-01T00:00:01.000Z",false,0.0,"AP8="]"#
    );
}

/// A word count as Kafka Streams has it: the key a string, the value a long.
#[test]
fn keys_and_values_of_single_formats() {
    let text = "job: formats\n\
         sources: { input: { connector: kafka, topic: in, key: long, value: string } }\n\
         steps:\n  - { id: counts, key_by: _key, aggregate: { n: count(), last: last(value) } }\n  \
         - { id: named, map: { id: _key + 1, last: last } }\n  - { id: by-id, key_by: id }\n\
         sinks:\n  out: { connector: kafka, topic: out, key: json, value: string }\n";
    let mut driver = driver(text, &["in", "out"]);
    driver.start().expect("starts");
    epoch(
        &mut driver,
        "in",
        [
            TestRecord::new(41i64.to_be_bytes(), "x"),
            TestRecord::new(41i64.to_be_bytes(), "y"),
        ],
    );
    let out = driver.outputs("out");
    let shown: Vec<String> = out
        .iter()
        .map(|r| format!("{} {}", r.key_text(), r.value_text()))
        .collect();
    assert_eq!(shown, [r#"{"id":42} x"#, r#"{"id":42} y"#]);
}

#[test]
fn a_key_of_json_has_its_fields_as_a_column() {
    let text = "job: json-keys\n\
         sources: { input: { connector: kafka, topic: in, key: { format: json, schema: { id: int64, region: string } }, value: string } }\n\
         steps:\n  - { id: m, map: { id: _key.id, region: _key.region, value: value } }\n\
         sinks: { out: { connector: kafka, topic: out, value: json } }\n";
    let records = [
        TestRecord::new(r#"{"id":7,"region":"eu"}"#, "v"),
        TestRecord::new("", "w").without_key(),
    ];
    let out = run_records(text, records);
    assert_eq!(out[0], r#"{"id":7,"region":"eu"}={"id":7,"region":"eu","value":"v"}"#);
    assert_eq!(out[1], r#"={"id":null,"region":null,"value":"w"}"#);
}

/// A `map` took the record's key away from group mode: rows of two topics could not be brought in line and meet under it.
#[test]
fn a_map_keeps_the_records_key() {
    let text = "job: keys\n\
         sources:\n  input: { connector: kafka, topic: in, value: long }\n  \
         more: { connector: kafka, topic: more, key: bytes, value: string }\n\
         steps:\n  - { id: doubled, from: input, map: { n: value * 2, _timestamp: _timestamp, _key: _key } }\n  \
         - { id: lengths, from: more, map: { _key: _key, n: length(value) } }\n  \
         - { id: totals, from: [doubled, lengths], key_by: _key, aggregate: { sum: sum(n), rows: count() } }\n\
         sinks: { out: { connector: kafka, topic: out, value: json } }\n";
    assert_eq!(load(text, &environment()).expect("good").record_keyed, Ok(()));
    let mut driver = driver(text, &["in", "more", "out"]);
    driver.start().expect("starts");
    for (topic, value) in [("in", 20i64.to_be_bytes().to_vec()), ("more", b"four".to_vec())] {
        driver.pipe(topic, TestRecord::new("k", value)).expect("taken");
        driver.barrier().expect("ends");
    }
    let out = crate::support::texts(&driver.outputs("out"));
    assert_eq!(out, [r#"k={"sum":40,"rows":1}"#, r#"k={"sum":44,"rows":2}"#]);
}
