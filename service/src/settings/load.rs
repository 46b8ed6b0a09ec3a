//! From the table, a file, the environment and flags to the effective settings.
use super::interpolate::interpolate;
use super::kind::{Kind, Value};
use super::table::{ALL, PREFIX, Setting, find};
use super::{Origin, Property, Settings, apply};
use crate::nearest;
use crate::yaml::{Diagnostic, Kind as Yaml, Node, Source};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// The environment of the process.
pub type Variables = BTreeMap<String, OsString>;

/// Where values may come from.
#[derive(Debug, Default)]
pub struct Layers {
    /// The file of `--config`.
    pub file: Option<PathBuf>,
    /// The environment.
    pub variables: Variables,
    /// Flags and their values, in order.
    pub flags: Vec<(&'static Setting, String)>,
}

/// Names the file.
const CONFIG: &str = "KEYFOLD_CONFIG";

impl Layers {
    /// Puts the layers together and checks the result.
    ///
    /// # Errors
    /// Everything that is wrong, in the order file, environment, flags.
    pub fn load(&self) -> Result<Settings, Vec<Diagnostic>> {
        let mut loader = Loader {
            variables: &self.variables,
            values: BTreeMap::new(),
            properties: BTreeMap::new(),
            wrong: Vec::new(),
        };
        for setting in ALL.iter().filter(|setting| !setting.is_properties()) {
            loader.set_outside(setting, setting.default, Origin::Default);
        }
        if let Some(path) = &self.file {
            loader.file(path);
        }
        loader.environment();
        for (setting, text) in &self.flags {
            loader.flag(setting, text);
        }
        let Loader {
            values,
            properties,
            wrong,
            ..
        } = loader;
        apply::checked(values, properties, wrong)
    }
}

/// What is wrong with a value.
struct Wrong {
    message: String,
    help: String,
}

struct Loader<'a> {
    variables: &'a Variables,
    values: BTreeMap<&'static str, (Value, Origin)>,
    properties: BTreeMap<&'static str, BTreeMap<String, Property>>,
    wrong: Vec<Diagnostic>,
}

impl Loader<'_> {
    /// Reads a value; `written` is how messages show it.
    ///
    /// # Errors
    /// What is wrong with it, and the way out.
    fn set(&mut self, setting: &'static Setting, text: &str, written: &str, origin: Origin) -> Result<(), Wrong> {
        let value = match setting.auto {
            Some(_) if text == "auto" => Ok(Value::Auto),
            _ => setting.kind.parse(text),
        };
        let value = value.map_err(|why| Wrong {
            message: format!("setting {}: `{written}` {why}", setting.name),
            help: help_with(setting, text),
        })?;
        self.values.insert(setting.name, (value, origin));
        Ok(())
    }

    /// A value that is no part of a file.
    fn set_outside(&mut self, setting: &'static Setting, text: &str, origin: Origin) {
        if let Err(Wrong { message, help }) = self.set(setting, text, text, origin.clone()) {
            self.wrong.push(origin.diagnostic(message).help(help));
        }
    }

    fn set_property(&mut self, setting: &'static Setting, name: &str, value: String, origin: Origin) {
        let property = Property { value, origin };
        self.properties
            .entry(setting.name)
            .or_default()
            .insert(name.to_owned(), property);
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name)?.to_str().map(str::to_owned)
    }

    // ---- the file ----

    fn file(&mut self, path: &std::path::Path) {
        let read = Source::read(path).and_then(|source| source.parse().map(|tree| (source, tree)));
        match read {
            Ok((source, tree)) => self.mapping(&Arc::new(source), &tree, ""),
            Err(error) => self.wrong.push(error),
        }
    }

    fn mapping(&mut self, source: &Arc<Source>, node: &Node, prefix: &str) {
        let entries = match &node.kind {
            Yaml::Map(entries) => entries,
            // Nothing but comments.
            Yaml::Null => return,
            _ => {
                let message = format!("settings are a mapping, and this is {}", node.noun());
                self.wrong
                    .push(source.at(node, message).help("write `name: value`, one a line"));
                return;
            }
        };
        for (key, value) in entries {
            let name = format!("{prefix}{}", key.text);
            let section = format!("{name}.");
            match find(&name) {
                Some(setting) if key.text.contains('.') => {
                    self.wrong.push(source.at(key, dotted(setting)).help(nested(setting)))
                }
                Some(setting) if setting.is_properties() => self.property_mapping(source, setting, value),
                Some(setting) => self.scalar(source, setting, key, value),
                None if ALL.iter().any(|setting| setting.name.starts_with(&section)) => {
                    self.mapping(source, value, &section)
                }
                None => {
                    let help = unknown_help(&name);
                    let wrong = source.at(key, format!("unknown setting `{name}`"));
                    // Its value may be a secret that was put in the wrong place.
                    self.wrong.push(wrong.without_line().help(help));
                }
            }
        }
    }

    fn scalar(&mut self, source: &Arc<Source>, setting: &'static Setting, key: &Node, value: &Node) {
        let Some(text) = value.scalar() else {
            let message = format!("setting {} {}", setting.name, no_value(value));
            self.wrong.push(source.at(key, message).help(expected(setting)));
            return;
        };
        let Some(filled) = self.fill(source, value, text) else {
            return;
        };
        let origin = Origin::File(source.clone(), Box::new(key.clone()));
        if let Err(Wrong { message, help }) = self.set(setting, &filled, text, origin) {
            self.wrong.push(source.at(value, message).help(help));
        }
    }

    fn property_mapping(&mut self, source: &Arc<Source>, setting: &'static Setting, node: &Node) {
        let entries = match &node.kind {
            Yaml::Map(entries) => entries,
            Yaml::Null => return,
            _ => {
                let message = format!("setting {}: {} is no mapping", setting.name, node.noun());
                self.wrong.push(source.at(node, message).help(expected(setting)));
                return;
            }
        };
        for (key, value) in entries {
            let Some(text) = value.scalar() else {
                let message = format!("property {} {}", key.text, no_value(value));
                self.wrong.push(
                    source
                        .at(key, message)
                        .without_line()
                        .help("write one value, such as `client.id: orders`"),
                );
                continue;
            };
            if let Some(filled) = self.fill(source, value, text) {
                let origin = Origin::File(source.clone(), Box::new(key.clone()));
                self.set_property(setting, &key.text, filled, origin);
            }
        }
    }

    fn fill(&mut self, source: &Source, node: &Node, text: &str) -> Option<String> {
        match interpolate(text, |name| self.variable(name)) {
            Ok(filled) => Some(filled),
            Err(unfilled) => {
                let wrong = source.inside(node, unfilled.span, unfilled.message);
                self.wrong.push(wrong.without_line().help(unfilled.help));
                None
            }
        }
    }

    // ---- the environment ----

    fn environment(&mut self) {
        for (name, value) in self.variables {
            let Some(rest) = name.strip_prefix(PREFIX) else {
                continue;
            };
            if name == CONFIG || is_kubernetes(rest) {
                continue;
            }
            let origin = Origin::Variable(name.clone());
            let Some(value) = value.to_str() else {
                self.wrong.push(origin.diagnostic("the value is not UTF-8"));
                continue;
            };
            if let Some(setting) = ALL.iter().find(|setting| setting.variable() == *name) {
                if setting.is_properties() {
                    let help =
                        format!("one variable for each property: {name}_SECURITY_PROTOCOL=ssl sets security.protocol");
                    self.wrong
                        .push(origin.diagnostic("properties are no single value").help(help));
                } else {
                    self.set_outside(setting, value, origin);
                }
            } else if let Some((setting, property)) = property_of(name) {
                self.set_property(setting, &property, value.to_owned(), origin);
            } else {
                self.wrong.push(
                    origin
                        .diagnostic("no setting has this variable")
                        .help(unknown_variable(rest)),
                );
            }
        }
    }

    // ---- flags ----

    fn flag(&mut self, setting: &'static Setting, text: &str) {
        let origin = Origin::Flag(format!("--{}", setting.flag()));
        if !setting.is_properties() {
            self.set_outside(setting, text, origin);
            return;
        }
        match text.split_once('=').filter(|(name, _)| !name.is_empty()) {
            Some((name, value)) => self.set_property(setting, name, value.to_owned(), origin),
            // Not shown: it may be a secret.
            None => self.wrong.push(
                origin
                    .diagnostic("the value is not NAME=VALUE")
                    .help(format!("{origin} client.id=orders; once for each property")),
            ),
        }
    }
}

