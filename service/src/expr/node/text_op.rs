//! What gives texts.
use super::{Bool, Buffer, Bytes, Eval, Float, Long, Node, TEXT_MAX, Text, TextBuffer, both, float_text};
use crate::expr::error::{At, Fault, What};
use crate::value::{Row, Type, write_decimal, write_timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::expr) enum TrimSide {
    Both,
    Leading,
    Trailing,
}

pub(in crate::expr) enum TextOp {
    Lower(Node<Text>, At),
    Upper(Node<Text>, At),
    Trim {
        of: Node<Text>,
        side: TrimSide,
        /// Any of these characters; a space if there is none.
        characters: Option<Node<Text>>,
    },
    Substring {
        of: Node<Text>,
        from: Node<Long>,
        length: Option<Node<Long>>,
        at: At,
    },
    Concat {
        parts: Vec<Node<Text>>,
        /// `concat` leaves NULLs out; with `||` one makes the whole NULL.
        skip_null: bool,
        at: At,
    },
    OfBool(Node<Bool>),
    /// Of an int64 (scale 0) or a decimal.
    OfLong(Node<Long>, u8),
    OfFloat(Node<Float>),
    OfTimestamp {
        of: Node<Long>,
        lenient: bool,
        at: At,
    },
    OfBytes {
        of: Node<Bytes>,
        lenient: bool,
        at: At,
    },
}

impl TextOp {
    pub fn eval<'a>(&'a self, row: &'a Row) -> Eval<TextBuffer<'a>> {
        match self {
            TextOp::Lower(of, at) => match of.eval(row)? {
                Some(text) if text.is_ascii() => {
                    Ok(Some(ascii(text, u8::is_ascii_uppercase, str::make_ascii_lowercase)))
                }
                Some(text) => bounded(text.to_lowercase(), *at),
                None => Ok(None),
            },
            TextOp::Upper(of, at) => match of.eval(row)? {
                Some(text) if text.is_ascii() => {
                    Ok(Some(ascii(text, u8::is_ascii_lowercase, str::make_ascii_uppercase)))
                }
                Some(text) => bounded(text.to_uppercase(), *at),
                None => Ok(None),
            },
            TextOp::Trim { of, side, characters } => trim(of, *side, characters.as_ref(), row),
            TextOp::Substring { of, from, length, at } => substring(of, from, length.as_ref(), row, *at),
            TextOp::Concat { parts, skip_null, at } => concat(parts, *skip_null, row, *at),
            TextOp::OfBool(of) => Ok(of.eval(row)?.map(|value| made(if value { "true" } else { "false" }))),
            TextOp::OfLong(of, scale) => Ok(of.eval(row)?.map(|value| {
                let mut out = Vec::with_capacity(24);
                write_decimal(value, *scale, &mut out);
                Buffer::Owned(String::from_utf8(out).unwrap_or_default())
            })),
            TextOp::OfFloat(of) => Ok(of.eval(row)?.map(|value| Buffer::Owned(float_text(value)))),
            TextOp::OfTimestamp { of, lenient, at } => {
                let Some(value) = of.eval(row)? else {
                    return Ok(None);
                };
                let mut out = Vec::with_capacity(24);
                match write_timestamp(value, &mut out) {
                    true => Ok(Some(Buffer::Owned(String::from_utf8(out).unwrap_or_default()))),
                    false if *lenient => Ok(None),
                    false => Err(Fault::of(What::Calendar, *at)),
                }
            }
            TextOp::OfBytes { of, lenient, at } => of_bytes(of, row, *lenient, *at),
        }
    }
}

fn made<'a>(text: &'static str) -> TextBuffer<'a> {
    Buffer::Part(text)
}

fn bounded<'a>(text: String, at: At) -> Eval<TextBuffer<'a>> {
    if text.len() > TEXT_MAX {
        return Err(too_long(at));
    }
    Ok(Some(Buffer::Owned(text)))
}

fn too_long(at: At) -> Box<Fault> {
    let what = "bytes";
    Fault::of(What::TooLong { what, max: TEXT_MAX }, at)
}

