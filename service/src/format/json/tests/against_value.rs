//! Random documents against `serde_json::Value`: what is JSON for it is JSON for the reader, and what is read is what is in its tree.
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value as Json;

use crate::format::tests::{decode, decoder, encode, encoder};
use crate::format::{Decoder, Format, Limits};
use crate::value::{
    Field, Schema, TIMESTAMP_MAX, TIMESTAMP_MIN, Type, Value, parse_decimal, parse_timestamp, write_timestamp,
};

const NAMES: &[&str] = &["a", "b", "c", "dd", "\u{e9}", "with \"quotes\"\n"];

fn any_type() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        Just(Type::Bool),
        Just(Type::Int),
        Just(Type::Float),
        (1u8..=18)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| Type::Decimal { precision, scale }),
        Just(Type::String),
        Just(Type::Bytes),
        Just(Type::Timestamp),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|ty| Type::Array(ty.into())),
            any_schema_of(inner).prop_map(|schema| Type::Struct(schema.into())),
        ]
    })
}

fn any_schema_of(ty: impl Strategy<Value = Type>) -> impl Strategy<Value = Schema> {
    vec(ty, 0..NAMES.len()).prop_map(|types| {
        let field = |(name, ty): (&&str, Type)| Field {
            name: (*name).to_owned(),
            ty,
        };
        Schema::new(NAMES.iter().zip(types).map(field).collect())
    })
}

fn any_schema() -> impl Strategy<Value = Schema> {
    any_schema_of(any_type())
}

fn any_value(ty: &Type) -> BoxedStrategy<Value> {
    let value = match ty {
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Int => any::<i64>().prop_map(Value::Int).boxed(),
        Type::Float => any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Value::Float)
            .boxed(),
        Type::Decimal { precision, .. } => {
            let most = 10i64.pow(u32::from(*precision)) - 1;
            (-most..=most).prop_map(Value::Decimal).boxed()
        }
        Type::String => any::<String>().prop_map(|text| Value::String(text.into())).boxed(),
        Type::Bytes => vec(any::<u8>(), 0..8)
            .prop_map(|bytes| Value::Bytes(bytes.into()))
            .boxed(),
        Type::Timestamp => (TIMESTAMP_MIN..=TIMESTAMP_MAX).prop_map(Value::Timestamp).boxed(),
        Type::Array(of) => vec(any_value(of), 0..4)
            .prop_map(|items| Value::Array(items.into()))
            .boxed(),
        Type::Struct(schema) => any_values(schema)
            .prop_map(|values| Value::Struct(values.into()))
            .boxed(),
    };
    prop_oneof![1 => Just(Value::Null), 6 => value].boxed()
}

fn any_values(schema: &Schema) -> BoxedStrategy<Vec<Value>> {
    let values: Vec<_> = schema.fields().iter().map(|field| any_value(&field.ty)).collect();
    values.boxed()
}

fn schema_and_row() -> impl Strategy<Value = (Schema, Vec<Value>)> {
    any_schema().prop_flat_map(|schema| {
        let row = any_values(&schema);
        (Just(schema), row)
    })
}

/// A document: numbers as their text, members in order and perhaps twice.
#[derive(Debug, Clone)]
enum Doc {
    Word(&'static str),
    Number(String),
    Text(String),
    List(Vec<Doc>),
    Object(Vec<(String, Doc)>),
}

fn any_doc() -> impl Strategy<Value = Doc> {
    let leaf = prop_oneof![
        select(vec!["null", "true", "false"]).prop_map(Doc::Word),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?".prop_map(Doc::Number),
        any::<i64>().prop_map(|number| Doc::Number(number.to_string())),
        any::<String>().prop_map(Doc::Text),
        vec(any::<u8>(), 0..5).prop_map(|bytes| Doc::Text(BASE64_STANDARD.encode(bytes))),
        (TIMESTAMP_MIN..=TIMESTAMP_MAX)
            .prop_map(timestamp_text)
            .prop_map(Doc::Text),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Doc::List),
            any_object(inner).prop_map(Doc::Object)
        ]
    })
}

fn any_object(inner: impl Strategy<Value = Doc>) -> impl Strategy<Value = Vec<(String, Doc)>> {
    let name = prop_oneof![6 => select(NAMES).prop_map(str::to_owned), 1 => any::<String>()];
    vec((name, inner), 0..6)
}

fn timestamp_text(time: i64) -> String {
    let mut out = Vec::new();
    assert!(write_timestamp(time, &mut out));
    String::from_utf8(out).expect("ASCII")
}

/// The text of a document, with white space here and there.
fn render(doc: &Doc, spaces: &mut impl Iterator<Item = &'static str>, out: &mut String) {
    out.push_str(spaces.next().unwrap_or_default());
    match doc {
        Doc::Word(word) => out.push_str(word),
        Doc::Number(number) => out.push_str(number),
        Doc::Text(text) => out.push_str(&Json::from(text.as_str()).to_string()),
        Doc::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                render(item, spaces, out);
            }
            out.push(']');
        }
        Doc::Object(members) => {
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                render(&Doc::Text(name.clone()), spaces, out);
                out.push(':');
                render(value, spaces, out);
            }
            out.push('}');
        }
    }
    out.push_str(spaces.next().unwrap_or_default());
}

