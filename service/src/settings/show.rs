//! Settings for people and programs: what is in effect, and the table as a file and as documentation.
use super::Settings;
use super::table::{ALL, Part, Setting};
use serde::Serialize;
use std::fmt::Write as _;

/// A setting, or a property of the client, in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Its name.
    pub name: String,
    /// Its value; `[redacted]` for secrets.
    pub value: String,
    /// Where that comes from: `default`, `FILE:LINE`, a variable, or a flag.
    pub from: String,
}

/// Stands for the value of a secret.
const REDACTED: &str = "[redacted]";

/// What is in effect, in the order of the table.
#[must_use]
pub fn listing(settings: &Settings) -> Vec<Listing> {
    let mut rows = Vec::new();
    for setting in ALL {
        if !setting.is_properties() {
            rows.push(Listing {
                name: setting.name.to_owned(),
                value: settings.value(setting).to_string(),
                from: settings.origin(setting).to_string(),
            });
        }
        for (name, property) in settings.properties.get(setting.name).into_iter().flatten() {
            let secret = keyfold_kafka::is_secret(name);
            rows.push(Listing {
                name: format!("{}.{name}", setting.name),
                value: if secret {
                    REDACTED.to_owned()
                } else {
                    property.value.clone()
                },
                from: property.origin.to_string(),
            });
        }
    }
    rows
}

const HEAD: &str = "\
# Settings of keyfold, each with its meaning and its default.
# This file is made by `keyfold settings --defaults`. Keep in yours only what you change.
#
#   keyfold run --config FILE PIPELINE
#
# A flag (--epoch-interval 500ms) goes before a variable (KEYFOLD_EPOCH_INTERVAL=500ms), a variable before this file,
# this file before the default. `keyfold settings` shows what is in effect, and where it comes from.
#
# ${NAME} in a value is the variable NAME of the environment, for secrets; $${ is `${` itself.
";

/// `config/keyfold.yaml`: every setting with its default, and what it means.
#[must_use]
pub fn defaults_file() -> String {
    let mut out = String::from(HEAD);
    let mut part = None;
    for setting in ALL {
        let section = setting.name.split_once('.');
        if part != Some(setting.part) {
            part = Some(setting.part);
            let _ = write!(out, "\n# ---- {} ----\n", setting.part.title());
            if let Some((section, _)) = section {
                let _ = write!(out, "\n{section}:");
            }
        }
        let (indent, key) = section.map_or(("", setting.name), |(_, key)| ("  ", key));
        out.push('\n');
        for line in comment(setting) {
            let _ = writeln!(out, "{indent}# {line}");
        }
        let default = if setting.is_properties() { "{}" } else { setting.default };
        let _ = writeln!(out, "{indent}{key}: {default}");
    }
    out
}

fn comment(setting: &Setting) -> Vec<String> {
    let mut lines = wrapped(setting.meaning, 110);
    if setting.is_properties() {
        let example = [
            "security.protocol: sasl_ssl",
            "sasl.mechanism: PLAIN",
            "sasl.username: orders",
            "sasl.password: ${KAFKA_PASSWORD}",
        ];
        if setting.name == "kafka.properties" {
            lines.extend(example.map(|line| format!("    {line}")));
        }
        return lines;
    }
    let mut takes = format!("Takes {}", setting.kind.expected());
    if let Some(auto) = setting.auto {
        let _ = write!(takes, "; or auto, which is {auto}");
    }
    lines.extend(wrapped(&format!("{takes}."), 110));
    lines
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A row of the table, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Described {
    name: &'static str,
    part: &'static str,
    value: String,
    default: &'static str,
    auto: Option<&'static str>,
    meaning: &'static str,
    variable: String,
    flag: String,
}

/// The table.
#[must_use]
pub fn defaults_json() -> Vec<Described> {
    let described = |setting: &&'static Setting| Described {
        name: setting.name,
        part: setting.part.title(),
        value: setting.kind.expected(),
        default: setting.default,
        auto: setting.auto,
        meaning: setting.meaning,
        variable: setting.variable(),
        flag: format!("--{}", setting.flag()),
    };
    ALL.iter().map(described).collect()
}

/// The table of docs/settings.md.
#[must_use]
pub fn defaults_markdown() -> String {
    let mut out = String::new();
    let mut part: Option<Part> = None;
    for setting in ALL {
        if part != Some(setting.part) {
            part = Some(setting.part);
            let _ = write!(
                out,
                "\n### {}\n\n| setting | default | value | meaning |\n|---|---|---|---|\n",
                setting.part.title()
            );
        }
        let default = match (setting.default, setting.auto) {
            ("", _) => "none".to_owned(),
            ("auto", Some(auto)) => format!("`auto`: {auto}"),
            (default, _) => format!("`{default}`"),
        };
        let (name, value) = (setting.name, setting.kind.expected());
        let _ = writeln!(out, "| `{name}` | {default} | {value} | {} |", setting.meaning);
    }
    out
}
