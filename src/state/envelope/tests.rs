use super::*;

fn written(timestamp: TimestampMs, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_header(timestamp, &mut out);
    out.extend_from_slice(value);
    out
}

/// Golden vectors: a change here makes every local copy and every checkpoint unreadable.
#[test]
fn envelopes_have_the_documented_bytes_and_come_back() {
    let cases: [(TimestampMs, &[u8], &[u8]); 3] = [
        (0, b"", b"\x01\0\0\0\0\0\0\0\0"),
        (1_700_000_000_000, b"v", b"\x01\x00\x00\x01\x8b\xcf\xe5\x68\x00v"),
        (-1, b"\x00\xff", b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x00\xff"),
    ];
    for (timestamp, value, bytes) in cases {
        assert_eq!(written(timestamp, value), bytes);
        assert_eq!(parse(bytes), Ok((timestamp, value)));
        assert_eq!(written(timestamp, value).len(), HEADER_BYTES + value.len());
    }
}

#[test]
fn a_newer_format_is_told_from_damage() {
    assert_eq!(parse(b"\x02anything"), Err(EnvelopeError::Newer(2)));
    assert!(EnvelopeError::Newer(2).to_string().contains("format 2, newer than 1"));
    for bytes in [&b""[..], b"\x00\0\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0"] {
        assert!(matches!(parse(bytes), Err(EnvelopeError::Damaged { .. })), "{bytes:?}");
    }
}
