//! Formats as a pipeline file names them.
use super::flow::is_pseudo;
use super::report::Report;
use super::spec::{Fields, text};
use super::types;
use crate::format::{AvroSchema, FORMAT_NAMES, Format};
use crate::nearest;
use crate::value::{Schema, Type};
use crate::yaml::{Kind, Node};
use std::path::Path;
use std::sync::Arc;

/// A format with the columns that it reads.
pub struct Described {
    pub format: Format,
    pub schema: Schema,
    /// Columns whose type could not be read.
    pub poisoned: Vec<String>,
}

const SOURCE_SHAPE: &str = "write `value: { format: json, schema: { .. } }`, `value: { format: avro, schema_file: order.avsc }`, or one of string, long, double, bytes";
const SINK_SHAPE: &str =
    "write one of json, string, long, double, bytes, or `{ format: avro, schema_file: total.avsc }`";

/// What a source's values are read as.
pub fn of_value(node: &Node, folder: &Path, report: &mut Report<'_>) -> Option<Described> {
    let (format, schema) = read(node, folder, report)?;
    if let Some(schema) = format.schema() {
        if let Some(taken) = schema.fields().iter().find(|field| is_pseudo(&field.name)) {
            let message = format!(
                "the field `{}` of the {} record has the name of a pseudo-column",
                taken.name,
                format.name()
            );
            let help = "give it another name in the schema file: the data has no names in it";
            report.at(node, message, help);
            return None;
        }
        return Some(Described {
            format,
            schema,
            poisoned: Vec::new(),
        });
    }
    let (schema, poisoned) = types::schema(schema?, report)?;
    Some(Described {
        format,
        schema,
        poisoned,
    })
}

/// What a source's keys are read as: a format, and the type of a key.
pub fn of_key(node: &Node, folder: &Path, report: &mut Report<'_>) -> Option<(Format, Type)> {
    let (format, schema) = read(node, folder, report)?;
    let ty = match format.datum_type() {
        Some(ty) => ty,
        None => types::read(schema?, report)?,
    };
    Some((format, ty))
}

/// A format, and for JSON the schema.
fn read<'y>(node: &'y Node, folder: &Path, report: &mut Report<'_>) -> Option<(Format, Option<&'y Node>)> {
    let (name, fields) = named(node, SOURCE_SHAPE, report)?;
    match (name.text.as_str(), fields) {
        ("json", Some(mut fields)) => {
            let schema = fields.need("schema", "schema: { customer: string, .. }", report);
            fields.finish(&["format", "schema"], report);
            Some((Format::Json, Some(schema?)))
        }
        ("json", None) => {
            report.at(
                name,
                "json has columns, and nothing says which",
                "write `{ format: json, schema: { customer: string, .. } }`",
            );
            None
        }
        ("avro", Some(fields)) => Some((Format::Avro(avro(fields, folder, report)?), None)),
        ("avro", None) => {
            report.at(
                name,
                "avro needs the schema that the data was written with",
                "write `{ format: avro, schema_file: order.avsc }`",
            );
            None
        }
        (_, fields) => {
            // Which keys an unknown format has, nobody knows.
            let format = single(name, report)?;
            finish(fields, report);
            Some((format, None))
        }
    }
}

/// What a sink writes keys or values as.
pub fn of_sink(node: &Node, folder: &Path, report: &mut Report<'_>) -> Option<Format> {
    let (name, fields) = named(node, SINK_SHAPE, report)?;
    match (name.text.as_str(), fields) {
        ("avro", Some(fields)) => avro(fields, folder, report).map(Format::Avro),
        ("avro", None) => {
            report.at(
                name,
                "avro needs a schema to write with",
                "write `{ format: avro, schema_file: total.avsc }`",
            );
            None
        }
        ("json", fields) => {
            finish(fields, report);
            Some(Format::Json)
        }
        (_, fields) => {
            let format = single(name, report)?;
            finish(fields, report);
            Some(format)
        }
    }
}

fn finish(fields: Option<Fields<'_>>, report: &mut Report<'_>) {
    if let Some(fields) = fields {
        fields.finish(&["format"], report);
    }
}

/// The name of a format, and what else is said of it.
fn named<'y>(node: &'y Node, shape: &str, report: &mut Report<'_>) -> Option<(&'y Node, Option<Fields<'y>>)> {
    if !matches!(node.kind, Kind::Map(_)) {
        let name = text(node, "the name of a format", report)?;
        return Some((name, None));
    }
    let mut fields = Fields::of(node, shape, report)?;
    let name = fields.need("format", "format: json", report)?;
    let name = text(name, "the name of a format", report)?;
    Some((name, Some(fields)))
}

/// A format of one value without a name.
fn single(name: &Node, report: &mut Report<'_>) -> Option<Format> {
    Some(match name.text.as_str() {
        "string" => Format::String,
        "long" => Format::Long,
        "double" => Format::Double,
        "bytes" => Format::Bytes,
        other => {
            let help = nearest::help(other, FORMAT_NAMES.iter().copied());
            report.at(name, format!("unknown format `{other}`"), help);
            return None;
        }
    })
}

/// Reads the schema's file.
fn avro(mut fields: Fields<'_>, folder: &Path, report: &mut Report<'_>) -> Option<Arc<AvroSchema>> {
    let file = fields.need("schema_file", "schema_file: order.avsc", report);
    fields.finish(&["format", "schema_file"], report);
    let node = text(file?, "the name of a file with an Avro schema", report)?;
    let path = folder.join(&node.text);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) => {
            let message = format!("the schema {} cannot be read: {e}", path.display());
            report.at(node, message, "the path is relative to the pipeline file");
            return None;
        }
    };
    match AvroSchema::parse(&text) {
        Ok(schema) => Some(Arc::new(schema)),
        Err(error) => {
            let help = error
                .help
                .unwrap_or_else(|| "the file holds an Avro schema as JSON".to_owned());
            report.at(node, format!("{}: {}", path.display(), error.message), help);
            None
        }
    }
}
