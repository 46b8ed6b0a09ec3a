use super::super::Expr;
use super::{row, schema, text};
use crate::value::{Row, Schema, Type, Value};

/// Runs with the stack of a thread of the standard library, which lanes have too.
fn on_a_lane(f: impl FnOnce() + Send + 'static) {
    std::thread::spawn(f)
        .join()
        .expect("no panic, and no overflow of the stack");
}

fn message(text: &str) -> String {
    match Expr::compile(text, &schema()) {
        Ok(_) => "compiled".to_owned(),
        Err(error) => error.message,
    }
}

#[test]
fn an_expression_that_is_nested_deeply_is_an_error() {
    on_a_lane(|| {
        let nested = |open: &str, inner: &str, close: &str, n: usize| open.repeat(n) + inner + &close.repeat(n);
        assert_eq!(message(&nested("(", "orders", ")", 20)), "compiled");
        let deep = 3000;
        for text in [
            nested("(", "orders", ")", deep),
            nested("NOT ", "paid", "", deep),
            nested("- ", "orders", "", deep),
            nested("abs(", "orders", ")", deep / 2),
            nested("CASE WHEN paid THEN ", "1", " END", deep / 2),
            nested("coalesce(", "1", ", 2)", deep / 2),
            nested("CAST(", "orders", " AS int64)", deep / 2),
            nested("tags[", "1", "]", deep / 2),
            nested("(", "", "", deep),
            nested("orders IN (", "1", ")", deep / 2),
            nested("trim(", "customer", ")", deep / 2),
            nested("INTERVAL ", "1", "", deep),
            nested("EXISTS (SELECT ", "1", ")", 1000),
        ] {
            let message = message(&text);
            assert!(
                message.contains("nested too deeply")
                    || message.contains("words and signs")
                    || message.contains("expected"),
                "{}..: {message}",
                &text[..30]
            );
        }
    });
}

#[test]
fn a_long_chain_is_a_node_or_an_error_and_never_a_deep_stack() {
    on_a_lane(|| {
        let chain = |part: &str, op: &str, n: usize| vec![part; n].join(op);
        for (part, op, row_type) in [
            ("paid", " AND ", Type::Bool),
            ("late", " OR ", Type::Bool),
            ("customer", " || ", Type::String),
        ] {
            let expr = Expr::compile(&chain(part, op, 3000), &schema()).unwrap();
            assert_eq!(expr.ty(), &row_type);
            expr.eval(&row()).unwrap();
        }
        for (part, op) in [
            ("orders", " + "),
            ("orders", " - "),
            ("amount", " * "),
            ("paid", " = "),
            ("orders", "\n<> "),
        ] {
            let message = message(&chain(part, op, 3000));
            assert!(message.contains("operators deep"), "{message}");
        }
        for suffix in [
            " IS NULL",
            " IS NOT TRUE",
            "::int64",
            " COLLATE x",
            " AT TIME ZONE 'x'",
            "[1]",
            ".a",
            " NOT NULL",
            " BETWEEN 1 AND 1",
        ] {
            let text = "orders".to_owned() + &suffix.repeat(1500);
            assert_ne!(message(&text), "compiled", "{suffix}");
        }
        let list: Vec<String> = (0..3000).map(|n| n.to_string()).collect();
        assert_eq!(message(&format!("orders IN ({})", list.join(", "))), "compiled");
        let many = vec!["orders"; 5000].join(", ");
        assert!(message(&format!("coalesce({many})")).contains("words and signs"));
        let long = format!("customer = '{}'", "a".repeat(70_000));
        assert!(message(&long).contains("bytes; it may have"));
    });
}

/// Over one field of text.
fn over_text(expr: &str, value: &str) -> Result<Value, String> {
    let schema = Schema::new(vec![super::field("t", Type::String)]);
    let expr = Expr::compile(expr, &schema).unwrap();
    expr.eval(&Row(vec![text(value)]))
        .map_err(|error| error.reason().label().to_owned())
}

#[test]
fn texts_and_arrays_that_are_made_are_bounded() {
    let megabyte = "x".repeat(1 << 20);
    let sixteen = vec!["t"; 16].join(" || ");
    assert!(over_text(&sixteen, &megabyte).is_ok());
    assert_eq!(
        over_text(&format!("{sixteen} || 'y'"), &megabyte),
        Err("too_long".to_owned())
    );
    let args = vec!["t"; 17].join(", ");
    assert_eq!(
        over_text(&format!("concat({args})"), &megabyte),
        Err("too_long".to_owned())
    );
    // Two bytes become three.
    let grows = "\u{250}".repeat(6 << 20);
    assert_eq!(over_text("upper(t)", &grows), Err("too_long".to_owned()));
    assert_eq!(over_text("split(t)", &"a ".repeat(100_000)).map(|_| ()), Ok(()));
    assert_eq!(over_text("split(t)", &"a ".repeat(100_001)), Err("too_long".to_owned()));
    assert_eq!(
        over_text("split(t, ',')", &",".repeat(100_000)),
        Err("too_long".to_owned())
    );
}

#[test]
fn a_record_error_repeats_only_the_beginning_of_a_value() {
    let schema = Schema::new(vec![super::field("t", Type::String)]);
    let expr = Expr::compile("CAST(t AS int64)", &schema).unwrap();
    let error = expr.eval(&Row(vec![text(&"\u{e4}".repeat(5000))])).unwrap_err();
    assert!(error.to_string().len() < 250, "{error}");
}

#[test]
fn a_row_that_is_not_of_the_schema_is_an_error_and_no_panic() {
    for (expr, wrong) in [
        ("orders + 1", text("x")),
        ("customer || 'a'", Value::Int(1)),
        ("tags[1]", text("x")),
        ("address.city", Value::Int(1)),
    ] {
        let expr = Expr::compile(expr, &schema()).unwrap();
        let row = Row(vec![wrong; schema().len()]);
        assert_eq!(expr.eval(&row).unwrap_err().reason().label(), "type_mismatch");
        // Missing fields are NULL.
        assert_eq!(expr.eval(&Row::default()).unwrap(), Value::Null);
    }
}

#[test]
fn an_expression_tells_which_fields_it_reads() {
    let columns = |text: &str| {
        let expr = Expr::compile(text, &schema()).unwrap();
        let names: Vec<String> = expr
            .columns()
            .iter()
            .map(|index| schema().fields()[*index].name.clone())
            .collect();
        names.join(" ")
    };
    assert_eq!(columns("1 + 2"), "");
    assert_eq!(
        columns("amount > 0 AND customer IS NOT NULL AND amount < 5"),
        "amount customer"
    );
    assert_eq!(
        columns("CASE WHEN paid THEN address.city ELSE tags[orders] END"),
        "orders paid tags address"
    );
}

#[test]
fn an_expression_is_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Expr>();
    shared::<super::Aggregate>();
}

#[test]
fn a_field_that_goes_through_is_not_copied() {
    let schema = Schema::new(vec![super::field("t", Type::String)]);
    let value: std::sync::Arc<str> = "a text".into();
    let row = Row(vec![Value::String(value.clone())]);
    for expr in [
        "t",
        "coalesce(t, 'x')",
        "CASE WHEN t LIKE 'a%' THEN t END",
        "lower(t)",
        "trim(t)",
        "substr(t, 1)",
        "nullif(t, '')",
    ] {
        match Expr::compile(expr, &schema).unwrap().eval(&row).unwrap() {
            Value::String(out) => assert!(std::sync::Arc::ptr_eq(&out, &value), "{expr}"),
            other => panic!("{other:?}"),
        }
    }
}
