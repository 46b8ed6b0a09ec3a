//! `connector: files`.
use super::{Connector, Keys, SinkConnector, SourceConnector};
use crate::nearest;
use crate::run::Commits;
use keyfold_files::{FilesSink, FilesSource, FilesSourceConfig, Lines};
use std::sync::Arc;

/// Directories of JSON-lines files.
pub struct Files;

/// What a line is.
fn lines(keys: &mut Keys<'_>) -> Option<Lines> {
    let format = keys.take("lines");
    let timestamp_field = keys.text("timestamp_field").map(str::to_owned);
    match format.map(|node| (node, node.text.as_str())) {
        None | Some((_, "value")) => Some(Lines::Value { timestamp_field }),
        Some((node, "envelope")) => {
            if timestamp_field.is_some() {
                keys.wrong(
                    node,
                    "an envelope has a timestamp of its own",
                    "remove `timestamp_field`",
                );
            }
            Some(Lines::Envelope)
        }
        Some((node, other)) => {
            let help = nearest::help(other, ["value", "envelope"]);
            keys.wrong(node, &format!("`lines: {other}` is no kind of line"), &help);
            None
        }
    }
}

impl Connector for Files {
    fn source(&self, keys: &mut Keys<'_>) -> Option<SourceConnector> {
        let dir = keys.path("dir", "dir: input");
        let topic = keys.text("topic").map(str::to_owned);
        let lines = lines(keys);
        let line_bytes_max = keys.number("line_bytes_max", 1);
        let mut config = FilesSourceConfig::new(dir?);
        config.topic = topic;
        config.lines = lines?;
        if let Some(bytes) = line_bytes_max {
            config.line_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        Some(SourceConnector {
            describe: format!("files {}", config.dir.display()),
            topic: config.topic_name(),
            commits: Commits::Store,
            make: Arc::new(move || Box::new(FilesSource::from_config(config.clone()))),
        })
    }

    fn sink(&self, keys: &mut Keys<'_>) -> Option<SinkConnector> {
        let dir = keys.path("dir", "dir: output")?;
        Some(SinkConnector {
            describe: format!("files {}", dir.display()),
            commits: Commits::Store,
            make: Arc::new(move |_| Ok(FilesSink::new(dir.clone()).into())),
        })
    }
}
