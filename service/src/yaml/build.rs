//! From the events of the parser to the tree.
use super::diagnostic::{Diagnostic, Place};
use super::node::{Kind, Node, Style};
use super::source::Source;
use super::{DEPTH_MAX, FILE_BYTES_MAX, NODES_MAX, TEXT_BYTES_MAX, YamlError};
use serde_saphyr::granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, options};
use std::collections::HashMap;

pub(super) fn tree(source: &Source) -> Result<Node, YamlError> {
    if source.text().len() > FILE_BYTES_MAX {
        return Err(Diagnostic::of_file(
            source.name(),
            format!("larger than {FILE_BYTES_MAX} bytes"),
        ));
    }
    let limits = options! {
        disallow_directives: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut builder = Builder {
        source,
        events: Parser::new_from_str_with_options(source.text(), limits),
        anchors: HashMap::new(),
        nodes: 0,
        bytes: 0,
    };
    builder.document()
}

struct Builder<'s> {
    source: &'s Source,
    events: Parser<'s, StrInput<'s>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    bytes: usize,
}

type Next<'s> = (Event<'s>, Span);

impl<'s> Builder<'s> {
    fn document(&mut self) -> Result<Node, YamlError> {
        let mut tree = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if tree.is_some() => {
                    return Err(self
                        .at(span.start, 1, "a second document begins")
                        .help("write one document per file: remove `---`"));
                }
                Event::DocumentStart(..) => {
                    let first = self.next()?;
                    tree = Some(self.node(first, 0)?);
                }
                // Not outside of a document.
                _ => return Err(self.at(span.start, 1, "unexpected content")),
            }
        }
        Ok(tree.unwrap_or_else(|| self.leaf(Kind::Null, String::new(), Span::default(), Style::Plain)))
    }

    fn next(&mut self) -> Result<Next<'s>, YamlError> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.scan_error(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, (event, span): Next<'s>, depth: usize) -> Result<Node, YamlError> {
        if let Some(tag) = event.tag() {
            let message = format!("the tag {} is not taken", tag.original());
            return Err(self
                .at(span.start, 1, &message)
                .help("remove it; quote a value to make it a text"));
        }
        let anchor = event.anchor_id();
        let node = match event {
            Event::Scalar(text, style, ..) => scalar(self, text.into_owned(), style, span),
            Event::SequenceStart(..) => self.list(span, depth)?,
            Event::MappingStart(..) => self.map(span, depth)?,
            Event::Alias(id) => self.repeat(id, span)?,
            _ => return Err(self.at(span.start, 1, "a value is expected here")),
        };
        self.count(&node, span)?;
        if let Some(id) = anchor {
            self.bound(node.weight(), span)?;
            self.anchors.insert(id, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, span: Span, depth: usize) -> Result<Node, YamlError> {
        self.deeper(depth, span)?;
        let mut items = Vec::new();
        loop {
            let next = self.next()?;
            if matches!(next.0, Event::SequenceEnd) {
                return Ok(self.leaf(Kind::List(items), String::new(), span, Style::Plain));
            }
            let item = self.node(next, depth + 1)?;
            if !items.last_mut().is_some_and(|before| self.goes_on(before, &item)) {
                items.push(item);
            }
        }
    }

    fn map(&mut self, span: Span, depth: usize) -> Result<Node, YamlError> {
        self.deeper(depth, span)?;
        let mut entries: Vec<(Node, Node)> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        loop {
            let next = self.next()?;
            if matches!(next.0, Event::MappingEnd) {
                return Ok(self.leaf(Kind::Map(entries), String::new(), span, Style::Plain));
            }
            let key = self.node(next, depth + 1)?;
            self.check_key(&key)?;
            let next = self.next()?;
            let value = self.node(next, depth + 1)?;
            let alone = value.kind == Kind::Null && value.text.is_empty();
            if alone && entries.last_mut().is_some_and(|(_, before)| self.goes_on(before, &key)) {
                continue;
            }
            if let Some(line) = known.insert(key.text.clone(), key.place.line) {
                let message = format!("the key `{}` is here twice", key.text);
                return Err(self
                    .source
                    .at(&key, message)
                    .help(format!("the first is in line {line}; remove one of them")));
            }
            entries.push((key, value));
        }
    }

    /// Whether a scalar goes on after a comma: `{ amount: decimal(18,2) }` is what people mean, although commas part entries between braces
    /// and brackets. Inside of parentheses they do not, so that expressions and types need no quotes; `next` is added to `before` then.
    fn goes_on(&self, before: &mut Node, next: &Node) -> bool {
        let text = self.source.text();
        let between = text.get(before.span.end..next.span.start).unwrap_or_default();
        let scalars = before.style == Style::Plain && before.scalar().is_some() && !next.text.is_empty();
        if !scalars || between.trim() != "," || !is_open(&before.text) {
            return false;
        }
        let written = text.get(before.span.start..next.span.end).unwrap_or_default();
        before.span.end = next.span.end;
        before.kind = Kind::Text;
        before.text = folded(written);
        true
    }

    fn check_key(&self, key: &Node) -> Result<(), YamlError> {
        if key.text == "<<" && key.style == Style::Plain {
            let message = "merge keys are not taken";
            return Err(self
                .source
                .at(key, message)
                .help("write the entries out, or repeat a whole value by an alias"));
        }
        match key.kind {
            Kind::Null | Kind::List(_) | Kind::Map(_) => {
                let message = format!("{} is no key", key.noun());
                Err(self.source.at(key, message).help("a key is a name: `name: value`"))
            }
            _ => Ok(()),
        }
    }

    /// What an alias stands for.
    fn repeat(&mut self, id: usize, span: Span) -> Result<Node, YamlError> {
        let Some(node) = self.anchors.get(&id) else {
            return Err(self.at(span.start, span.len(), "the alias repeats what it is a part of"));
        };
        // Before it is copied.
        let weight = node.weight();
        self.bound(weight, span)?;
        Ok(self.anchors[&id].clone())
    }

    /// Counts a node, and a scalar's text. What an alias repeats was counted by [`Builder::repeat`].
    fn count(&mut self, node: &Node, span: Span) -> Result<(), YamlError> {
        self.bound((1, node.text.len()), span)
    }

    fn bound(&mut self, (nodes, bytes): (usize, usize), span: Span) -> Result<(), YamlError> {
        self.nodes += nodes;
        self.bytes += bytes;
        if self.nodes <= NODES_MAX && self.bytes <= TEXT_BYTES_MAX {
            return Ok(());
        }
        let message =
            format!("more than {NODES_MAX} values or {TEXT_BYTES_MAX} bytes of text, with what aliases repeat");
        Err(self.at(span.start, span.len(), &message).help("repeat less by aliases"))
    }

    fn deeper(&self, depth: usize, span: Span) -> Result<(), YamlError> {
        match depth < DEPTH_MAX {
            true => Ok(()),
            false => Err(self.too_deep(span.start)),
        }
    }

    fn too_deep(&self, mark: Marker) -> YamlError {
        let message = format!("lists and mappings lie more than {DEPTH_MAX} deep in each other");
        self.at(mark, 1, &message).help("check the brackets")
    }

    fn leaf(&self, kind: Kind, text: String, span: Span, style: Style) -> Node {
        Node {
            place: place(span.start),
            kind,
            text,
            span: span.byte_range().unwrap_or_default(),
            style,
        }
    }

    fn at(&self, mark: Marker, width: usize, message: &str) -> YamlError {
        self.source.diagnostic(place(mark), width, message.to_owned())
    }

    fn scan_error(&self, error: &ScanError) -> YamlError {
        let mark = *error.marker();
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
            return self.too_deep(mark);
        }
        let help = advice(error.kind());
        let mut at = place(mark);
        if help == Some(NO_TABS) {
            // The parser means the line before, which the tab goes on.
            at = self.source.tab(at.line).unwrap_or(at);
        }
        let wrong = self.source.diagnostic(at, 1, format!("not YAML: {}", error.kind()));
        match help {
            Some(help) => wrong.help(help),
            None => wrong,
        }
    }
}

