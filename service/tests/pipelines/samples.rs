//! The pipelines of `config/pipelines`, with all that they write.
use crate::support::{build, epoch, root, texts};
use keyfold::testing::{TestDriver, TestRecord};

fn sample(name: &str, topics: &[&str]) -> TestDriver {
    let path = root().join("config/pipelines").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut driver = TestDriver::new(build(&text));
    topics.iter().for_each(|topic| driver.broker().create_topic(topic, 1));
    driver.start().expect("starts");
    driver
}

#[test]
fn word_count_counts_words() {
    let mut driver = sample("word-count.yaml", &["lines", "word-counts"]);
    let lines = ["Fold the  keys", "the keys fold, the state stays"];
    epoch(
        &mut driver,
        "lines",
        lines.map(|line| TestRecord::new("", line).without_key()),
    );
    let counts = driver.outputs("word-counts");
    let count = |r: &TestRecord| i64::from_be_bytes(r.value.clone().expect("a value").try_into().expect("8 bytes"));
    let mut counts: Vec<(String, i64)> = counts.iter().map(|r| (r.key_text(), count(r))).collect();
    counts.sort();
    let expected = [
        ("fold", 1),
        ("fold,", 1),
        ("keys", 1),
        ("keys", 2),
        ("state", 1),
        ("stays", 1),
        ("the", 1),
        ("the", 2),
        ("the", 3),
    ];
    assert_eq!(counts, expected.map(|(word, n)| (word.to_owned(), n)));
}

#[test]
fn customer_totals_keeps_them_with_every_order() {
    let mut driver = sample("customer-totals.yaml", &["orders", "customer-totals"]);
    let orders = [
        r#"{"customer":"ada","amount":12.50,"at":"2026-03-01T10:00:00Z"}"#,
        r#"{"customer":"bob","amount":"7","at":1772359200000,"note":"not read"}"#,
        r#"{"customer":"ada","amount":0,"at":"2026-03-01T10:00:01Z"}"#,
        r#"{"amount":3}"#,
        r#"{"customer":"ada","amount":0.25,"at":null}"#,
    ];
    epoch(
        &mut driver,
        "orders",
        orders.map(|order| TestRecord::new("order", order)),
    );
    let mut totals = texts(&driver.outputs("customer-totals"));
    totals.sort();
    let expected = [
        r#"ada={"customer":"ada","orders":1,"total":12.50,"largest":12.50,"last_at":"2026-03-01T10:00:00.000Z"}"#,
        r#"ada={"customer":"ada","orders":2,"total":12.75,"largest":12.50,"last_at":"2026-03-01T10:00:00.000Z"}"#,
        r#"bob={"customer":"bob","orders":1,"total":7.00,"largest":7.00,"last_at":"2026-03-01T10:00:00.000Z"}"#,
    ];
    assert_eq!(totals, expected);
    driver.restart().expect("starts");
    epoch(
        &mut driver,
        "orders",
        [TestRecord::new("order", r#"{"customer":"bob","amount":1,"at":0}"#)],
    );
    let totals = texts(&driver.outputs("customer-totals"));
    assert_eq!(
        totals,
        [r#"bob={"customer":"bob","orders":2,"total":8.00,"largest":7.00,"last_at":"1970-01-01T00:00:00.000Z"}"#]
    );
}

#[test]
fn dedup_lets_each_order_through_once_in_ten_minutes() {
    let mut driver = sample("dedup.yaml", &["orders", "unique-orders"]);
    let minute = 60_000;
    let order = |id: &str, n: u32, at: i64| {
        let value = format!(r#"{{"order_id":"{id}","customer":"ada","amount":{n}}}"#);
        TestRecord::new(format!("key-{n}"), value).at(1_767_000_000_000 + at)
    };
    let first = [
        order("o1", 1, 0),
        order("o1", 2, 5 * minute),
        order("o2", 3, 5 * minute),
        order("o1", 4, 10 * minute),
        order("o9", 9, 0).tombstone(),
    ];
    epoch(&mut driver, "orders", first);
    let mut unique = texts(&driver.outputs("unique-orders"));
    unique.sort();
    let expected = [("o1", 1), ("o2", 3), ("o1", 4)];
    let shown = |(id, n): (&str, u32)| format!(r#"key-{n}={{"order_id":"{id}","customer":"ada","amount":{n}.00}}"#);
    assert_eq!(unique, expected.map(shown));
    assert_eq!(
        driver.metrics().expect("runs").bad_records("tombstone"),
        1,
        "the tombstone"
    );
    driver.restart().expect("starts");
    epoch(
        &mut driver,
        "orders",
        [order("o2", 5, 14 * minute), order("o2", 6, 15 * minute)],
    );
    assert_eq!(texts(&driver.outputs("unique-orders")), [shown(("o2", 6))]);
}

#[test]
fn dead_letters_are_kept_with_their_provenance_in_the_same_epoch() {
    let topics = ["payments", "payments-bad", "large-payments", "small-totals"];
    let mut driver = sample("dead-letters.yaml", &topics);
    let payments = [
        r#"{"account":"acc-1","amount":100,"parts":4}"#,
        r#"{"account":"acc-1","amount":100,"parts":0}"#,
        r#"{"account":"acc-x1","amount":1,"parts":1}"#,
        r#"{"account":"acc-2","amount":"much","parts":1}"#,
        r#"{"account":"acc-2","amount":1000,"parts":2}"#,
        r#"{"account":"acc-1","amount":1,"parts":2}"#,
    ];
    let records = payments.map(|value| TestRecord::new("pay", value).with_header("trace", "t1"));
    epoch(&mut driver, "payments", records);
    assert_eq!(
        texts(&driver.outputs("large-payments")),
        [r#"pay={"account":"acc-2","share":500.00}"#]
    );
    let totals = texts(&driver.outputs("small-totals"));
    assert_eq!(
        totals,
        [r#"acc-1={"account":"acc-1","payments":2,"total":25.50}"#],
        "the last of the epoch"
    );
    let letters = driver.outputs("payments-bad");
    let mut shown = Vec::new();
    for letter in &letters {
        let header = |name: &str| letter.header(name).unwrap_or_default();
        let names = [
            "trace",
            "keyfold.topic",
            "keyfold.partition",
            "keyfold.offset",
            "keyfold.step",
            "keyfold.reason",
        ];
        shown.push(format!("{} {}", names.map(header).join(" "), letter.value_text()));
        assert!(!header("keyfold.time").is_empty());
    }
    let expected = [
        format!("t1 payments 0 1 shares division_by_zero {}", payments[1]),
        format!("t1 payments 0 3 payments decode {}", payments[3]),
    ];
    assert_eq!(shown, expected);
    let error = |i: usize| letters[i].header("keyfold.error").unwrap_or_default();
    assert_eq!(error(0), "division by zero in `amount / parts`");
    assert!(error(1).starts_with("amount: "), "{}", error(1));
    let metrics = driver.metrics().expect("runs");
    let counts = ["division_by_zero", "decode", "cast"].map(|reason| metrics.bad_records(reason));
    assert_eq!(counts, [1, 1, 1]);
}
