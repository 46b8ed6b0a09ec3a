use std::sync::Arc;

use proptest::prelude::*;

use super::super::{Accumulator, Aggregate, DISTINCT_BYTES_MAX, DISTINCT_MAX};
use super::{decimal, field, shown, text};
use crate::value::{Row, Schema, Type, Value};

/// Over one field `x` of the type.
fn compiled(call: &str, ty: &Type) -> Aggregate {
    let schema = Schema::new(vec![field("x", ty.clone())]);
    Aggregate::compile(call, &schema).unwrap_or_else(|error| panic!("{call} over {ty}: {error:?}"))
}

/// The value and its type after rows with these values of `x`.
fn folded(call: &str, ty: &Type, values: &[Value]) -> String {
    let aggregate = compiled(call, ty);
    let mut accumulator = aggregate.start();
    for value in values {
        aggregate.add(&mut accumulator, &Row(vec![value.clone()])).unwrap();
    }
    format!(
        "{} {}",
        shown(&aggregate.value(&accumulator), aggregate.ty()),
        aggregate.ty()
    )
}

#[test]
fn aggregates_leave_out_null_as_sql_does() {
    let int = |value: i64| Value::Int(value);
    let dec = |value: i64| Value::Decimal(value);
    let ints = [int(3), Value::Null, int(-5), int(3)];
    let decimals = [dec(1050), Value::Null, dec(200), dec(-1)];
    let floats = [
        Value::Float(1.5),
        Value::Float(f64::NAN),
        Value::Null,
        Value::Float(-2.0),
    ];
    let texts = [text("b"), text("a"), Value::Null, text("b")];
    let bools = [Value::Bool(true), Value::Bool(false)];
    let times = [Value::Timestamp(1000), Value::Timestamp(0)];
    let list = Type::Array(Arc::new(Type::Int));
    let lists = [
        Value::Null,
        Value::Array([int(1), Value::Null].into()),
        Value::Array([].into()),
    ];
    for (call, ty, values, wanted) in [
        ("count()", Type::Int, &ints[..], "4 int64"),
        ("count(*)", Type::Int, &ints, "4 int64"),
        ("count(x)", Type::Int, &ints, "3 int64"),
        ("COUNT(DISTINCT x)", Type::Int, &ints, "2 int64"),
        ("count_distinct(x)", Type::Int, &ints, "2 int64"),
        ("sum(x)", Type::Int, &ints, "1 int64"),
        ("sum(x * 2)", Type::Int, &ints, "2 int64"),
        ("min(x)", Type::Int, &ints, "-5 int64"),
        ("max(x)", Type::Int, &ints, "3 int64"),
        ("avg(x)", Type::Int, &ints, "0.3333333333333333 float64"),
        ("first(x)", Type::Int, &ints, "3 int64"),
        ("last(x)", Type::Int, &ints, "3 int64"),
        ("last(x)", Type::Int, &ints[..2], "3 int64"),
        ("count()", Type::Int, &[], "0 int64"),
        ("count(x)", Type::Int, &[Value::Null], "0 int64"),
        ("sum(x)", Type::Int, &[Value::Null], "NULL int64"),
        ("min(x)", Type::Int, &[], "NULL int64"),
        ("avg(x)", Type::Int, &[Value::Null], "NULL float64"),
        ("first(x)", Type::Int, &[], "NULL int64"),
        ("count_distinct(x)", Type::Int, &[], "0 int64"),
        ("sum(x)", decimal(10, 2), &decimals, "12.49 decimal(18,2)"),
        ("avg(x)", decimal(10, 2), &decimals, "4.163333 decimal(18,6)"),
        ("avg(x)", decimal(18, 2), &decimals, "4.16 decimal(18,2)"),
        ("avg(x)", decimal(14, 2), &decimals, "4.163333 decimal(18,6)"),
        ("avg(x)", decimal(15, 2), &decimals, "4.16333 decimal(18,5)"),
        ("avg(x)", decimal(18, 9), &decimals[..1], "0.000001050 decimal(18,9)"),
        ("min(x)", decimal(10, 2), &decimals, "-0.01 decimal(10,2)"),
        ("max(x)", decimal(10, 2), &decimals, "10.50 decimal(10,2)"),
        (
            "sum(CASE WHEN x > 0 THEN x END)",
            decimal(10, 2),
            &decimals,
            "12.50 decimal(18,2)",
        ),
        ("sum(x)", Type::Float, &floats, "NaN float64"),
        ("min(x)", Type::Float, &floats, "-2.0 float64"),
        ("max(x)", Type::Float, &floats, "NaN float64"),
        ("avg(x)", Type::Float, &floats[..1], "1.5 float64"),
        ("sum(x)", Type::Float, &[], "NULL float64"),
        (
            "count(DISTINCT x)",
            Type::Float,
            &[
                Value::Float(0.0),
                Value::Float(-0.0),
                Value::Float(f64::NAN),
                Value::Float(-f64::NAN),
            ],
            "2 int64",
        ),
        ("min(x)", Type::String, &texts, "'a' string"),
        ("max(x)", Type::String, &texts, "'b' string"),
        ("first(x)", Type::String, &texts, "'b' string"),
        ("last(upper(x))", Type::String, &texts, "'B' string"),
        ("count(DISTINCT x)", Type::String, &texts, "2 int64"),
        ("max(length(x))", Type::String, &texts, "1 int64"),
        ("min(x)", Type::Bool, &bools, "FALSE bool"),
        ("max(x)", Type::Timestamp, &times, "1970-01-01T00:00:01.000Z timestamp"),
        ("last(x)", Type::Timestamp, &times, "1970-01-01T00:00:00.000Z timestamp"),
        ("first(x)", list.clone(), &lists, "[1, NULL] array(int64)"),
        ("last(x)", list.clone(), &lists, "[] array(int64)"),
        ("count(x)", list.clone(), &lists, "2 int64"),
    ] {
        assert_eq!(folded(call, &ty, values), wanted, "{call} over {ty}");
    }
}

