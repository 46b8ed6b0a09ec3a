use proptest::prelude::*;

use super::super::{Aggregate, Expr};
use super::{decimal, field, row, schema};
use crate::value::{Row, Schema, Type, Value};

fn eval(text: &str, fields: Vec<(&str, Type, Value)>) -> Result<(Value, Type), &'static str> {
    let schema = Schema::new(fields.iter().map(|(name, ty, _)| field(name, ty.clone())).collect());
    let expr = Expr::compile(text, &schema).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let row = Row(fields.into_iter().map(|(_, _, value)| value).collect());
    match expr.eval(&row) {
        Ok(value) => Ok((value, expr.ty().clone())),
        Err(error) => Err(error.reason().label()),
    }
}

/// Numbers at the ends of the range more often than chance has it.
fn any_long() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -100_i64..100,
        Just(i64::MIN),
        Just(i64::MAX),
        (0_u32..63).prop_map(|n| 1 << n)
    ]
}

fn any_decimal() -> impl Strategy<Value = i64> {
    let max = 999_999_999_999_999_999_i64;
    prop_oneof![-max..=max, -1000_i64..1000, Just(max), Just(-max)]
}

/// `a / b` to the nearest, a half away from zero; by another way than the code's.
fn nearest(a: i128, b: i128) -> i128 {
    let magnitude = (2 * a.unsigned_abs() + b.unsigned_abs()) / (2 * b.unsigned_abs());
    let magnitude = i128::try_from(magnitude).unwrap();
    if (a < 0) == (b < 0) { magnitude } else { -magnitude }
}

