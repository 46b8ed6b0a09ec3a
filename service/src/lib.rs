//! The program `keyfold` as a library: pipelines in YAML, their expressions and formats, settings, health and metrics.
//!
//! ```text
//! pipeline file -> spec (YAML, with places) -> plan (schemas checked, expressions compiled) -> topology (engine)
//! ```
#![deny(missing_docs)]

pub mod cli;
pub mod console;
pub mod demo;
pub mod expr;
pub mod format;
pub mod http;
pub mod logging;
pub mod nearest;
pub mod observe;
pub mod pipeline;
pub mod registry;
pub mod run;
pub mod settings;
pub mod value;
pub mod yaml;
