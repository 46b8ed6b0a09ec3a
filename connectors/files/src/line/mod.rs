//! Lines as records and outputs as lines.
mod input;
mod output;

pub(crate) use input::parse;
pub(crate) use output::write_line;

#[cfg(test)]
mod tests;
