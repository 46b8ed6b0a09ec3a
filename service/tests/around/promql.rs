//! The metrics that an expression of Prometheus names. Not a parser: what is no metric is left out by where it stands.
use std::collections::BTreeSet;

/// What stands without a bracket behind it and is no metric: aggregations before `by`, operators, and numbers by name.
const WORDS: [&str; 18] = [
    "sum", "min", "max", "avg", "count", "group", "stddev", "topk", "bottomk", "quantile", "and", "or", "unless",
    "bool", "offset", "inf", "nan", "atan2",
];
/// Before a list of labels.
const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// What comes while it is such.
    fn take(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) {
        self.take(char::is_whitespace);
    }

    fn string(&mut self) {
        let quote = self.peek();
        self.rest = &self.rest[1..];
        while let Some(c) = self.peek() {
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                '\\' => self.rest = self.rest.get(1..).unwrap_or_default(),
                c if Some(c) == quote => return,
                _ => {}
            }
        }
    }

    /// To the closing bracket of the one that comes next.
    fn bracketed(&mut self, close: char) {
        self.rest = &self.rest[1..];
        while let Some(c) = self.peek() {
            match c {
                '"' | '\'' => self.string(),
                c => {
                    self.rest = &self.rest[c.len_utf8()..];
                    if c == close {
                        return;
                    }
                }
            }
        }
    }
}

pub fn metrics(expression: &str) -> BTreeSet<String> {
    let mut reader = Reader { rest: expression };
    let mut found = BTreeSet::new();
    loop {
        reader.skip_space();
        let Some(c) = reader.peek() else { return found };
        match c {
            '"' | '\'' => reader.string(),
            '{' => reader.bracketed('}'),
            '[' => reader.bracketed(']'),
            // A number or a duration.
            c if c.is_ascii_digit() => drop(reader.take(|c| c.is_ascii_alphanumeric() || c == '.')),
            c if c.is_ascii_alphabetic() || c == '_' => {
                let word = reader.take(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
                reader.skip_space();
                let before_bracket = reader.peek() == Some('(');
                if BEFORE_LABELS.contains(&word) && before_bracket {
                    reader.bracketed(')');
                } else if !before_bracket && !WORDS.contains(&word) && !BEFORE_LABELS.contains(&word) {
                    found.insert(word.to_owned());
                }
            }
            c => reader.rest = &reader.rest[c.len_utf8()..],
        }
    }
}

#[test]
fn names_of_metrics_are_told_from_functions_labels_and_words() {
    let of = |expression: &str| metrics(expression).into_iter().collect::<Vec<_>>();
    assert_eq!(
        of(r#"sum by (le, phase) (rate(a_bucket{x=~"b|c(d",y='}'}[5m])) / on (z) group_left (w) (e offset 5m > 3e5)"#),
        ["a_bucket", "e"]
    );
    assert_eq!(of("time() - max(b) or vector(0) and c unless bool d"), ["b", "c", "d"]);
    assert_eq!(of("deriv(sum by (topic) (f)[15m:1m]) > 0"), ["f"]);
    assert_eq!(of("topk(20, g) == 1"), ["g"]);
}
