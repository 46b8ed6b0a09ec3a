//! Everything that is wrong with a pipeline file, not only the first.
use crate::nearest;
use crate::yaml::{Diagnostic, Node, Source};
use std::fmt;
use std::ops::Range;

/// What is wrong with a pipeline, in the order of the file. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineErrors(pub Vec<Diagnostic>);

impl fmt::Display for PipelineErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            let apart = if i == 0 { "" } else { "\n\n" };
            write!(f, "{apart}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PipelineErrors {}

impl From<Diagnostic> for PipelineErrors {
    fn from(error: Diagnostic) -> Self {
        PipelineErrors(vec![error])
    }
}

/// Collects errors. Whoever reports goes on with what is left, and leaves out what follows from an error that is told already.
pub(super) struct Report<'y> {
    source: &'y Source,
    subject: String,
    found: Vec<Diagnostic>,
}

impl<'y> Report<'y> {
    pub fn new(source: &'y Source) -> Report<'y> {
        Report {
            source,
            subject: String::new(),
            found: Vec::new(),
        }
    }

    /// What the next errors are about: `step totals`. Empty for the file itself.
    pub fn about(&mut self, subject: impl Into<String>) {
        self.subject = subject.into();
    }

    /// The file.
    pub fn source(&self) -> &'y Source {
        self.source
    }

    /// Whether nothing is wrong so far.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// An error at a node.
    pub fn at(&mut self, node: &Node, message: impl fmt::Display, help: impl Into<String>) {
        let message = self.with_subject(&message);
        self.found.push(self.source.at(node, message).help(help));
    }

    /// An error inside the text of a scalar; `span` counts bytes of the text.
    pub fn inside(&mut self, node: &Node, span: Range<usize>, message: impl fmt::Display, help: impl Into<String>) {
        let message = self.with_subject(&message);
        self.found.push(self.source.inside(node, span, message).help(help));
    }

    /// A name that is not known, with the one that was probably meant.
    pub fn unknown<'a>(&mut self, node: &Node, what: &str, known: impl IntoIterator<Item = &'a str>) {
        let help = nearest::help(&node.text, known);
        self.at(node, format!("unknown {what} `{}`", node.text), help);
    }

    /// What another module has found.
    pub fn add(&mut self, errors: impl IntoIterator<Item = Diagnostic>) {
        self.found.extend(errors);
    }

    fn with_subject(&self, message: &impl fmt::Display) -> String {
        match self.subject.as_str() {
            "" => message.to_string(),
            subject => format!("{subject}: {message}"),
        }
    }

    /// All that was found, by place.
    pub fn finish(mut self) -> Result<(), PipelineErrors> {
        self.found.sort_by_key(|error| error.place);
        self.found.dedup();
        match self.found.is_empty() {
            true => Ok(()),
            false => Err(PipelineErrors(self.found)),
        }
    }
}