/// A row is refused and the accumulator is as it was.
#[track_caller]
fn refuses(aggregate: &Aggregate, accumulator: &mut Accumulator, value: Value, reason: &str) {
    let before = accumulator.clone();
    let error = aggregate.add(accumulator, &Row(vec![value])).unwrap_err();
    assert_eq!(error.reason().label(), reason, "{error}");
    assert_eq!(*accumulator, before);
}

#[test]
fn what_is_refused_leaves_the_accumulator_as_it_was() {
    let sum = compiled("sum(x)", &Type::Int);
    let mut accumulator = sum.start();
    sum.add(&mut accumulator, &Row(vec![Value::Int(i64::MAX)])).unwrap();
    refuses(&sum, &mut accumulator, Value::Int(1), "overflow");
    sum.add(&mut accumulator, &Row(vec![Value::Int(-1)])).unwrap();
    assert_eq!(sum.value(&accumulator), Value::Int(i64::MAX - 1));

    let sum = compiled("sum(x)", &decimal(18, 2));
    let mut accumulator = sum.start();
    sum.add(&mut accumulator, &Row(vec![Value::Decimal(999_999_999_999_999_999)]))
        .unwrap();
    refuses(&sum, &mut accumulator, Value::Decimal(1), "overflow");

    let sum = compiled("sum(x)", &Type::Float);
    let mut accumulator = sum.start();
    sum.add(&mut accumulator, &Row(vec![Value::Float(f64::MAX)])).unwrap();
    refuses(&sum, &mut accumulator, Value::Float(f64::MAX), "overflow");

    let avg = compiled("avg(x)", &decimal(18, 0));
    let mut accumulator = avg.start();
    for _ in 0..1000 {
        avg.add(&mut accumulator, &Row(vec![Value::Decimal(999_999_999_999_999_999)]))
            .unwrap();
    }
    assert_eq!(avg.value(&accumulator), Value::Decimal(999_999_999_999_999_999));

    let sum = compiled("sum(10 / x)", &Type::Int);
    let mut accumulator = sum.start();
    refuses(&sum, &mut accumulator, Value::Int(0), "division_by_zero");
    let first = compiled("first(10 / x)", &Type::Int);
    let mut accumulator = first.start();
    first.add(&mut accumulator, &Row(vec![Value::Int(5)])).unwrap();
    refuses(&first, &mut accumulator, Value::Int(0), "division_by_zero");
}

#[test]
fn distinct_values_are_bounded_in_number_and_in_bytes() {
    let distinct = compiled("count(DISTINCT x)", &Type::Int);
    let mut accumulator = distinct.start();
    for n in 0..DISTINCT_MAX as i64 {
        distinct.add(&mut accumulator, &Row(vec![Value::Int(n)])).unwrap();
    }
    refuses(&distinct, &mut accumulator, Value::Int(-1), "too_many_values");
    // Known ones go on.
    distinct.add(&mut accumulator, &Row(vec![Value::Int(5)])).unwrap();
    assert_eq!(distinct.value(&accumulator), Value::Int(DISTINCT_MAX as i64));

    let distinct = compiled("count(DISTINCT x)", &Type::String);
    let mut accumulator = distinct.start();
    let long = |n: usize| text(&format!("{n:0>65535}"));
    for n in 0..15 {
        distinct.add(&mut accumulator, &Row(vec![long(n)])).unwrap();
    }
    refuses(&distinct, &mut accumulator, long(16), "too_many_values");
    assert!(accumulator.weight() > DISTINCT_BYTES_MAX / 2 && accumulator.weight() < DISTINCT_BYTES_MAX * 2);
}