/// A mapping of properties, and the property that a variable names: `KEYFOLD_KAFKA_PROPERTIES_SASL_USERNAME` is `sasl.username`.
fn property_of(variable: &str) -> Option<(&'static Setting, String)> {
    ALL.iter()
        .filter(|setting| setting.is_properties())
        .find_map(|setting| {
            let property = variable.strip_prefix(&setting.variable())?.strip_prefix('_')?;
            (!property.is_empty()).then(|| (*setting, property.replace('_', ".").to_ascii_lowercase()))
        })
}

/// Kubernetes sets these in every pod beside a service of the name `keyfold`.
fn is_kubernetes(rest: &str) -> bool {
    rest == "PORT" || rest == "SERVICE_HOST" || rest.starts_with("PORT_") || rest.starts_with("SERVICE_PORT")
}

fn expected(setting: &Setting) -> String {
    let kind = setting.kind;
    let example = match setting.default {
        "" | "auto" | "false" => kind.example(),
        default => default,
    };
    let auto = if setting.auto.is_some() { ", or auto" } else { "" };
    format!("expected {}{auto}, such as `{example}`", kind.expected())
}

/// The way out of a value that is not taken.
fn help_with(setting: &Setting, text: &str) -> String {
    match setting.kind {
        Kind::Choice(words) => nearest::help(text, words.iter().copied()),
        _ => expected(setting),
    }
}

fn no_value(node: &Node) -> String {
    match node.kind {
        Yaml::Null => "has no value; remove the line to take the default".to_owned(),
        _ => format!("has {} where one value is expected", node.noun()),
    }
}

fn dotted(setting: &Setting) -> String {
    format!("setting {} is a key in a mapping", setting.name)
}

fn nested(setting: &Setting) -> String {
    match setting.name.split_once('.') {
        Some((section, key)) => format!("write `{section}:` and, indented below it, `{key}: ...`"),
        None => String::new(),
    }
}

fn unknown_variable(rest: &str) -> String {
    let names: Vec<String> = ALL.iter().map(|setting| setting.variable()).collect();
    let names = || names.iter().map(String::as_str);
    let (name, last) = (format!("{PREFIX}{rest}"), format!("_{rest}"));
    match nearest::nearest(&name, names()).or_else(|| names().find(|known| known.ends_with(&last))) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "`keyfold settings` lists all; those that begin with KEYFOLD_ are ours, rename another one".to_owned(),
    }
}

fn unknown_help(name: &str) -> String {
    let names = || ALL.iter().map(|setting| setting.name);
    let last = format!(".{name}");
    match nearest::nearest(name, names()).or_else(|| names().find(|known| known.ends_with(&last))) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`keyfold settings` lists all settings, config/keyfold.yaml explains them".to_owned(),
    }
}
