//! `LIKE`: `%` is any characters, `_` is one.
//!
//! A pattern is cut at its `%` into segments. The first is held to the start of the text, the last to its end, and each between them is looked
//! for behind the one before it; the first place is as good as any later one, so there is no going back. Time is that of a search for each
//! segment: linear for those without `_`, at most the length of the text times that of the segment for the others.

/// A compiled pattern.
#[derive(Debug)]
pub(in crate::expr) struct Pattern {
    /// Between the `%`; one if there is no `%`.
    segments: Vec<Segment>,
}

#[derive(Debug, Default)]
struct Segment {
    /// Runs of literal text, with one character of any kind between two of them.
    literals: Vec<String>,
}

impl Pattern {
    /// None if the escape character stands at the end, with nothing to escape.
    pub fn new(pattern: &str, escape: Option<char>) -> Option<Pattern> {
        let mut segments = vec![Segment::new()];
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let last = segments.last_mut()?;
            if Some(c) == escape {
                last.push(chars.next()?);
            } else if c == '%' {
                segments.push(Segment::new());
            } else if c == '_' {
                last.literals.push(String::new());
            } else {
                last.push(c);
            }
        }
        let count = segments.len();
        // `%%` is `%`; the first and the last stay, since they are held to the ends.
        let mut index = 0;
        segments.retain(|segment| {
            index += 1;
            index == 1 || index == count || !segment.is_empty()
        });
        Some(Pattern { segments })
    }

    pub fn matches(&self, text: &str) -> bool {
        let [first, rest @ ..] = self.segments.as_slice() else {
            return text.is_empty();
        };
        let Some(mut left) = first.prefix(text) else {
            return false;
        };
        let [between @ .., last] = rest else {
            return left.is_empty();
        };
        for segment in between {
            match segment.find(left) {
                Some(after) => left = after,
                None => return false,
            }
        }
        last.suffix(left)
    }
}

impl Segment {
    fn new() -> Segment {
        Segment {
            literals: vec![String::new()],
        }
    }

    fn push(&mut self, c: char) {
        if let Some(literal) = self.literals.last_mut() {
            literal.push(c);
        }
    }

    fn is_empty(&self) -> bool {
        self.literals.len() == 1 && self.literals[0].is_empty()
    }

    /// What is behind the segment at the start of `text`.
    fn prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        let (first, rest) = self.literals.split_first()?;
        let mut left = text.strip_prefix(first.as_str())?;
        for literal in rest {
            let mut chars = left.chars();
            chars.next()?;
            left = chars.as_str().strip_prefix(literal.as_str())?;
        }
        Some(left)
    }

    /// What is behind the first place of the segment in `text`.
    fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        let first = self.literals.first()?;
        if self.literals.len() == 1 {
            return text.find(first.as_str()).map(|at| &text[at + first.len()..]);
        }
        let mut left = text;
        loop {
            left = &left[left.find(first.as_str())?..];
            if let Some(after) = self.prefix(left) {
                return Some(after);
            }
            let mut chars = left.chars();
            chars.next()?;
            left = chars.as_str();
        }
    }

    /// Whether `text` ends with the segment.
    fn suffix(&self, text: &str) -> bool {
        let mut left = text;
        for (index, literal) in self.literals.iter().rev().enumerate() {
            if index > 0 {
                let mut chars = left.chars();
                if chars.next_back().is_none() {
                    return false;
                }
                left = chars.as_str();
            }
            match left.strip_suffix(literal.as_str()) {
                Some(before) => left = before,
                None => return false,
            }
        }
        true
    }
}
