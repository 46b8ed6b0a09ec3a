//! The program `keyfold`.
#![deny(missing_docs)]

use keyfold_service::demo;

use clap::{Parser, Subcommand};
use keyfold::runtime::{ExitCode, RuntimeError};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Folds Kafka records into keyed state, exactly once.
///
/// Exit codes: 0 done, 1 failed (starting again is right), 12 another instance has taken over, 13 going on would be
/// wrong. RUST_LOG sets what is logged to standard error (default: warn).
#[derive(Parser)]
#[command(name = "keyfold", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kills a running job with SIGKILL, starts it again and proves that nothing is lost or counted twice.
    Demo(demo::DemoOptions),
    /// The process that the demonstration kills.
    #[command(hide = true)]
    DemoWorker(demo::WorkerOptions),
    /// Prints the version.
    Version,
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    let result = match cli.command {
        Command::Demo(options) => demo::run(&options),
        Command::DemoWorker(options) => demo::work(&options),
        Command::Version => {
            println!("keyfold {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::Ok)
        }
    };
    let code = result.unwrap_or_else(|error| {
        eprintln!("keyfold: {error:#}");
        exit_code(&error)
    });
    std::process::ExitCode::from(code as u8)
}

/// The client library calls the end of a partition an error, and every retry a warning.
const QUIET: &str = "warn,librdkafka=off,rdkafka=off";

fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(QUIET));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    if let Some(error) = error.downcast_ref::<RuntimeError>() {
        return error.exit_code();
    }
    error
        .downcast_ref::<demo::WorkerEnded>()
        .map_or(ExitCode::Failed, demo::WorkerEnded::exit_code)
}