/// The text in the other case; the text itself if it is in that already.
fn ascii(text: TextBuffer<'_>, differs: fn(&u8) -> bool, change: fn(&mut str)) -> TextBuffer<'_> {
    if !text.bytes().any(|b| differs(&b)) {
        return text;
    }
    let mut own = match text {
        Buffer::Owned(own) => own,
        shared => shared.to_owned(),
    };
    change(&mut own);
    Buffer::Owned(own)
}

/// A part of the text, borrowed as the text was.
fn part<'a>(text: TextBuffer<'a>, range: std::ops::Range<usize>) -> TextBuffer<'a> {
    if range == (0..text.len()) {
        return text;
    }
    match text {
        Buffer::Shared(all) => Buffer::Part(&all[range]),
        Buffer::Part(all) => Buffer::Part(&all[range]),
        Buffer::Owned(all) => Buffer::Owned(all[range].to_owned()),
    }
}

fn trim<'a>(
    of: &'a Node<Text>,
    side: TrimSide,
    characters: Option<&'a Node<Text>>,
    row: &'a Row,
) -> Eval<TextBuffer<'a>> {
    let text = of.eval(row)?;
    let characters = match characters {
        None => Some(Buffer::Part(" ")),
        Some(node) => node.eval(row)?,
    };
    let (Some(text), Some(characters)) = (text, characters) else {
        return Ok(None);
    };
    let cut = |c: char| characters.contains(c);
    let start = match side {
        TrimSide::Trailing => 0,
        _ => text.len() - text.trim_start_matches(cut).len(),
    };
    let end = match side {
        TrimSide::Leading => text.len(),
        _ => start + text[start..].trim_end_matches(cut).len(),
    };
    Ok(Some(part(text, start..end)))
}

/// As PostgreSQL's: characters are counted from 1, places before the first hold none.
fn substring<'a>(
    of: &'a Node<Text>,
    from: &'a Node<Long>,
    length: Option<&'a Node<Long>>,
    row: &'a Row,
    at: At,
) -> Eval<TextBuffer<'a>> {
    let operands = both(of, from, row)?;
    let length = length.map(|node| node.eval(row)).transpose()?;
    let (Some((text, from)), false) = (operands, matches!(length, Some(None))) else {
        return Ok(None);
    };
    let end = match length.flatten() {
        None => i64::MAX,
        Some(length) if length < 0 => return Err(Fault::of(What::NegativeLength(length), at)),
        Some(length) => from.saturating_add(length),
    };
    let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(0);
    let stop = usize::try_from(end.saturating_sub(1)).unwrap_or(0);
    let start = place(&text, skipped);
    let stop = start + place(&text[start..], stop.saturating_sub(skipped));
    Ok(Some(part(text, start..stop)))
}

/// The byte at which the character of this index begins; the end, if there is none.
fn place(text: &str, index: usize) -> usize {
    // A character has a byte at least.
    if index >= text.len() {
        return text.len();
    }
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

fn concat<'a>(parts: &'a [Node<Text>], skip_null: bool, row: &'a Row, at: At) -> Eval<TextBuffer<'a>> {
    let mut out = String::new();
    let mut null = false;
    for node in parts {
        match node.eval(row)? {
            Some(text) if out.len() + text.len() > TEXT_MAX => return Err(too_long(at)),
            Some(text) => out.push_str(&text),
            None => null = true,
        }
    }
    Ok((skip_null || !null).then_some(Buffer::Owned(out)))
}

fn of_bytes<'a>(of: &'a Node<Bytes>, row: &'a Row, lenient: bool, at: At) -> Eval<TextBuffer<'a>> {
    let Some(bytes) = of.eval(row)? else {
        return Ok(None);
    };
    match String::from_utf8(bytes.to_vec()) {
        Ok(text) => Ok(Some(Buffer::Owned(text))),
        Err(_) if lenient => Ok(None),
        Err(_) => {
            let value = "what is not UTF-8".to_owned();
            Err(Fault::of(
                What::Cast {
                    value,
                    to: Type::String,
                },
                at,
            ))
        }
    }
}