fn text_of(doc: &Doc) -> String {
    let mut spaces = ["", " ", "", "\n\t", "", "", "\r"].into_iter().cycle();
    let mut out = String::new();
    render(doc, &mut spaces, &mut out);
    out
}

/// What the documentation says a document means; None if it is to be refused. Slow and plain.
fn expected(doc: &Doc, ty: &Type) -> Option<Value> {
    Some(match (ty, doc) {
        (_, Doc::Word("null")) => Value::Null,
        (Type::Bool, Doc::Word(word)) => Value::Bool(*word == "true"),
        (Type::Int, Doc::Number(number)) => Value::Int(number.parse().ok()?),
        (Type::Float, Doc::Number(number)) => Value::Float(number.parse().ok().filter(|f: &f64| f.is_finite())?),
        (Type::Decimal { precision, scale }, Doc::Number(text) | Doc::Text(text)) => {
            Value::Decimal(parse_decimal(text, *precision, *scale).ok()?)
        }
        (Type::String, Doc::Text(text)) => Value::String(text.as_str().into()),
        (Type::Bytes, Doc::Text(text)) => Value::Bytes(BASE64_STANDARD.decode(text).ok()?.into()),
        (Type::Timestamp, Doc::Text(text)) => Value::Timestamp(parse_timestamp(text).ok()?),
        (Type::Timestamp, Doc::Number(number)) => {
            let time: i64 = number.parse().ok()?;
            Value::Timestamp((TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&time).then_some(time)?)
        }
        (Type::Array(of), Doc::List(items)) => Value::Array(
            items
                .iter()
                .map(|item| expected(item, of))
                .collect::<Option<Vec<_>>>()?
                .into(),
        ),
        (Type::Struct(schema), Doc::Object(members)) => Value::Struct(expected_row(members, schema)?.into()),
        _ => return None,
    })
}

fn expected_row(members: &[(String, Doc)], schema: &Schema) -> Option<Vec<Value>> {
    let mut row = vec![None; schema.len()];
    for (name, doc) in members {
        if let Some((index, field)) = schema.find(name)
            && row[index].replace(expected(doc, &field.ty)?).is_some()
        {
            return None;
        }
    }
    Some(row.into_iter().map(|value| value.unwrap_or(Value::Null)).collect())
}

/// Is it JSON in the eyes of the other reader? It refuses depth and numbers that are beyond a float, where a skipped value needs neither.
fn is_json(text: &str) -> Result<(), String> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let result = <Json as serde::Deserialize>::deserialize(&mut parser).and_then(|_| parser.end());
    result.map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_document_is_read_as_the_documentation_says(schema in any_schema(), members in any_object(any_doc())) {
        let text = text_of(&Doc::Object(members.clone()));
        let result = decode(&decoder(&Format::Json, &schema), text.as_bytes());
        match expected_row(&members, &schema) {
            Some(row) => prop_assert_eq!(result, Ok(row), "{} as {}", text, schema),
            None => prop_assert!(result.is_err(), "{:?} from {} as {}", result, text, schema),
        }
    }

    #[test]
    fn what_is_written_is_read_as_it_was((schema, row) in schema_and_row()) {
        let written = encode(&encoder(&Format::Json, &schema), &row).expect("JSON can hold it");
        prop_assert!(is_json(std::str::from_utf8(&written).expect("UTF-8")).is_ok());
        prop_assert_eq!(decode(&decoder(&Format::Json, &schema), &written), Ok(row));
    }

    #[test]
    fn broken_texts_are_refused_as_the_other_reader_does(
        schema in any_schema(),
        members in any_object(any_doc()),
        changes in vec((any::<Index>(), any::<u8>(), 0u8..4), 1..4),
    ) {
        let mut bytes = text_of(&Doc::Object(members)).into_bytes();
        for (place, byte, what) in changes {
            let at = place.index(bytes.len().max(1));
            match what {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at.min(bytes.len()), byte),
                2 if at < bytes.len() => { bytes.remove(at); }
                _ => bytes.truncate(at),
            }
        }
        let all = decode(&decoder(&Format::Json, &schema), &bytes);
        let none = decode(&Decoder::columns(&Format::Json, &schema, [], Limits::default()).expect("compiled"), &bytes);
        match std::str::from_utf8(&bytes).map_err(|error| error.to_string()).and_then(is_json) {
            // Whatever else there is against it, it is JSON.
            Ok(()) => for told in [&all, &none].into_iter().filter_map(|result| result.as_ref().err()) {
                prop_assert!(!told.contains("not JSON") && !told.contains("UTF-8"), "{}", told);
            },
            // Halves of surrogate pairs and large numbers are found only where they are read.
            Err(told) if told.contains("surrogate") || told.contains("hex escape") || told.contains("out of range") => (),
            Err(told) => prop_assert!(all.is_err() && none.is_err(), "{}: {:?}, {:?}", told, all, none),
        }
        if all.is_ok() {
            prop_assert!(none.is_ok());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(schema in any_schema(), bytes in vec(any::<u8>(), 0..64)) {
        let told = decode(&decoder(&Format::Json, &schema), &bytes);
        prop_assert!(told.is_ok() || told.expect_err("refused").len() < 400);
    }
}
