//! The keys of a pipeline file that belong to a connector.
use crate::nearest;
use crate::yaml::{Diagnostic, Kind, Node, Source};
use std::path::{Path, PathBuf};

/// A key with its value and places.
#[derive(Debug, Clone, Copy)]
pub struct Key<'y> {
    /// Its name.
    pub name: &'y str,
    /// Where the name stands.
    pub at: &'y Node,
    /// The value.
    pub value: &'y Node,
}

/// The keys of one source or sink, read by its connector; what is wrong is collected with its place.
pub struct Keys<'y> {
    file: &'y Source,
    folder: &'y Path,
    subject: String,
    /// What names the connector.
    at: &'y Node,
    left: Vec<Key<'y>>,
    /// Keys that the connector has asked for.
    known: Vec<&'static str>,
    errors: Vec<Diagnostic>,
}

impl<'y> Keys<'y> {
    /// `folder` is the pipeline file's, `subject` begins messages, and `at` names the connector.
    #[must_use]
    pub fn new(file: &'y Source, folder: &'y Path, subject: &str, at: &'y Node, keys: Vec<Key<'y>>) -> Keys<'y> {
        Keys {
            file,
            folder,
            subject: subject.to_owned(),
            at,
            left: keys,
            known: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// A text.
    pub fn text(&mut self, name: &'static str) -> Option<&'y str> {
        let value = self.take(name)?;
        match value.scalar() {
            Some(text) if !text.is_empty() => Some(text),
            _ => {
                let message = format!("`{name}` is {} where a text is expected", value.noun());
                self.wrong(value, &message, "quote it if it is one");
                None
            }
        }
    }

    /// A text that must be there; `example` shows it.
    pub fn need(&mut self, name: &'static str, example: &str) -> Option<&'y str> {
        if !self.left.iter().any(|key| key.name == name) {
            self.known.push(name);
            let at = self.at;
            self.wrong(at, &format!("`{name}` is missing"), &format!("add `{example}`"));
            return None;
        }
        self.text(name)
    }

    /// A path; a relative one is relative to the pipeline file.
    pub fn path(&mut self, name: &'static str, example: &str) -> Option<PathBuf> {
        self.need(name, example).map(|text| self.folder.join(text))
    }

    /// A whole number from `min` on.
    pub fn number(&mut self, name: &'static str, min: u64) -> Option<u64> {
        let value = self.take(name)?;
        let number = (value.kind == Kind::Int)
            .then(|| value.text.parse::<u64>().ok())
            .flatten();
        match number {
            Some(number) if number >= min => Some(number),
            _ => {
                let message = format!("`{name}: {}` is no whole number from {min} on", value.text);
                self.wrong(value, &message, &format!("write `{name}: {}`", min.max(1)));
                None
            }
        }
    }

    /// The value of a key that is not taken yet.
    #[must_use]
    pub fn peek(&self, name: &str) -> Option<&'y Node> {
        self.left.iter().find(|key| key.name == name).map(|key| key.value)
    }

    /// The node of a key, for shapes that are the connector's own.
    pub fn take(&mut self, name: &'static str) -> Option<&'y Node> {
        self.known.push(name);
        let at = self.left.iter().position(|key| key.name == name)?;
        Some(self.left.remove(at).value)
    }

    /// Notes what is wrong, and the way out.
    pub fn wrong(&mut self, at: &Node, message: &str, help: &str) {
        let message = match self.subject.as_str() {
            "" => message.to_owned(),
            subject => format!("{subject}: {message}"),
        };
        self.errors.push(self.file.at(at, message).help(help));
    }

    /// A connector that is no source, or no sink.
    pub fn refuse(&mut self, message: &str, help: &str) {
        let at = self.at;
        self.wrong(at, message, help);
        self.left.clear();
    }

    /// All that is wrong, with the keys that nobody asked for. `common` are those that sources or sinks of every connector have.
    #[must_use]
    pub fn finish(mut self, common: &[&str]) -> Vec<Diagnostic> {
        for key in std::mem::take(&mut self.left) {
            let known = self.known.iter().copied().chain(common.iter().copied());
            let help = nearest::help(key.name, known);
            self.wrong(key.at, &format!("unknown key `{}`", key.name), &help);
        }
        self.errors
    }
}
