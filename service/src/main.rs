//! The program `keyfold`.
#![deny(missing_docs)]

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(keyfold_service::cli::main())
}
