//! How a value becomes bytes and back. The codec's name and version are kept with the state, so that a changed type is refused.
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// Bytes that do not decode, or a value that does not encode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{codec}: {reason}")]
pub struct CodecError {
    /// The codec's schema name.
    pub codec: String,
    /// What was wrong.
    pub reason: String,
}

/// Encodes and decodes `T`. Called for every record or changed entry, on lanes.
pub trait Codec<T>: Send + Sync {
    /// Appends the encoding of `value` to `out`.
    ///
    /// # Errors
    /// When the value has no encoding.
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError>;
    /// Decodes all of `bytes`.
    ///
    /// # Errors
    /// When the bytes are not an encoding of a `T`.
    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError>;
    /// Name and version of the encoding, kept per state; a restore under another one is refused.
    fn schema(&self) -> String;
    /// About how many bytes of memory `value` has on the heap, where that is known at once: asked after every change of a state, so that one
    /// that grows counts in the memory budget as it grows. Without it a value counts with the length that it had when it was encoded last.
    fn weight(&self, _value: &T) -> Option<usize> {
        None
    }
}

fn error(codec: &str, reason: impl ToString) -> CodecError {
    CodecError {
        codec: codec.to_owned(),
        reason: reason.to_string(),
    }
}

/// Postcard (serde), the default for state values: compact, documented, stable.
pub struct Postcard<T> {
    version: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Postcard<T> {
    /// `version` is the caller's version of the type `T`: raise it when the type changes.
    #[must_use]
    pub fn new(version: u32) -> Self {
        Postcard {
            version,
            kind: PhantomData,
        }
    }
}

impl<T: Serialize + DeserializeOwned> Codec<T> for Postcard<T> {
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        postcard::to_io(value, out)
            .map(|_| ())
            .map_err(|e| error("postcard", e))
    }
    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError> {
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => Err(error("postcard", format!("{} bytes left over", rest.len()))),
            Err(e) => Err(error("postcard", e)),
        }
    }
    fn schema(&self) -> String {
        format!("postcard/{}", self.version)
    }
}

/// JSON (serde).
pub struct Json<T> {
    version: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Json<T> {
    /// `version` is the caller's version of the type `T`.
    #[must_use]
    pub fn new(version: u32) -> Self {
        Json {
            version,
            kind: PhantomData,
        }
    }
}

impl<T: Serialize + DeserializeOwned> Codec<T> for Json<T> {
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        serde_json::to_writer(out, value).map_err(|e| error("json", e))
    }
    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError> {
        serde_json::from_slice(bytes).map_err(|e| error("json", e))
    }
    fn schema(&self) -> String {
        format!("json/{}", self.version)
    }
}

/// UTF-8 text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Utf8;

impl Codec<String> for Utf8 {
    fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }
    fn decode(&self, bytes: &[u8]) -> Result<String, CodecError> {
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|e| error("utf8", e))
    }
    fn schema(&self) -> String {
        "utf8/1".to_owned()
    }
    fn weight(&self, value: &String) -> Option<usize> {
        Some(value.capacity())
    }
}

/// Any bytes, as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Raw;

impl Codec<Vec<u8>> for Raw {
    fn encode(&self, value: &Vec<u8>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value);
        Ok(())
    }
    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(bytes.to_vec())
    }
    fn schema(&self) -> String {
        "raw/1".to_owned()
    }
    fn weight(&self, value: &Vec<u8>) -> Option<usize> {
        Some(value.capacity())
    }
}

/// 8 bytes, big-endian two's complement, as Java's LongSerializer.
#[derive(Debug, Clone, Copy, Default)]
pub struct LongBe;

impl Codec<i64> for LongBe {
    fn encode(&self, value: &i64, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(&value.to_be_bytes());
        Ok(())
    }
    fn decode(&self, bytes: &[u8]) -> Result<i64, CodecError> {
        let array = bytes
            .try_into()
            .map_err(|_| error("long", format!("{} bytes, not 8", bytes.len())))?;
        Ok(i64::from_be_bytes(array))
    }
    fn schema(&self) -> String {
        "long/1".to_owned()
    }
}

/// 8 bytes, big-endian, without sign: counts.
impl Codec<u64> for LongBe {
    fn encode(&self, value: &u64, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(&value.to_be_bytes());
        Ok(())
    }
    fn decode(&self, bytes: &[u8]) -> Result<u64, CodecError> {
        let array = bytes
            .try_into()
            .map_err(|_| error("ulong", format!("{} bytes, not 8", bytes.len())))?;
        Ok(u64::from_be_bytes(array))
    }
    fn schema(&self) -> String {
        "ulong/1".to_owned()
    }
}
