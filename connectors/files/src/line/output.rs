//! From an output to a line.
use keyfold::types::output::decode_headers;
use keyfold::types::{Header, OutputRef};
use serde::de::IgnoredAny;
use std::io::{self, Write};

/// Writes `{"key":..,"value":..,"timestamp":..}` and a newline, with `"headers":{..}` at the end when there are any. See
/// [`crate::FilesSink`] for how bytes become JSON.
pub(crate) fn write_line(out: &mut impl Write, output: &OutputRef<'_>) -> io::Result<()> {
    out.write_all(b"{\"key\":")?;
    write_json(out, output.key)?;
    out.write_all(b",\"value\":")?;
    write_json(out, output.value)?;
    write!(out, ",\"timestamp\":{}", output.timestamp)?;
    write_headers(out, output.headers)?;
    out.write_all(b"}\n")
}

fn write_headers(out: &mut impl Write, encoded: &[u8]) -> io::Result<()> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidInput, "the headers of an output do not decode");
    let headers = decode_headers(encoded).ok_or_else(damaged)?;
    for (n, Header { key, value }) in headers.iter().enumerate() {
        out.write_all(if n == 0 { b",\"headers\":{" } else { b"," })?;
        serde_json::to_writer(&mut *out, key)?;
        out.write_all(b":")?;
        write_text(out, value.as_deref())?;
    }
    out.write_all(if headers.is_empty() { b"" } else { b"}" })
}

/// A header's value is a string also when it is a JSON text, as the envelope of an input line wants it.
fn write_text(out: &mut impl Write, bytes: Option<&[u8]>) -> io::Result<()> {
    match bytes.map(|b| std::str::from_utf8(b).map_err(|_| b)) {
        None => out.write_all(b"null"),
        Some(Ok(text)) => serde_json::to_writer(out, text).map_err(io::Error::from),
        Some(Err(bytes)) => write_base64(out, bytes),
    }
}

fn write_json(out: &mut impl Write, bytes: Option<&[u8]>) -> io::Result<()> {
    let Some(bytes) = bytes else {
        return out.write_all(b"null");
    };
    match std::str::from_utf8(bytes) {
        Err(_) => write_base64(out, bytes),
        Ok(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => write_on_one_line(out, text),
        Ok(text) => serde_json::to_writer(out, text).map_err(io::Error::from),
    }
}

/// A line break in a valid JSON text is white space between tokens: inside a string it would be escaped.
fn write_on_one_line(out: &mut impl Write, json: &str) -> io::Result<()> {
    for (n, part) in json.split(['\n', '\r']).enumerate() {
        if n > 0 {
            out.write_all(b" ")?;
        }
        out.write_all(part.as_bytes())?;
    }
    Ok(())
}

/// `{"base64":".."}`, the standard alphabet with padding.
fn write_base64(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.write_all(b"{\"base64\":\"")?;
    for chunk in bytes.chunks(3) {
        let mut quad = [b'='; 4];
        let bits = (0..3).fold(0u32, |bits, i| {
            bits << 8 | u32::from(chunk.get(i).copied().unwrap_or(0))
        });
        for (i, slot) in quad.iter_mut().enumerate().take(chunk.len() + 1) {
            *slot = ALPHABET[(bits >> (18 - 6 * i) & 63) as usize];
        }
        out.write_all(&quad)?;
    }
    out.write_all(b"\"}")
}
