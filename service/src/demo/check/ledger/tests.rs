use super::*;

/// Two partitions, two customers: a has 5 + 7 + 11, b has 100.
fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    for (partition, offset, customer, amount) in [(0, 0, "a", 5), (0, 40, "b", 100), (1, 0, "a", 7), (1, 40, "a", 11)] {
        ledger.order(Order {
            partition,
            offset,
            customer: customer.to_owned(),
            amount,
        });
    }
    ledger
}

fn output(place: (i32, i64), customer: &str, orders: u64, cents: i64) -> Output {
    Output {
        customer: customer.to_owned(),
        orders,
        cents,
        partition: place.0,
        offset: place.1,
    }
}

fn right() -> Vec<Output> {
    vec![
        output((1, 0), "a", 1, 7),
        output((0, 40), "b", 1, 100),
        output((0, 0), "a", 2, 12),
        output((1, 40), "a", 3, 23),
    ]
}

fn judge(outputs: &[Output]) -> Verdict {
    let mut ledger = ledger();
    outputs.iter().for_each(|output| ledger.output(output));
    ledger.close()
}

#[test]
fn one_right_output_for_each_order_is_equal() {
    let verdict = judge(&right());
    assert!(verdict.is_equal(), "{verdict:?}");
    assert_eq!((verdict.orders, verdict.outputs, verdict.cents()), (4, 4, 123));
}

#[test]
fn a_lost_output_is_found_even_when_the_last_totals_are_right() {
    let mut outputs = right();
    outputs.remove(2);
    let verdict = judge(&outputs);
    assert!(!verdict.is_equal());
    assert_eq!((verdict.lost, verdict.unequal), (1, 0));
}

#[test]
fn a_lost_last_output_shows_in_the_totals() {
    let mut outputs = right();
    outputs.pop();
    let verdict = judge(&outputs);
    assert_eq!(
        (verdict.lost, verdict.wrong, verdict.unequal, verdict.is_equal()),
        (1, 0, 1, false)
    );
}

#[test]
fn a_duplicated_output_is_found() {
    let mut outputs = right();
    outputs.push(outputs[3].clone());
    let verdict = judge(&outputs);
    assert!(!verdict.is_equal());
    assert_eq!((verdict.lost, verdict.duplicated, verdict.wrong), (0, 1, 0));
}

#[test]
fn an_order_that_is_folded_twice_is_found() {
    let mut outputs = right();
    outputs.push(output((1, 40), "a", 4, 34));
    assert_eq!(judge(&outputs).duplicated, 1);
}

#[test]
fn wrong_totals_are_found() {
    for (orders, cents) in [(3, 24), (2, 23), (4, 23)] {
        let mut outputs = right();
        outputs[3] = output((1, 40), "a", orders, cents);
        let verdict = judge(&outputs);
        assert!(!verdict.is_equal());
        assert_eq!((verdict.wrong, verdict.unequal), (1, 1));
        assert!(verdict.first_wrong.is_some());
    }
}

#[test]
fn an_output_for_another_customers_order_or_for_none_is_wrong() {
    for place in [(0, 40), (7, 0)] {
        let mut outputs = right();
        outputs.push(output(place, "a", 4, 123));
        let verdict = judge(&outputs);
        assert_eq!((verdict.wrong, verdict.is_equal()), (1, false));
    }
}

#[test]
fn outputs_that_cannot_be_read_and_an_empty_input_are_not_equal() {
    let mut ledger = ledger();
    right().iter().for_each(|output| ledger.output(output));
    ledger.unreadable("no JSON".to_owned());
    assert!(!ledger.close().is_equal());
    assert!(!Ledger::default().close().is_equal());
}
