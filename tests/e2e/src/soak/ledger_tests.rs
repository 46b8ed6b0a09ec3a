//! That the account notices what is wrong.
use super::*;

const SEED: u64 = 5;
const NUMBERS: u64 = 2000;

fn place(source: Source) -> Place {
    Place {
        format: Format::Json,
        source,
        partition: 0,
    }
}

/// The first record of this fate.
fn of(source: Source, fate: Fate) -> (u64, Made) {
    let all = (0..NUMBERS).map(|n| (n, make(SEED, place(source), n)));
    all.into_iter()
        .find(|(_, made)| made.fate == fate)
        .expect("one of them")
}

fn row(offset: u64, id: u64) -> Vec<u8> {
    format!(r#"{{"id":{id},"source":"soak-json-letters","partition":0,"offset":{offset},"amount":1}}"#).into_bytes()
}

fn letter((offset, made): &(u64, Made), step: &str) -> Letter {
    let offset = offset.to_string();
    let headers = [
        ("topic", "soak-json-letters"),
        ("partition", "0"),
        ("offset", &offset),
        ("step", step),
        ("reason", "decode"),
        ("error", "not JSON"),
        ("time", "1"),
    ];
    Letter {
        key: made.key.clone(),
        value: made.value.clone(),
        headers: headers.map(|(k, v)| (format!("keyfold.{k}"), v.to_owned())).into(),
    }
}

fn faults(takes: impl FnOnce(&mut Ledger)) -> (u64, String) {
    let mut ledger = Ledger::new(Format::Json, SEED, NUMBERS);
    takes(&mut ledger);
    let (faults, told) = ledger.faults();
    (faults, told.join("\n"))
}

#[test]
fn an_output_is_taken_once_and_only_of_a_record_that_may_have_one() {
    let (good, _) = of(Source::Letters, Fate::Output);
    assert_eq!(faults(|l| l.output(&row(good, good))).0, 0);
    let (count, told) = faults(|l| {
        l.output(&row(good, good));
        l.output(&row(good, good));
    });
    assert!(count == 1 && told.contains("it had Output before"), "{told}");
    let (count, told) = faults(|l| l.output(&row(good, good + 1)));
    assert!(count == 1 && told.contains("has the id"), "{told}");
    let (bad, _) = of(Source::Letters, Fate::Refused);
    assert_eq!(faults(|l| l.output(&row(bad, bad))).0, 1);
    assert_eq!(faults(|l| l.output(&row(NUMBERS, 1))).0, 1, "no such record");
    assert_eq!(faults(|l| l.output(b"{}")).0, 1);
}

#[test]
fn a_letter_has_the_original_bytes_all_headers_and_comes_from_the_step_that_refuses() {
    let bad = of(Source::Letters, Fate::Refused);
    assert_eq!(faults(|l| l.letter(&letter(&bad, "letters"))), (0, String::new()));
    assert_eq!(faults(|l| l.letter(&letter(&bad, "totals"))).0, 1);
    let good = of(Source::Letters, Fate::Output);
    assert_eq!(faults(|l| l.letter(&letter(&good, "letters"))).0, 1, "a good record");
    let mut other = letter(&bad, "letters");
    other.value = Some(b"other".to_vec());
    assert_eq!(faults(|l| l.letter(&other)).0, 1);
    let mut omitted = letter(&bad, "letters");
    omitted.value = None;
    omitted.headers.insert("keyfold.omitted".into(), "too large".into());
    assert_eq!(faults(|l| l.letter(&omitted)).0, 1, "it is not too large");
    for name in ["error", "time", "reason", "offset"] {
        let mut without = letter(&bad, "letters");
        without.headers.remove(&format!("keyfold.{name}"));
        assert_eq!(faults(|l| l.letter(&without)).0, 1, "{name}");
    }
}

#[test]
fn what_leaves_no_trace_is_lost_unless_it_may_have_been_skipped() {
    let mut ledger = Ledger::new(Format::Json, SEED, NUMBERS);
    assert_eq!(ledger.untraced(), NUMBERS * 4);
    let fates = |source, partition| {
        let place = Place {
            partition,
            ..place(source)
        };
        (0..NUMBERS).map(move |n| make(SEED, place, n).fate)
    };
    let good = |fate: &Fate| matches!(fate, Fate::Output | Fate::Summed);
    let of_both = |source| fates(source, 0).chain(fates(source, 1));
    let letters = of_both(Source::Letters).filter(|fate| good(fate) || *fate == Fate::Refused);
    let lost = letters.count() + of_both(Source::Skips).filter(good).count();
    assert_eq!(ledger.faults().0, lost as u64);
}