const POWERS: [i128; 19] = {
    let mut powers = [1; 19];
    let mut i = 1;
    while i < 19 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn int64_arithmetic_is_that_of_whole_numbers(a in any_long(), b in any_long(), op in 0_usize..5) {
        let (x, y) = (i128::from(a), i128::from(b));
        let wanted = match op {
            0 => Ok(x + y),
            1 => Ok(x - y),
            2 => Ok(x * y),
            _ if b == 0 => Err("division_by_zero"),
            3 => Ok(x / y),
            _ => Ok(x % y),
        };
        let wanted = wanted.and_then(|value| i64::try_from(value).map_err(|_| "overflow"));
        let text = format!("a {} b", ["+", "-", "*", "/", "%"][op]);
        let got = eval(&text, vec![("a", Type::Int, Value::Int(a)), ("b", Type::Int, Value::Int(b))]);
        prop_assert_eq!(got, wanted.map(|value| (Value::Int(value), Type::Int)));
    }

    #[test]
    fn decimal_arithmetic_is_that_of_fractions(a in any_decimal(), b in any_decimal(), s in 0_u8..=9, t in 0_u8..=9, op in 0_usize..5) {
        let (x, y) = (i128::from(a), i128::from(b));
        let max = s.max(t);
        let (p, q) = (POWERS[usize::from(max - s)], POWERS[usize::from(max - t)]);
        let (scale, wanted) = match op {
            0 => (max, Ok(x * p + y * q)),
            1 => (max, Ok(x * p - y * q)),
            2 => (s + t, Ok(x * y)),
            3 if b == 0 => (max.max(6), Err("division_by_zero")),
            3 => {
                let scale = max.max(6);
                // At most 10^18 * 10^18: nothing overflows with scales up to 9.
                (scale, Ok(nearest(x * POWERS[usize::from(scale - s + t)], y)))
            }
            _ if b == 0 => (max, Err("division_by_zero")),
            _ => (max, Ok((x * p) % (y * q))),
        };
        let wanted = wanted.and_then(|value| match value.abs() < POWERS[18] {
            true => Ok(value as i64),
            false => Err("overflow"),
        });
        let text = format!("a {} b", ["+", "-", "*", "/", "%"][op]);
        let got = eval(&text, vec![("a", decimal(18, s), Value::Decimal(a)), ("b", decimal(18, t), Value::Decimal(b))]);
        match got {
            Ok((value, Type::Decimal { precision, scale: got_scale })) => {
                prop_assert_eq!(Ok(value), wanted.map(Value::Decimal));
                prop_assert_eq!(got_scale, scale);
                prop_assert!(wanted.unwrap().unsigned_abs() < 10_u64.pow(u32::from(precision)));
            }
            other => prop_assert_eq!(other.map(|_| 0), wanted),
        }
    }

    #[test]
    fn comparisons_of_numbers_are_exact(a in any_long(), b in any_decimal(), t in 0_u8..=18) {
        let (x, y) = (i128::from(a) * POWERS[usize::from(t)], i128::from(b));
        for (op, wanted) in [("=", x == y), ("<>", x != y), ("<", x < y), ("<=", x <= y), (">", x > y), (">=", x >= y)] {
            let fields = vec![("a", Type::Int, Value::Int(a)), ("b", decimal(18, t), Value::Decimal(b))];
            prop_assert_eq!(eval(&format!("a {op} b"), fields.clone()), Ok((Value::Bool(wanted), Type::Bool)));
            prop_assert_eq!(eval(&format!("CASE a WHEN b THEN TRUE ELSE FALSE END = (a {op} b)"), fields).map(|_| ()), Ok(()));
        }
    }

    #[test]
    fn rounding_is_to_the_nearest(a in any_decimal(), s in 0_u8..=18, digits in -20_i64..20) {
        let zeros = i64::from(s) - digits;
        let wanted = if zeros <= 0 {
            i128::from(a)
        } else if zeros > 19 {
            0
        } else {
            let divisor = 10_i128.pow(zeros as u32);
            // In units of the result: whole numbers for digits before the point.
            nearest(i128::from(a), divisor) * 10_i128.pow(digits.min(0).unsigned_abs() as u32)
        };
        let got = eval(&format!("round(a, {digits})"), vec![("a", decimal(18, s), Value::Decimal(a))]);
        match wanted.abs() < POWERS[18] {
            true => prop_assert_eq!(got.map(|(value, _)| value), Ok(Value::Decimal(wanted as i64))),
            false => prop_assert_eq!(got.map(|(value, _)| value), Err("overflow")),
        }
    }

    #[test]
    fn casts_there_and_back_give_the_same(a in any_decimal(), s in 0_u8..=18, n in any_long(), x in any::<f64>()) {
        let fields = || vec![("a", decimal(18, s), Value::Decimal(a)), ("n", Type::Int, Value::Int(n)), ("x", Type::Float, Value::Float(x))];
        let back = |text: &str| eval(text, fields()).map(|(value, _)| value);
        prop_assert_eq!(back(&format!("CAST(CAST(a AS string) AS decimal(18,{s}))")), Ok(Value::Decimal(a)));
        prop_assert_eq!(back("CAST(CAST(n AS string) AS int64)"), Ok(Value::Int(n)));
        if !x.is_nan() {
            prop_assert_eq!(back("CAST(CAST(x AS string) AS float64)"), Ok(Value::Float(x)));
        }
        let float = back("CAST(a AS float64)");
        let mut text = Vec::new();
        crate::value::write_decimal(a, s, &mut text);
        prop_assert_eq!(float, Ok(Value::Float(String::from_utf8(text).unwrap().parse().unwrap())));
    }

    #[test]
    fn calendar_is_that_of_jiff(ms in 0_i64..250_000_000_000_000, months in -1000_i64..1000) {
        let fields = || vec![("t", Type::Timestamp, Value::Timestamp(ms))];
        let zoned = jiff::Timestamp::from_millisecond(ms).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
        let date = zoned.date();
        for (name, wanted) in [
            ("year", i64::from(date.year())),
            ("month", i64::from(date.month())),
            ("day", i64::from(date.day())),
            ("doy", i64::from(date.day_of_year())),
            ("isodow", i64::from(date.weekday().to_monday_one_offset())),
            ("week", i64::from(date.iso_week_date().week())),
            ("hour", i64::from(zoned.hour())),
            ("second", i64::from(zoned.second())),
        ] {
            let got = eval(&format!("extract({name} FROM t)"), fields());
            prop_assert_eq!(got, Ok((Value::Int(wanted), Type::Int)), "{} of {}", name, zoned);
        }
        let moved = zoned.checked_add(jiff::Span::new().months(months)).ok().map(|moved| moved.timestamp().as_millisecond());
        let got = eval(&format!("t + INTERVAL '{months} months'"), fields()).map(|(value, _)| value).ok();
        if let Some(moved) = moved.filter(|moved| *moved >= crate::value::TIMESTAMP_MIN) {
            prop_assert_eq!(got, Some(Value::Timestamp(moved)), "{} and {} months", zoned, months);
        }
        let month = zoned.first_of_month().unwrap().start_of_day().unwrap().timestamp().as_millisecond();
        prop_assert_eq!(eval("date_trunc('month', t)", fields()).map(|(value, _)| value), Ok(Value::Timestamp(month)));
    }
}

