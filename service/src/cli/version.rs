//! `keyfold version`.
use super::Done;
use super::output::{Output, put, put_json};

/// The program's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn run(output: Output) -> Done {
    let client = keyfold_kafka::client_version();
    match output {
        Output::Text => put(&format!("keyfold {VERSION}\n{client}\n")),
        Output::Json => put_json(&serde_json::json!({ "keyfold": VERSION, "client": client })),
    }
}
