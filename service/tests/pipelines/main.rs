//! Pipelines from their files to their outputs, on a broker in memory.
mod docs;
mod errors;
mod keys;
mod samples;
mod state;
mod steps;
mod support;
mod topology;
