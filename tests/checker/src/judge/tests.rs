use super::*;

fn input(judge: &mut Judge, partition: i32, offset: i64, key: &str, value: i64) {
    judge.input(
        partition,
        offset,
        Some(key.as_bytes()),
        Some(value.to_string().as_bytes()),
    );
}

fn output(judge: &mut Judge, place: (i32, i64), key: &str, seq: u64, sum: i64, source: (i32, i64)) {
    let value = format!(r#"{{"seq":{seq},"sum":{sum},"p":{},"o":{}}}"#, source.0, source.1);
    judge.output(place, Some(key.as_bytes()), Some(value.as_bytes()));
}

/// Three records of two keys, the first two answered.
fn two_answered() -> Judge {
    let mut judge = Judge::new();
    input(&mut judge, 0, 0, "a", 5);
    input(&mut judge, 0, 1, "a", 7);
    input(&mut judge, 1, 0, "b", 1);
    output(&mut judge, (0, 0), "a", 1, 5, (0, 0));
    output(&mut judge, (0, 1), "a", 2, 12, (0, 1));
    judge
}

fn judged(judge: Judge) -> (u64, u64, u64) {
    let report = judge.finish();
    (report.counts.lost, report.counts.duplicated, report.counts.stale)
}

#[test]
fn a_right_output_is_ok() {
    let mut judge = two_answered();
    output(&mut judge, (1, 0), "b", 1, 1, (1, 0));
    let report = judge.finish();
    assert!(report.ok(), "{:?}", report.offenders);
    assert_eq!(report.to_string(), "in=3 out=3 lost=0 duplicated=0 stale=0 verdict=OK");
}

#[test]
fn a_missing_output_is_lost() {
    let report = two_answered().finish();
    assert_eq!(
        report.to_string(),
        "in=3 out=2 lost=1 duplicated=0 stale=0 verdict=FAILED"
    );
    assert!(
        report.offenders[0].detail.contains("input 1@0 key b"),
        "{:?}",
        report.offenders
    );
}

#[test]
fn a_second_output_is_duplicated_and_seen_at_once() {
    let mut judge = two_answered();
    output(&mut judge, (0, 2), "a", 2, 12, (0, 1));
    assert_eq!(judge.counts().duplicated, 1);
    assert!(judge.first_offender().is_some_and(|o| o.verdict == Verdict::Duplicated));
    output(&mut judge, (1, 0), "b", 1, 1, (1, 0));
    assert_eq!(judged(judge), (0, 1, 0));
}

#[test]
fn a_wrong_sum_and_a_wrong_sequence_are_stale() {
    for (seq, sum) in [(1, 2), (2, 1), (0, 0)] {
        let mut judge = two_answered();
        output(&mut judge, (1, 0), "b", seq, sum, (1, 0));
        assert_eq!(judge.counts().stale, 1);
        assert_eq!(judged(judge), (0, 0, 1));
    }
}

#[test]
fn a_fold_that_forgot_a_record_is_stale_even_if_all_are_answered() {
    let mut judge = Judge::new();
    input(&mut judge, 0, 0, "a", 5);
    input(&mut judge, 0, 1, "a", 7);
    output(&mut judge, (0, 0), "a", 1, 5, (0, 0));
    output(&mut judge, (0, 1), "a", 1, 7, (0, 1));
    assert_eq!(judged(judge), (0, 0, 1));
}

#[test]
fn outputs_of_a_key_out_of_order_are_stale() {
    let mut judge = Judge::new();
    input(&mut judge, 0, 0, "a", 5);
    input(&mut judge, 0, 1, "a", 7);
    output(&mut judge, (0, 0), "a", 2, 12, (0, 1));
    output(&mut judge, (0, 1), "a", 1, 5, (0, 0));
    assert_eq!(judged(judge), (0, 0, 1));
}

#[test]
fn a_key_in_two_output_partitions_is_stale() {
    let mut judge = Judge::new();
    input(&mut judge, 0, 0, "a", 5);
    input(&mut judge, 0, 1, "a", 7);
    output(&mut judge, (0, 0), "a", 1, 5, (0, 0));
    output(&mut judge, (1, 0), "a", 2, 12, (0, 1));
    assert_eq!(judged(judge), (0, 0, 1));
}

#[test]
fn an_output_without_input_or_of_another_key_is_stale() {
    let mut judge = two_answered();
    output(&mut judge, (1, 0), "c", 1, 1, (1, 0));
    assert_eq!(judged(judge), (0, 0, 1));
    let mut judge = two_answered();
    output(&mut judge, (1, 0), "b", 1, 1, (1, 0));
    output(&mut judge, (1, 1), "b", 2, 2, (1, 77));
    output(&mut judge, (2, 0), "x", 1, 1, (9, 0));
    assert_eq!(judged(judge), (0, 0, 2));
}

#[test]
fn an_unreadable_output_is_stale_and_loses_its_record() {
    let mut judge = two_answered();
    judge.output((1, 0), Some(b"b"), Some(b"{\"seq\":1"));
    assert_eq!(judged(judge), (1, 0, 1));
}

#[test]
fn outputs_may_come_before_their_inputs_are_read() {
    let mut judge = Judge::new();
    output(&mut judge, (0, 0), "a", 1, 5, (0, 3));
    output(&mut judge, (0, 1), "a", 2, 12, (0, 9));
    output(&mut judge, (0, 2), "a", 2, 12, (0, 9));
    assert!(judge.counts().ok());
    input(&mut judge, 0, 3, "a", 5);
    assert!(judge.counts().ok());
    input(&mut judge, 0, 9, "a", 7);
    assert_eq!(judge.counts().duplicated, 1);
    assert_eq!(judged(judge), (0, 1, 0));
}

#[test]
fn gaps_are_no_records() {
    let mut judge = Judge::new();
    input(&mut judge, 0, 10, "a", 5);
    input(&mut judge, 0, 20, "a", 7);
    output(&mut judge, (0, 0), "a", 1, 5, (0, 10));
    output(&mut judge, (0, 1), "a", 2, 12, (0, 20));
    output(&mut judge, (0, 2), "b", 1, 1, (0, 15));
    output(&mut judge, (0, 3), "c", 1, 1, (0, 1));
    assert_eq!(judged(judge), (0, 0, 2));
}

#[test]
fn input_against_the_rules_fails_the_verdict() {
    let mut judge = Judge::new();
    judge.input(0, 0, Some(b"a"), Some(b"five"));
    judge.input(0, 1, None, Some(b"5"));
    input(&mut judge, 0, 2, "a", 1);
    input(&mut judge, 1, 0, "a", 1);
    input(&mut judge, 0, 2, "a", 1);
    output(&mut judge, (0, 0), "a", 1, 1, (0, 2));
    let report = judge.finish();
    assert_eq!(report.counts.input_faults, 4);
    assert!(!report.ok());
}

#[test]
fn only_the_first_offenders_are_kept_and_all_are_counted() {
    let mut judge = Judge::new();
    (0..50).for_each(|o| input(&mut judge, 0, o, "a", 1));
    let report = judge.finish();
    assert_eq!((report.counts.lost, report.offenders.len()), (50, OFFENDERS_MAX));
}
