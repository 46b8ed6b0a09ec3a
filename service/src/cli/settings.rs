//! `keyfold settings`.
use super::output::{put, put_json};
use super::{Done, Failure};
use crate::settings::{Listing, SettingFlags, defaults_file, defaults_json, defaults_markdown, listing};
use std::fmt::Write;

/// Options of `keyfold settings`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Shows every setting with its default and its meaning instead: as text it is config/keyfold.yaml.
    #[arg(long)]
    defaults: bool,
    /// How they are written. markdown is the table of docs/settings.md.
    #[arg(long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    settings: SettingFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Form {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For documentation.
    Markdown,
}

pub(super) fn run(options: &Options) -> Done {
    if options.defaults {
        return match options.output {
            Form::Text => put(&defaults_file()),
            Form::Json => put_json(&defaults_json()),
            Form::Markdown => put(&defaults_markdown()),
        };
    }
    let rows = listing(&options.settings.load().map_err(Failure::Given)?);
    match options.output {
        Form::Text => put(&columns(&rows)),
        Form::Json => put_json(&rows),
        Form::Markdown => put(&markdown(&rows)),
    }
}

fn columns(rows: &[Listing]) -> String {
    let widest = |of: fn(&Listing) -> &str, title: &str| {
        rows.iter()
            .map(|row| of(row).chars().count())
            .max()
            .unwrap_or(0)
            .max(title.len())
    };
    let name = widest(|row| &row.name, "SETTING");
    let value = widest(|row| &row.value, "VALUE");
    let mut out = format!("{:name$}  {:value$}  FROM\n", "SETTING", "VALUE");
    for row in rows {
        let _ = writeln!(out, "{:name$}  {:value$}  {}", row.name, row.value, row.from);
    }
    out
}

fn markdown(rows: &[Listing]) -> String {
    let mut out = String::from("| setting | value | from |\n|---|---|---|\n");
    for row in rows {
        let _ = writeln!(out, "| `{}` | `{}` | {} |", row.name, row.value, row.from);
    }
    out
}
