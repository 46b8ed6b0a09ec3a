//! Avro: the binary datum. The crate `apache_avro` parses the schema; reading and writing go by a program that is compiled from it, straight from
//! bytes to values and back. Lengths, counts and types are held to what is there before memory is taken; the crate, which bounds
//! what one datum allocates for the whole process only, is the oracle of the tests.
mod cursor;
mod derive;
mod node;
mod read;
mod write;

#[cfg(test)]
mod tests;

use derive::derive;
use node::Node;
pub(super) use read::AvroReader;
pub(super) use write::AvroWriter;

use super::error::FormatError;
use crate::value::Type;

/// An Avro schema that Keyfold can read and write.
#[derive(Debug)]
pub struct AvroSchema {
    ty: Type,
    node: Node,
}

impl AvroSchema {
    /// From the text of a schema file (`.avsc`).
    ///
    /// # Errors
    /// It is no Avro schema, or has types that rows cannot hold: the error names the field and what to do instead.
    pub fn parse(text: &str) -> Result<AvroSchema, FormatError> {
        let schema = apache_avro::Schema::parse_str(text)
            .map_err(|error| FormatError::new(format!("no Avro schema: {error}")))?;
        let (ty, node) = derive(&schema)?;
        Ok(AvroSchema { ty, node })
    }

    /// The type of a datum.
    #[must_use]
    pub fn ty(&self) -> &Type {
        &self.ty
    }
}
