//! From text to the syntax tree of `sqlparser`, and from places in that tree to bytes of the text.
use sqlparser::ast;
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use super::error::{At, ExprError};

/// Longest expression, in bytes. Nobody writes one of this length by hand, and offsets in it fit into an u32.
const BYTES_MAX: usize = 64 << 10;

/// Most tokens of an expression: a list of some thousand values. A chain of operators becomes a tree as deep as it is long, which `sqlparser`
/// drops by recursion; this keeps that far below the stack of a thread.
const TOKENS_MAX: usize = 8_000;

/// How deep `sqlparser` may recurse: about the parentheses that may stand inside of each other.
const RECURSION_MAX: usize = 64;

/// A parsed expression.
pub(super) struct Parsed {
    pub ast: ast::Expr,
    pub tokens: Tokens,
}

/// Parses one scalar expression, and nothing behind it.
pub(super) fn parse(text: &str) -> Result<Parsed, ExprError> {
    let end = At {
        start: u32::try_from(text.len()).unwrap_or(u32::MAX),
        end: u32::try_from(text.len()).unwrap_or(u32::MAX),
    };
    if text.len() > BYTES_MAX {
        let message = format!("the expression has {} bytes; it may have {BYTES_MAX}", text.len());
        return Err(ExprError::new(At::default(), message).help(SPLIT_UP));
    }
    let found = Tokenizer::new(&Sql, text).tokenize_with_location().map_err(|error| {
        let start = offset(text, error.location);
        let at = At { start, end: end.end };
        ExprError::new(at, lower_first(&error.message))
    })?;
    let tokens = Tokens::new(text, &found);
    if tokens.places.len() > TOKENS_MAX {
        let message = format!(
            "the expression has {} words and signs; it may have {TOKENS_MAX}",
            tokens.places.len()
        );
        return Err(ExprError::new(At::default(), message).help(SPLIT_UP));
    }
    if tokens.places.is_empty() {
        return Err(ExprError::new(end, "the expression is empty"));
    }
    let mut parser = Parser::new(&Sql)
        .with_recursion_limit(RECURSION_MAX)
        .with_tokens_with_locations(found);
    let ast = parser.parse_expr().map_err(|error| tokens.explain(&error, end))?;
    let next = parser.peek_token_ref();
    if next.token != Token::EOF {
        let message = format!("unexpected {}: the expression could end before it", shown(&next.token));
        return Err(with_hint(ExprError::new(tokens.at(next.span), message), &next.token));
    }
    Ok(Parsed { ast, tokens })
}

pub(super) const SPLIT_UP: &str = "compute a part of it in a `map` step before";

/// SQL as it is read here: names as in standard SQL, and nothing of the extensions of single databases, whose words would take away names of
/// fields.
#[derive(Debug)]
struct Sql;

impl Dialect for Sql {
    fn is_identifier_start(&self, c: char) -> bool {
        c.is_alphabetic() || c == '_'
    }

    fn is_identifier_part(&self, c: char) -> bool {
        c.is_alphanumeric() || c == '_'
    }

    // trim(text, 'characters').
    fn supports_comma_separated_trim(&self) -> bool {
        true
    }

    // What begins with one of these is what SQL says, or an error there; of other words it may be the name of a field.
    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        matches!(
            word,
            Keyword::CASE
                | Keyword::CAST
                | Keyword::TRY_CAST
                | Keyword::NOT
                | Keyword::EXISTS
                | Keyword::INTERVAL
                | Keyword::TRIM
        )
    }

    // Read only to be refused by name.
    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }
}

struct Place {
    start: Location,
    at: At,
    token: Token,
}

/// The tokens of a text without white space and comments, and their bytes.
pub(super) struct Tokens {
    places: Vec<Place>,
}

impl Tokens {
    fn new(text: &str, found: &[TokenWithSpan]) -> Tokens {
        let mut offsets = Offsets::new(text);
        let mut places = Vec::new();
        for token in found {
            if matches!(token.token, Token::Whitespace(_) | Token::EOF) {
                continue;
            }
            let start = offsets.of(token.span.start);
            let end = offsets.of(token.span.end);
            places.push(Place {
                start: token.span.start,
                at: At { start, end },
                token: token.token.clone(),
            });
        }
        Tokens { places }
    }

    /// The bytes of a span of the syntax tree, which begins and ends with a token. The whole text for a span that is not known.
    pub fn at(&self, span: Span) -> At {
        let first = self.places.partition_point(|place| place.start < span.start);
        let last = self
            .places
            .partition_point(|place| place.start < span.end)
            .checked_sub(1);
        match (self.places.get(first), last.and_then(|last| self.places.get(last))) {
            (Some(first), Some(last)) if span.start.line > 0 => first.at.to(last.at),
            _ => self.whole(),
        }
    }

    pub fn whole(&self) -> At {
        match (self.places.first(), self.places.last()) {
            (Some(first), Some(last)) => first.at.to(last.at),
            _ => At::default(),
        }
    }

    /// With the token before it.
    pub fn with_previous(&self, at: At) -> At {
        let index = self.places.partition_point(|place| place.at.start < at.start);
        index
            .checked_sub(1)
            .map_or(at, |previous| self.places[previous].at.to(at))
    }

