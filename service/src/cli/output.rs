//! What goes to standard output.
use super::Done;
use serde::Serialize;
use std::io::{self, Write};

/// How a command writes its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Writes an answer. Whoever reads may stop before its end, as `head` does.
pub(super) fn put(text: &str) -> Done {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("standard output").into())
        }
        _ => Ok(0),
    }
}

/// Writes an answer as JSON, indented, since people read it too.
pub(super) fn put_json(answer: &impl Serialize) -> Done {
    put(&format!("{}\n", serde_json::to_string_pretty(answer)?))
}
