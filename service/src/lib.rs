//! The program `keyfold` as a library: pipelines in YAML, their expressions and formats, settings, health and metrics.
//!
//! ```text
//! pipeline file -> spec (YAML, with places) -> plan (schemas checked, expressions compiled) -> topology (engine)
//! ```
#![deny(missing_docs)]

pub mod demo;
pub mod nearest;
pub mod registry;
pub mod value;
pub mod yaml;
