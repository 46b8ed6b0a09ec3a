//! YAML files as a small tree in which everything knows its place, and messages that point at places.
//!
//! Nothing else of the program names the YAML crate. What files of pipelines and settings do not need is refused here: tags, directives, merge
//! keys, more than one document. What could grow is bounded: the file, the depth, and what aliases multiply. One thing is taken that YAML
//! reads otherwise: a comma inside of parentheses does not end a scalar between braces or brackets, so that `{ amount: decimal(18,2) }` is a
//! mapping of one entry.
//!
//! ```
//! use keyfold_service::yaml::{Kind, Source};
//! let source = Source::new("totals.yaml", "job: totals\nsteps: [{ id: paid, filter: amout > 0 }]\n");
//! let tree = source.parse()?;
//! let Kind::List(steps) = &tree.get("steps").expect("it is there").kind else { panic!("a list") };
//! let filter = steps[0].get("filter").expect("it is there");
//! let wrong = source.inside(filter, 0..5, "step paid: unknown column `amout`").help("did you mean `amount`?");
//! let expected = "totals.yaml:2:29: step paid: unknown column `amout`
//!    2 | steps: [{ id: paid, filter: amout > 0 }]
//!      |                             ^^^^^
//! help: did you mean `amount`?";
//! assert_eq!(wrong.to_string(), expected);
//! # Ok::<(), keyfold_service::yaml::YamlError>(())
//! ```
mod build;
mod diagnostic;
mod node;
mod source;

pub use diagnostic::{Diagnostic, Place};
pub use node::{Kind, Node};
pub use source::Source;

/// Why a file is not YAML that we take, and where.
pub type YamlError = Diagnostic;

/// Largest file, in bytes. A pipeline of a thousand steps is a tenth of it; beyond that it is not written by hand, and places cost too much.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// How deep lists and mappings may lie in each other. A struct in a struct takes two; nothing that is read by people comes near it, and the
/// tree is walked by recursion.
pub const DEPTH_MAX: usize = 64;
/// Nodes of a tree, those that aliases repeat included.
pub const NODES_MAX: usize = 100_000;
/// Bytes of all scalars of a tree, those that aliases repeat included.
pub const TEXT_BYTES_MAX: usize = 8 << 20;

/// Parses the text of a file; `file` is its name for messages. An empty file is [`Kind::Null`].
///
/// # Errors
/// What the text has that we do not take, with its place.
pub fn parse(file: &str, text: &str) -> Result<Node, YamlError> {
    Source::new(file, text).parse()
}

#[cfg(test)]
mod tests;