/// Pieces of SQL, sound and not, from which garbage is made that goes far into the parser and the checker.
const PIECES: &[&str] = &[
    "orders",
    "amount",
    "rate",
    "weight",
    "paid",
    "maybe",
    "customer",
    "raw",
    "at",
    "tags",
    "address",
    "items",
    "nothing",
    "missing",
    "\"at\"",
    "0",
    "1",
    "-1",
    "2.5",
    "1e3",
    "9223372036854775807",
    "9223372036854775808",
    "0.000000000000000001",
    "'a'",
    "''",
    "'%'",
    "'2026-03-01'",
    "'day'",
    "X'ff'",
    "NULL",
    "TRUE",
    "FALSE",
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "<>",
    "<",
    ">=",
    "||",
    "(",
    ")",
    ",",
    "[",
    "]",
    ".",
    "::",
    ":",
    ";",
    "*",
    "AND",
    "OR",
    "NOT",
    "IS",
    "IS NULL",
    "IS NOT NULL",
    "IN",
    "IN (",
    "BETWEEN",
    "LIKE",
    "ESCAPE",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST(",
    "TRY_CAST(",
    "AS",
    "AS int64)",
    "AS decimal(18,2))",
    "AS string)",
    "AS timestamp)",
    "INTERVAL",
    "INTERVAL '1 day'",
    "INTERVAL '1' MONTH",
    "TIMESTAMP",
    "DATE",
    "extract(",
    "extract(year FROM",
    "FROM",
    "FOR",
    "coalesce(",
    "nullif(",
    "lower(",
    "upper(",
    "trim(",
    "substr(",
    "substring(",
    "concat(",
    "split(",
    "abs(",
    "round(",
    "floor(",
    "ceil(",
    "date_trunc(",
    "cardinality(",
    "length(",
    "sum(",
    "count(",
    "count(*)",
    "count(DISTINCT",
    "OVER (",
    "FILTER (WHERE",
    "SELECT",
    "(SELECT",
    "EXISTS (",
    "ARRAY[",
    "{",
    "}",
    "->",
    "&&",
    "!",
    "@",
    "$1",
    "?",
    "\u{e4}",
    "\u{1f600}",
    "\"",
    "`",
    "'",
    "--",
    "/*",
    "\n",
    "\\",
    "#",
    "ANY(",
    "DISTINCT FROM",
    "SIMILAR TO",
    "COLLATE",
    "AT TIME ZONE",
    "position(",
    "overlay(",
    "STRUCT(",
    "MAP {",
    "CONVERT(",
    "ROW(",
    "lambda",
    "=>",
    ":=",
];

fn garbage() -> impl Strategy<Value = String> {
    let piece = prop_oneof![8 => prop::sample::select(PIECES).prop_map(str::to_owned), 1 => "\\PC{0,4}"];
    let glue = prop_oneof![4 => Just(" "), 1 => Just("")];
    prop::collection::vec((piece, glue), 0..24)
        .prop_map(|parts| parts.into_iter().map(|(piece, glue)| piece + glue).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn garbage_is_an_error_or_an_expression_and_never_a_panic(text in garbage()) {
        match Expr::compile(&text, &schema()) {
            Ok(expr) => {
                let value = expr.eval(&row());
                if let Ok(value) = value {
                    // A value is of the type that was told.
                    super::shown(&value, expr.ty());
                }
                let _ = expr.eval(&Row::default());
            }
            Err(error) => {
                prop_assert!(text.get(error.span.clone()).is_some(), "{:?} in {:?}", error, text);
                prop_assert!(!error.message.is_empty());
            }
        }
        if let Err(error) = Aggregate::compile(&text, &schema()) {
            prop_assert!(text.get(error.span.clone()).is_some(), "{:?} in {:?}", error, text);
        }
    }
}

/// Expressions that are of the right form, so that most of them are evaluated.
fn sound() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(
            &[
                "orders",
                "zero",
                "least",
                "most",
                "amount",
                "rate",
                "huge",
                "fine",
                "weight",
                "nothing",
                "no_amount"
            ][..]
        )
        .prop_map(str::to_owned),
        any_long().prop_map(|n| n.to_string()),
        (-100_000_i64..100_000, 0_u32..6).prop_map(|(n, scale)| format!("{:.*}", scale as usize, n as f64 / 100.0)),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (
                inner.clone(),
                prop::sample::select(&["+", "-", "*", "/", "%"][..]),
                inner.clone()
            )
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (
                prop::sample::select(&["abs", "floor", "ceil", "round", "-"][..]),
                inner.clone()
            )
                .prop_map(|(f, a)| format!("{f}({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("coalesce({a}, {b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("CASE WHEN {a} < {b} THEN {c} ELSE {a} END")),
            (
                inner.clone(),
                prop::sample::select(&["int64", "float64", "decimal(18,2)", "decimal(5,5)", "string"][..])
            )
                .prop_map(|(a, ty)| format!("CAST({a} AS {ty})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn a_value_is_of_the_type_that_was_told(text in sound()) {
        if let Ok(expr) = Expr::compile(&text, &schema())
            && let Ok(value) = expr.eval(&row())
        {
            // Panics for a value of another type, and for a decimal with more digits than its type.
            super::shown(&value, expr.ty());
        }
    }
}
