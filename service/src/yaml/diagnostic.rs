//! A message that points at a place of a file.
use std::fmt;

/// A place in a file; lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// What is wrong with a file, where, and the way out. Shown as
///
/// ```text
/// totals.yaml:7:15: step paid: unknown column `amout`
///    7 |     filter: amout > 0
///      |             ^^^^^
/// help: did you mean `amount`?
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name as it was given.
    pub file: String,
    /// None when it is about the whole file.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    pub(super) snippet: Option<Box<Snippet>>,
}

/// The line and what is underlined of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snippet {
    line: String,
    /// Characters before the first caret.
    before: usize,
    carets: usize,
}

/// Characters of a line that are shown; the part around the place is.
const SHOWN_MAX: usize = 120;
/// Characters before the place when the line is cut.
const SHOWN_BEFORE: usize = 40;

impl Snippet {
    /// `column` counts from 1.
    pub(super) fn new(line: &str, column: usize, width: usize) -> Snippet {
        let chars: Vec<char> = line.chars().collect();
        let at = (column - 1).min(chars.len());
        let begin = if chars.len() > SHOWN_MAX {
            at.saturating_sub(SHOWN_BEFORE)
        } else {
            0
        };
        let end = chars.len().min(begin + SHOWN_MAX);
        let visible = chars[begin..end].iter().map(|c| if c.is_control() { ' ' } else { *c });
        let cut = if begin > 0 { "..." } else { "" };
        let mut line = String::from(cut);
        line.extend(visible);
        if end < chars.len() {
            line.push_str("...");
        }
        Snippet {
            line,
            before: cut.len() + at - begin,
            carets: width.clamp(1, (end - at).max(1)),
        }
    }
}

impl Diagnostic {
    /// About a file as a whole.
    #[must_use]
    pub fn of_file(file: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            file: file.to_owned(),
            place: None,
            message: message.into(),
            help: None,
            snippet: None,
        }
    }

    /// With the way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Without the line of the file, which may hold what nobody should read.
    #[must_use]
    pub fn without_line(mut self) -> Diagnostic {
        self.snippet = None;
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(&self.file))?;
        if let Some(place) = self.place {
            write!(f, ":{}:{}", place.line, place.column)?;
        }
        write!(f, ": {}", visible(&self.message))?;
        if let (Some(place), Some(snippet)) = (self.place, &self.snippet) {
            let number = format!("{:>4}", place.line);
            let (bar, before) = (" ".repeat(number.len()), " ".repeat(snippet.before));
            write!(
                f,
                "\n{number} | {}\n{bar} | {before}{}",
                snippet.line,
                "^".repeat(snippet.carets)
            )?;
        }
        match &self.help {
            Some(help) => write!(f, "\nhelp: {}", visible(help)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// Without characters that a terminal acts upon: messages quote what is in files.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}