/// Several aggregates over one row: all are asked before the first is changed.
#[test]
fn a_change_is_made_only_when_it_is_applied() {
    let sum = compiled("sum(x)", &Type::Int);
    let accumulator = sum.start();
    let change = sum.change(&accumulator, &Row(vec![Value::Int(5)])).unwrap();
    assert_eq!(sum.value(&accumulator), Value::Null);
    let mut accumulator = accumulator;
    sum.apply(&mut accumulator, change);
    assert_eq!(sum.value(&accumulator), Value::Int(5));
}

#[test]
fn an_accumulator_of_another_aggregate_is_refused() {
    let (sum, count) = (compiled("sum(x)", &Type::Int), compiled("count()", &Type::Int));
    assert_eq!(
        sum.change(&count.start(), &Row(vec![Value::Int(5)]))
            .unwrap_err()
            .reason()
            .label(),
        "type_mismatch"
    );
}

#[test]
fn the_schema_of_the_state_tells_what_the_bytes_depend_on() {
    let list = Type::Array(Arc::new(decimal(10, 2)));
    for (call, ty, schema) in [
        ("count()", Type::Int, "count/1"),
        ("count(x)", Type::String, "count/1"),
        ("sum(x)", Type::Int, "sum(int64)/1"),
        ("sum(x)", decimal(10, 2), "sum(decimal:2)/1"),
        ("sum(x)", Type::Float, "sum(float64)/1"),
        ("avg(x)", decimal(18, 2), "avg(decimal:2)/1"),
        ("min(x)", Type::String, "min(string)/1"),
        ("max(x)", Type::String, "max(string)/1"),
        ("first(x)", list.clone(), "first([decimal:2])/1"),
        ("last(x)", list, "last([decimal:2])/1"),
        ("count(DISTINCT x)", Type::Timestamp, "count_distinct(timestamp)/1"),
    ] {
        assert_eq!(compiled(call, &ty).state_schema(), schema);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The examples of docs/format/accumulator.md: format 1 for ever.
#[test]
fn format_1_is_what_its_page_says() {
    let item = Type::Struct(Arc::new(Schema::new(vec![
        field("name", Type::String),
        field("n", Type::Int),
    ])));
    let item_value = Value::Struct([text("a"), Value::Null].into());
    let cases = [
        (
            "count()",
            Type::Int,
            vec![Value::Int(7), Value::Null],
            "0000000000000002",
        ),
        ("sum(x)", Type::Int, vec![], "00"),
        (
            "sum(x)",
            decimal(18, 2),
            vec![Value::Decimal(-1250)],
            "01fffffffffffffb1e",
        ),
        ("sum(x)", Type::Float, vec![Value::Float(1.5)], "013ff8000000000000"),
        (
            "avg(x)",
            Type::Int,
            vec![Value::Int(7), Value::Int(1)],
            "000000000000000000000000000000080000000000000002",
        ),
        (
            "avg(x)",
            Type::Float,
            vec![Value::Float(1.5)],
            "3ff80000000000000000000000000001",
        ),
        ("min(x)", Type::String, vec![text("ab")], "01000000026162"),
        ("last(x)", Type::Bool, vec![Value::Bool(true)], "0101"),
        ("first(x)", Type::Int, vec![], "00"),
        ("last(x)", item, vec![item_value], "0101000000016100"),
        (
            "count(DISTINCT x)",
            Type::String,
            vec![text("b"), text("a"), text("b")],
            "00000002010000000161010000000162",
        ),
    ];
    let page = include_str!("../../../../docs/format/accumulator.md");
    for (call, ty, values, bytes) in cases {
        let aggregate = compiled(call, &ty);
        let mut accumulator = aggregate.start();
        for value in values {
            aggregate.add(&mut accumulator, &Row(vec![value])).unwrap();
        }
        let mut out = Vec::new();
        aggregate.encode(&accumulator, &mut out);
        assert_eq!(hex(&out), bytes, "{call} over {ty}");
        let row = format!("| `{call}` | {ty} |");
        let told = page
            .lines()
            .find(|line| line.starts_with(&row) && line.replace(' ', "").contains(&format!("`{bytes}`")));
        assert!(told.is_some(), "docs/format/accumulator.md lacks {row} .. `{bytes}`");
    }
}

fn value_of(ty: Type) -> BoxedStrategy<Value> {
    let value = match ty {
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Int => (-1000_i64..1000).prop_map(Value::Int).boxed(),
        Type::Decimal { .. } => (-1000_i64..1000).prop_map(Value::Decimal).boxed(),
        Type::Timestamp => any::<i64>().prop_map(Value::Timestamp).boxed(),
        Type::Float => any::<f64>()
            .prop_filter("equal to itself", |x| !x.is_nan())
            .prop_map(Value::Float)
            .boxed(),
        Type::String => "\\PC{0,5}".prop_map(|s: String| text(&s)).boxed(),
        Type::Bytes => prop::collection::vec(any::<u8>(), 0..5)
            .prop_map(|b| Value::Bytes(b.into()))
            .boxed(),
        Type::Array(element) => prop::collection::vec(value_of(element.as_ref().clone()), 0..4)
            .prop_map(|v| Value::Array(v.into()))
            .boxed(),
        Type::Struct(schema) => {
            let fields: Vec<BoxedStrategy<Value>> =
                schema.fields().iter().map(|field| value_of(field.ty.clone())).collect();
            fields.prop_map(|v| Value::Struct(v.into())).boxed()
        }
    };
    prop_oneof![5 => value, 1 => Just(Value::Null)].boxed()
}

fn types() -> Vec<Type> {
    let item = Schema::new(vec![field("name", Type::String), field("n", decimal(9, 2))]);
    let list = |ty: Type| Type::Array(Arc::new(ty));
    vec![
        Type::Bool,
        Type::Int,
        decimal(18, 2),
        Type::Float,
        Type::String,
        Type::Bytes,
        Type::Timestamp,
        list(Type::String),
        list(Type::Struct(Arc::new(item))),
    ]
}

/// A call of an aggregate, the type of its argument, and values.
fn histories() -> impl Strategy<Value = (String, Type, Vec<Value>)> {
    let calls = [
        "count()",
        "count(x)",
        "sum(x)",
        "avg(x)",
        "min(x)",
        "max(x)",
        "first(x)",
        "last(x)",
        "count_distinct(x)",
    ];
    let pairs: Vec<(&str, Type)> = calls
        .iter()
        .flat_map(|call| types().into_iter().map(move |ty| (*call, ty)))
        .filter(|(call, ty)| Aggregate::compile(call, &Schema::new(vec![field("x", ty.clone())])).is_ok())
        .collect();
    prop::sample::select(pairs).prop_flat_map(|(call, ty)| {
        let values = prop::collection::vec(value_of(ty.clone()), 0..20);
        (Just(call.to_owned()), Just(ty), values)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What a lane does that evicts an entry after every record, against one that never does.
    #[test]
    fn an_accumulator_that_is_written_and_read_between_records_is_the_same((call, ty, values) in histories()) {
        let aggregate = compiled(&call, &ty);
        let mut kept = aggregate.start();
        let mut stored = Vec::new();
        aggregate.encode(&kept, &mut stored);
        for value in values {
            let row = Row(vec![value]);
            let added = aggregate.add(&mut kept, &row);
            let mut read = aggregate.decode(&mut stored.as_slice()).unwrap();
            prop_assert_eq!(aggregate.add(&mut read, &row).is_ok(), added.is_ok());
            prop_assert_eq!(aggregate.value(&read), aggregate.value(&kept));
            prop_assert_eq!(&read, &kept);
            stored.clear();
            aggregate.encode(&read, &mut stored);
            let mut again = Vec::new();
            aggregate.encode(&kept, &mut again);
            prop_assert_eq!(&again, &stored);
        }
        // It takes its own bytes and no more.
        stored.push(7);
        let mut bytes = stored.as_slice();
        aggregate.decode(&mut bytes).unwrap();
        prop_assert_eq!(bytes, &[7_u8][..]);
        // And none of them may be missing.
        for length in 0..stored.len() - 1 {
            prop_assert!(aggregate.decode(&mut &stored[..length]).is_err(), "{} of {} bytes", length, stored.len() - 1);
        }
    }

    #[test]
    fn garbage_is_no_accumulator_and_no_panic((call, ty, _) in histories(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let aggregate = compiled(&call, &ty);
        if let Ok(accumulator) = aggregate.decode(&mut bytes.as_slice()) {
            let _ = aggregate.value(&accumulator);
            let _ = accumulator.weight();
        }
    }
}
