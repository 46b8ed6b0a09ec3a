use super::*;
use crate::config::Lines;
use keyfold::types::output::encode_headers;
use keyfold::types::{Header, Headers, OutputRef};

fn value_lines(field: &str) -> Lines {
    Lines::Value {
        timestamp_field: Some(field.into()),
    }
}

#[test]
fn the_timestamp_field_is_read_and_its_absence_is_minus_one() {
    let timestamp = |line: &str| parse(&value_lines("at"), line.as_bytes()).timestamp;
    assert_eq!(timestamp(r#"{"x":{"at":1},"at":17,"y":[]}"#), 17);
    assert_eq!(timestamp(r#"{"\u0061t":-18}"#), -18);
    for line in [
        r#"{"x":1}"#,
        r#"{"at":"17"}"#,
        r#"{"at":1.5}"#,
        r#"{"at":null}"#,
        "[17]",
        "17",
        "",
        "{\"at\":17",
    ] {
        assert_eq!(timestamp(line), -1, "{line}");
    }
}

#[test]
fn a_value_line_is_handed_out_byte_for_byte() {
    for line in [&b" {\"a\" : 1}\r"[..], b"", b"not json", b"\xff\xfe"] {
        for lines in [Lines::default(), value_lines("a")] {
            let parsed = parse(&lines, line);
            assert_eq!((parsed.key, parsed.value), (None, Some(line)));
        }
    }
}

#[test]
fn keys_are_unescaped_and_null_is_not_empty() {
    let key = |text: &str| {
        let line = format!("{{\"key\":{text},\"value\":1}}");
        parse(&Lines::Envelope, line.as_bytes()).key.map(|k| k.to_vec())
    };
    assert_eq!(key(r#""a b""#), Some(b"a b".to_vec()));
    assert_eq!(key(r#""a\"\u0062\n""#), Some(b"a\"b\n".to_vec()));
    assert_eq!(key(r#""""#), Some(Vec::new()));
    assert_eq!(key("null"), None);
}

#[test]
fn what_is_no_envelope_is_handed_out_as_the_raw_line() {
    let bad: [&[u8]; 11] = [
        b"",
        b"17",
        b"{\"key\":\"k\"}",
        b"{\"key\":7,\"value\":1}",
        b"{\"key\":\"\\ud800\",\"value\":1}",
        b"{\"value\":1,\"timestamp\":\"now\"}",
        b"{\"value\":1,\"timestamp\":1.5}",
        b"{\"value\":1,\"header\":{}}",
        b"{\"value\":1,\"headers\":{\"a\":1}}",
        b"{\"value\":1} x",
        b"{\"value\":\"\xff\"}",
    ];
    for line in bad {
        let parsed = parse(&Lines::Envelope, line);
        let text = String::from_utf8_lossy(line);
        assert_eq!(
            (parsed.key, parsed.value, parsed.timestamp),
            (None, Some(line), -1),
            "{text}"
        );
    }
}

fn written(key: Option<&[u8]>, value: Option<&[u8]>) -> String {
    written_with(key, value, &[])
}

fn written_with(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header]) -> String {
    let mut out = Vec::new();
    let headers = encode_headers(headers).expect("small");
    let output = OutputRef {
        sink: 0,
        timestamp: 9,
        partition: -1,
        key,
        value,
        headers: &headers,
    };
    write_line(&mut out, &output).expect("written");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn json_is_embedded_text_is_quoted_and_bytes_are_base64() {
    assert_eq!(
        written(Some(b"c1"), Some(b"{\"n\": 1}")),
        "{\"key\":\"c1\",\"value\":{\"n\": 1},\"timestamp\":9}\n"
    );
    assert_eq!(
        written(None, Some(b"7")),
        "{\"key\":null,\"value\":7,\"timestamp\":9}\n"
    );
    assert_eq!(
        written(Some(b""), None),
        "{\"key\":\"\",\"value\":null,\"timestamp\":9}\n"
    );
    assert_eq!(
        written(Some(b"a\"\n"), None),
        "{\"key\":\"a\\\"\\n\",\"value\":null,\"timestamp\":9}\n"
    );
    for (bytes, text) in [
        (&b"\xff"[..], "/w=="),
        (b"\xff\xfe", "//4="),
        (b"\xff\xfe\x00", "//4A"),
        (b"\xffabc", "/2FiYw=="),
    ] {
        let expected = format!("{{\"key\":null,\"value\":{{\"base64\":\"{text}\"}},\"timestamp\":9}}\n");
        assert_eq!(written(None, Some(bytes)), expected);
    }
}

#[test]
fn a_pretty_printed_value_stays_on_one_line() {
    let line = written(None, Some(b"{\r\n  \"a\": \"x\\ny\"\n}"));
    assert_eq!(
        line,
        "{\"key\":null,\"value\":{    \"a\": \"x\\ny\" },\"timestamp\":9}\n"
    );
}

fn header(key: &str, value: Option<&[u8]>) -> Header {
    Header {
        key: key.to_owned(),
        value: value.map(<[u8]>::to_vec),
    }
}

/// Headers were not written: of a dead letter in a file nobody could tell where it came from, or why it was one.
#[test]
fn headers_stand_at_the_end_of_the_line_and_are_read_back_from_there() {
    let headers = [
        header("keyfold.reason", Some(b"decode")),
        header("h \"1\"", None),
        header("h", Some(b"{\"n\":\n1}")),
        header("h", Some(b"")),
    ];
    let line = written_with(Some(b"k"), Some(b"7"), &headers);
    assert_eq!(
        line,
        "{\"key\":\"k\",\"value\":7,\"timestamp\":9,\"headers\":{\"keyfold.reason\":\"decode\",\"h \\\"1\\\"\":null,\
         \"h\":\"{\\\"n\\\":\\n1}\",\"h\":\"\"}}\n"
    );
    let parsed = parse(&Lines::Envelope, line.trim_end().as_bytes());
    assert_eq!((parsed.value, parsed.timestamp), (Some(&b"7"[..]), 9));
    assert_eq!(parsed.headers.to_vec(), headers);
    let line = written_with(None, None, &[header("b", Some(b"\xff"))]);
    assert_eq!(
        line,
        "{\"key\":null,\"value\":null,\"timestamp\":9,\"headers\":{\"b\":{\"base64\":\"/w==\"}}}\n"
    );
}

#[test]
fn headers_that_do_not_decode_are_an_error_and_not_left_out() {
    let output = OutputRef {
        sink: 0,
        timestamp: 9,
        partition: -1,
        key: None,
        value: None,
        headers: b"\0\x01\0",
    };
    let error = write_line(&mut Vec::new(), &output).expect_err("damaged");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