/// Whether a parenthesis is open at the end of an expression, not counting those in quotes.
fn is_open(text: &str) -> bool {
    let mut depth = 0i64;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            _ => {}
        }
    }
    depth > 0
}

/// A text of several lines in one, as plain scalars are read.
fn folded(written: &str) -> String {
    let mut lines = written.lines().map(str::trim);
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + " " + line)
}

fn scalar(builder: &Builder<'_>, mut text: String, style: ScalarStyle, span: Span) -> Node {
    if span.is_empty() {
        // The parser writes `~` for what is not there.
        text.clear();
    }
    let (kind, style) = match style {
        ScalarStyle::Plain => (resolve(&text), Style::Plain),
        ScalarStyle::SingleQuoted => (Kind::Text, Style::Single),
        ScalarStyle::DoubleQuoted => (Kind::Text, Style::Double),
        ScalarStyle::Literal | ScalarStyle::Folded => (Kind::Text, Style::Block),
    };
    builder.leaf(kind, text, span, style)
}

fn place(mark: Marker) -> Place {
    Place {
        line: mark.line().max(1),
        column: mark.col() + 1,
    }
}

/// YAML 1.2, core schema.
fn resolve(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Kind::Null,
        "true" | "True" | "TRUE" => return Kind::Bool(true),
        "false" | "False" | "FALSE" => return Kind::Bool(false),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str, ok: fn(&char) -> bool| !text.is_empty() && text.chars().all(|c| ok(&c));
    let decimal = |text: &str| digits(text, char::is_ascii_digit);
    let hex = unsigned
        .strip_prefix("0x")
        .is_some_and(|d| digits(d, char::is_ascii_hexdigit));
    let octal = unsigned
        .strip_prefix("0o")
        .is_some_and(|d| digits(d, |c| ('0'..='7').contains(c)));
    if decimal(unsigned) || hex || octal {
        return Kind::Int;
    }
    let special = matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN");
    let number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') && unsigned.parse::<f64>().is_ok();
    if special || number { Kind::Float } else { Kind::Text }
}

const NO_TABS: &str = "indent with spaces, not with tabs";

/// The way out of mistakes that are made often.
fn advice(kind: &ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar => NO_TABS,
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            "quote a text that has `: ` in it; indent the keys of a mapping alike"
        }
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::MismatchedFlowCollectionEnd { .. }
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator => {
            "close every `{` and `[`; in them, quote a text that has one of `,[]{}` in it"
        }
        ErrorKind::UnclosedQuotedScalar => "close the quote",
        ErrorKind::UnknownAnchor => {
            "an alias `*name` repeats what was marked `&name` before; quote a text that begins with `*`"
        }
        ErrorKind::MissingAnchorOrAliasName => "quote a text that begins with `*` or `&`",
        ErrorKind::UnexpectedCharacter { .. } => "quote a text that begins with one of @ ` % ! & *",
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::SimpleKeyExpected | ErrorKind::InvalidIndentation => {
            "indent the entries of a mapping alike, each as `name: value`"
        }
        ErrorKind::UnknownQuotedScalarEscape => "a backslash begins an escape between double quotes; use single quotes",
        _ => return None,
    })
}
