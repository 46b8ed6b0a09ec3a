//! JSON. Reading goes from serde_json's parser straight into values, without a tree between; writing is by hand.
mod fault;
mod read;
mod scalar;
mod shape;
mod write;

#[cfg(test)]
mod tests;

pub(super) use read::JsonReader;
pub(super) use write::JsonWriter;