    /// With the tokens behind it up to the first that is `wanted`; as it is, if none is.
    pub fn up_to(&self, at: At, wanted: impl Fn(&Token) -> bool) -> At {
        let behind = self.places.partition_point(|place| place.at.start < at.end);
        let mut found = self.places[behind..].iter().filter(|place| wanted(&place.token));
        found.next().map_or(at, |place| at.to(place.at))
    }

    /// With the tokens before it down to the last that is `wanted`; as it is, if none is.
    pub fn down_to(&self, at: At, wanted: impl Fn(&Token) -> bool) -> At {
        let before = self.places.partition_point(|place| place.at.start < at.start);
        let mut found = self.places[..before].iter().rev().filter(|place| wanted(&place.token));
        found.next().map_or(at, |place| place.at.to(at))
    }

    /// What stands between the end of `a` and the end of `b`.
    pub fn between(&self, a: At, b: At) -> At {
        let first = self.places.partition_point(|place| place.at.start < a.end);
        self.places.get(first).map_or(b, |place| At {
            start: place.at.start,
            end: b.end,
        })
    }

    /// With the parentheses that open behind it, up to their end.
    pub fn with_parentheses(&self, at: At) -> At {
        let behind = self.places.partition_point(|place| place.at.start < at.end);
        let mut open = 0_usize;
        for place in &self.places[behind..] {
            match place.token {
                Token::LParen => open += 1,
                Token::RParen => open = open.saturating_sub(1),
                _ => {}
            }
            if open == 0 {
                return at.to(place.at);
            }
        }
        at
    }

    /// The first token that reads like one of these words; the whole text if there is none.
    pub fn word(&self, words: &[&str]) -> At {
        let like = |place: &&Place| {
            let text = place.token.to_string();
            words.iter().any(|word| text.eq_ignore_ascii_case(word))
        };
        self.places
            .iter()
            .find(like)
            .map_or_else(|| self.whole(), |place| place.at)
    }

    /// Without its last token, if it has others.
    pub fn without_last(&self, at: At) -> At {
        let behind = self.places.partition_point(|place| place.at.start < at.end);
        match behind.checked_sub(2).map(|index| self.places[index].at) {
            Some(last) if last.start >= at.start => At {
                start: at.start,
                end: last.end,
            },
            _ => at,
        }
    }

    /// A parser's error, at the token that it speaks of.
    fn explain(&self, error: &ParserError, end: At) -> ExprError {
        let text = match error {
            ParserError::RecursionLimitExceeded => {
                let message = "the expression is nested too deeply";
                return ExprError::new(self.whole(), message).help(SPLIT_UP);
            }
            ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
        };
        let (message, place) = match text.rsplit_once(" at Line: ") {
            Some((message, place)) => (message, location(place)),
            None => (text.as_str(), None),
        };
        let place = place.and_then(|place| self.places.iter().find(|token| token.start >= place));
        let message = message
            .replacen("Expected: ", "expected ", 1)
            .replacen(", found: EOF", ", found the end", 1);
        let message = lower_first(&message.replacen(", found: ", ", found ", 1));
        match place {
            Some(place) => with_hint(ExprError::new(place.at, message), &place.token),
            None => ExprError::new(end, message),
        }
    }
}

/// `1, Column: 5`.
fn location(text: &str) -> Option<Location> {
    let (line, column) = text.split_once(", Column: ")?;
    Some(Location {
        line: line.parse().ok()?,
        column: column.parse().ok()?,
    })
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

pub(super) fn shown(token: &Token) -> String {
    format!("`{token}`")
}

/// What people write who come from other languages.
fn with_hint(error: ExprError, token: &Token) -> ExprError {
    match token {
        Token::Overlap => error.help("AND, not &&"),
        Token::ExclamationMark => error.help("NOT, not !"),
        Token::Word(word) if word.quote_style.is_none() && word.keyword != Keyword::NoKeyword => {
            let word = &word.value;
            error.help(format!(
                "if `{word}` is the name of a field, write \"{word}\" in double quotes"
            ))
        }
        _ => error,
    }
}

/// The byte of a line and column, both counted from 1 in characters.
fn offset(text: &str, place: Location) -> u32 {
    Offsets::new(text).of(place)
}

/// From lines and columns to bytes, in ascending order.
struct Offsets<'t> {
    chars: std::str::CharIndices<'t>,
    len: usize,
    line: u64,
    column: u64,
    at: usize,
}

impl<'t> Offsets<'t> {
    fn new(text: &'t str) -> Offsets<'t> {
        Offsets {
            chars: text.char_indices(),
            len: text.len(),
            line: 1,
            column: 1,
            at: 0,
        }
    }

    fn of(&mut self, place: Location) -> u32 {
        while (self.line, self.column) < (place.line, place.column) {
            match self.chars.next() {
                Some((_, '\n')) => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
                None => break,
            }
            self.at = self.chars.offset().min(self.len);
        }
        u32::try_from(self.at).unwrap_or(u32::MAX)
    }
}
