//! Every example of docs/expressions.md gives what the page says.
use super::super::{Aggregate, Expr};
use super::{fields, shown, told};
use crate::value::{Row, Schema};

const PAGE: &str = include_str!("../../../../docs/expressions.md");

/// The cells of a row of a table, without their backquotes. A bar in code is written with a backslash.
fn cells(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix("| ")?.strip_suffix(" |")?.replace("\\|", "\u{1}");
    let plain = |cell: &str| {
        let inner = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
        inner.unwrap_or(cell).replace('\u{1}', "|")
    };
    Some(line.split(" | ").map(|cell| plain(cell.trim())).collect())
}

/// The rows below a line with these heads.
fn rows(heads: &[&str]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in PAGE.lines() {
        match cells(line) {
            Some(row) if row == heads => inside = true,
            Some(row) if inside && !row[0].starts_with("---") => found.push(row),
            Some(_) => {}
            None if line.starts_with("|---") => {}
            None => inside = false,
        }
    }
    found
}

#[test]
fn every_example_gives_what_the_page_says() {
    let examples = rows(&["example", "gives"]);
    assert!(examples.len() > 110, "{}", examples.len());
    let mut wrong = Vec::new();
    for example in &examples {
        let [text, wanted] = example.as_slice() else {
            panic!("{example:?}");
        };
        let got = match Expr::compile(text, &super::schema()) {
            Ok(compiled) => match compiled.eval(&super::row()) {
                Ok(value) => shown(&value, compiled.ty()),
                Err(error) => format!("record error: {error}"),
            },
            Err(error) => format!("error: {}", error.message),
        };
        if got != *wanted {
            wrong.push(format!("{text} gives {got}, the page says {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_row_of_the_examples_is_the_one_that_they_are_tried_with() {
    let told_fields = rows(&["field", "type", "value"]);
    assert!(told_fields.len() > 10);
    for row in told_fields {
        let [name, ty, value] = row.as_slice() else {
            panic!("{row:?}");
        };
        assert_eq!(told(name), format!("{value} {ty}"));
    }
}

#[test]
fn every_aggregate_gives_what_the_page_says() {
    let examples = rows(&["aggregate", "type", "over 3, NULL, -5, 3 gives"]);
    assert!(examples.len() >= 10);
    let schema = Schema::new(vec![super::field("x", crate::value::Type::Int)]);
    for row in examples {
        let aggregate = Aggregate::compile(&row[0], &schema).unwrap();
        let mut accumulator = aggregate.start();
        for value in [Some(3), None, Some(-5), Some(3)] {
            let value = value.map_or(crate::value::Value::Null, crate::value::Value::Int);
            aggregate.add(&mut accumulator, &Row(vec![value])).unwrap();
        }
        assert_eq!(aggregate.ty().to_string(), row[1], "{}", row[0]);
        assert_eq!(
            shown(&aggregate.value(&accumulator), aggregate.ty()),
            row[2],
            "{}",
            row[0]
        );
    }
}

#[test]
fn the_fields_of_the_tables_are_each_of_their_type() {
    for (name, ty, value) in fields() {
        shown(&value, &ty);
        assert!(Expr::compile(name, &super::schema()).is_ok(), "{name}");
    }
}
