//! A file's text, and from a node of its tree to a place in it.
use super::build;
use super::diagnostic::{Diagnostic, Place, Snippet};
use super::node::{Kind, Node, Style};
use super::{FILE_BYTES_MAX, YamlError};
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// A file's name and text.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    text: String,
}

impl Source {
    /// `name` is how messages call the file.
    #[must_use]
    pub fn new(name: impl Into<String>, text: &str) -> Source {
        // A byte-order mark is no content.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Source {
            name: name.into(),
            text: text.to_owned(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is larger than [`FILE_BYTES_MAX`], or is not UTF-8.
    pub fn read(path: &Path) -> Result<Source, YamlError> {
        let name = path.display().to_string();
        let wrong = |message: String| Diagnostic::of_file(&name, message);
        let mut bytes = Vec::new();
        let limit = FILE_BYTES_MAX as u64 + 1;
        std::fs::File::open(path)
            .and_then(|file| file.take(limit).read_to_end(&mut bytes))
            .map_err(|e| wrong(format!("cannot be read: {e}")))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(
                wrong(format!("larger than {FILE_BYTES_MAX} bytes")).help("a file of this kind has at most 1 MiB")
            );
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Source::new(name, &text)),
            Err(e) => {
                let at = e.utf8_error().valid_up_to();
                let line = e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
                Err(wrong(format!("line {line} is not UTF-8")).help("save the file as UTF-8"))
            }
        }
    }

    /// How messages call the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The tree of the file. An empty file is [`Kind::Null`].
    ///
    /// # Errors
    /// What the text has that we do not take, with its place.
    pub fn parse(&self) -> Result<Node, YamlError> {
        build::tree(self)
    }

    /// A message about a node: a scalar is underlined as far as its first line goes.
    #[must_use]
    pub fn at(&self, node: &Node, message: impl Into<String>) -> Diagnostic {
        let width = match node.kind {
            Kind::List(_) | Kind::Map(_) => 1,
            _ => {
                let raw = self.text.get(node.span.clone()).unwrap_or_default();
                raw.lines().next().unwrap_or_default().trim_end().chars().count()
            }
        };
        self.diagnostic(node.place, width, message.into())
    }

    /// A message about a part of a scalar's text, as a span of bytes in [`Node::text`]: the file is underlined where these characters are
    /// written, through quotes, escapes and folded lines.
    #[must_use]
    pub fn inside(&self, node: &Node, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        let begin = self.offset(node, span.start, true);
        let end = self.offset(node, span.end.max(span.start), false).max(begin);
        let written = self.text.get(begin..end).unwrap_or_default();
        let width = written.lines().next().unwrap_or_default().chars().count();
        self.diagnostic(self.place(begin), width, message.into())
    }

    pub(super) fn diagnostic(&self, place: Place, width: usize, message: String) -> Diagnostic {
        let shown = (!self.hides(place.line)).then(|| self.line(place.line)).flatten();
        Diagnostic {
            place: Some(place),
            snippet: shown.map(|line| Box::new(Snippet::new(line, place.column, width))),
            ..Diagnostic::of_file(&self.name, message)
        }
    }

    /// The first tab that indents a line, from this line on.
    pub(super) fn tab(&self, from: usize) -> Option<Place> {
        let lines = self.text.lines().enumerate().skip(from - 1);
        let tab = |line: &str| {
            let indent = &line[..line.len() - line.trim_start().len()];
            indent.chars().position(|c| c == '\t')
        };
        lines
            .filter_map(|(index, line)| tab(line).map(|at| (index, at)))
            .map(|(index, at)| Place {
                line: index + 1,
                column: at + 1,
            })
            .next()
    }

    fn line(&self, number: usize) -> Option<&str> {
        self.text.lines().nth(number.checked_sub(1)?)
    }

    /// Whether the line may be part of a secret: it names one, or lies deeper than the line above that does, or right below it.
    fn hides(&self, number: usize) -> bool {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let mut secret: Option<usize> = None;
        let mut right_below = false;
        for line in self.text.lines().take(number) {
            let blank = line.trim().is_empty();
            if !right_below && secret.is_some_and(|depth| !blank && indent(line) <= depth) {
                secret = None;
            }
            right_below = false;
            if names_secret(line) {
                secret = Some(secret.unwrap_or(usize::MAX).min(indent(line)));
                right_below = line.trim_end().ends_with([':', '{', ',', '|', '>']);
            }
        }
        secret.is_some()
    }

    /// The byte of the file at which the character at `offset` of the scalar's text is written; at or behind the last character before it
    /// if that is white space. Writing differs from text in white space, quotes and escapes only, so the other characters are counted.
    fn offset(&self, node: &Node, offset: usize, at_character: bool) -> usize {
        let raw = self.text.get(node.span.clone()).unwrap_or_default();
        let before = node.text.get(..offset).unwrap_or(&node.text);
        let dark = before.chars().filter(|c| !c.is_whitespace()).count();
        let on_dark = node.text.get(offset..).and_then(|rest| rest.chars().next());
        let on_dark = at_character && on_dark.is_some_and(|c| !c.is_whitespace());
        let mut written = units(raw, node.style).filter(|unit| unit.dark);
        let end = written.by_ref().take(dark).last().map_or(0, |unit| unit.at.end);
        match written.next() {
            Some(unit) if on_dark => node.span.start + unit.at.start,
            _ => node.span.start + end,
        }
    }

    fn place(&self, byte: usize) -> Place {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

fn names_secret(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    keyfold_kafka::is_secret(&line)
}

/// A character of a scalar as it is written.
struct Unit {
    at: Range<usize>,
    /// Not white space.
    dark: bool,
}

fn units(raw: &str, style: Style) -> impl Iterator<Item = Unit> + '_ {
    let mut at = match style {
        Style::Plain => 0,
        Style::Single | Style::Double => 1,
        Style::Block => header(raw),
    };
    std::iter::from_fn(move || {
        let rest = raw.get(at..)?;
        let (length, c) = match style {
            Style::Double => escaped(rest)?,
            Style::Single if rest.starts_with("''") => (2, '\''),
            _ => rest.chars().next().map(|c| (c.len_utf8(), c))?,
        };
        let from = at;
        at += length;
        Some(Unit {
            at: from..at,
            dark: !c.is_whitespace(),
        })
    })
}

/// Length of a block scalar's first line, which says how it is written.
fn header(raw: &str) -> usize {
    match raw.starts_with(['|', '>']) {
        true => raw.find('\n').map_or(raw.len(), |at| at + 1),
        false => 0,
    }
}

/// Bytes and meaning of the next character of a double-quoted scalar.
fn escaped(rest: &str) -> Option<(usize, char)> {
    let c = rest.chars().next()?;
    if c != '\\' {
        return Some((c.len_utf8(), c));
    }
    let kind = rest[1..].chars().next()?;
    let digits = match kind {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        // White space, or a line's end that does not count.
        'n' | 't' | 'r' | 'v' | 'f' | ' ' | '_' | 'N' | 'L' | 'P' | '\t' | '\n' | '\r' => return Some((2, ' ')),
        other => return Some((1 + other.len_utf8(), other)),
    };
    let code = rest
        .get(2..2 + digits)
        .and_then(|hex| u32::from_str_radix(hex, 16).ok());
    Some((2 + digits, code.and_then(char::from_u32).unwrap_or('?')))
}
