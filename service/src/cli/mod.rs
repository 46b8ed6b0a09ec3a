//! The command line.
mod output;
mod pipeline;
mod settings;
mod version;

use crate::console::Console;
use crate::demo;
use crate::logging;
use crate::run::RunError;
use crate::settings::{LogSettings, SettingFlags};
use crate::yaml::Diagnostic;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use keyfold::runtime::{ExitCode, RuntimeError};
use output::{Output, put};

/// Exit code for flags, settings or files that are wrong: nothing has begun. clap has the same.
const USAGE: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes:
  0    done; of `run`: stopped as asked, the last epoch is committed
  1    failed; starting again is right
  2    flags, settings or the pipeline file are wrong; nothing has begun
  12   another instance has taken over; do not start this one again by itself
  13   going on would be wrong; read the message and act, then start again
  130  ended at once by a second SIGINT (Ctrl-C); what was not committed is replayed at the next start";

/// Folds Kafka records into keyed state, exactly once.
#[derive(Parser)]
#[command(name = "keyfold", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a pipeline until it is stopped (SIGINT, SIGTERM).
    #[command(after_help = EXIT_CODES)]
    Run(pipeline::RunOptions),
    /// Checks a pipeline file and tells all that is wrong with it. Needs no broker.
    Validate(pipeline::ValidateOptions),
    /// Shows what a pipeline does: as text, or as a chart.
    Topology(pipeline::TopologyOptions),
    /// Kills a running job with SIGKILL, starts it again and proves that nothing is lost or counted twice.
    #[command(after_help = EXIT_CODES)]
    Demo(demo::DemoOptions),
    /// The process that the demonstration kills.
    #[command(hide = true)]
    DemoWorker(demo::WorkerOptions),
    /// Shows the settings in effect, and where each comes from. Secrets are not shown.
    Settings(settings::Options),
    /// Writes completions for a shell.
    ///
    /// bash: keyfold completions bash > ~/.local/share/bash-completion/completions/keyfold
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Shows the version, and that of the client of Kafka.
    Version {
        /// How it is written.
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
}

/// What went wrong, with what the process exits with.
enum Failure {
    /// What was given is wrong, with all that is.
    Given(Vec<Diagnostic>),
    /// Anything else.
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Other(error.into())
    }
}

type Done = Result<u8, Failure>;

/// Runs the program; what it returns is the process's exit code.
#[must_use]
pub fn main() -> u8 {
    let cli = Cli::parse();
    let console = Console::stderr();
    match dispatch(cli.command, &console) {
        Ok(code) => code,
        Err(Failure::Given(wrong)) => {
            for diagnostic in &wrong {
                console.say(&format!("{diagnostic}\n"));
            }
            let errors = if wrong.len() == 1 {
                "1 error"
            } else {
                &format!("{} errors", wrong.len())
            };
            console.say(&format!("keyfold: {errors}; nothing has begun"));
            USAGE
        }
        Err(Failure::Other(error)) => {
            console.say(&format!("keyfold: {}", told(&error)));
            exit_code(&error) as u8
        }
    }
}

fn dispatch(command: Command, console: &Console) -> Done {
    match command {
        Command::Demo(options) => {
            logging::start(&demo_log(), console);
            Ok(demo::run(&options)? as u8)
        }
        Command::DemoWorker(options) => {
            logging::start(&demo_log(), console);
            Ok(demo::work(&options)? as u8)
        }
        Command::Run(options) => pipeline::run(&options, console),
        Command::Validate(options) => pipeline::validate(&options),
        Command::Topology(options) => pipeline::topology(&options),
        Command::Settings(options) => settings::run(&options),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "keyfold", &mut script);
            put(&String::from_utf8_lossy(&script))
        }
        Command::Version { output } => version::run(output),
    }
}

/// An error with its causes, without those that it has told already.
fn told(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .fold(String::new(), |told, cause| match told {
            told if told.contains(&cause) => told,
            told if told.is_empty() => cause,
            told => format!("{told}: {cause}"),
        })
}

/// The demonstration has no settings but the level of its log.
fn demo_log() -> LogSettings {
    let quiet = LogSettings {
        json: false,
        levels: "warn".to_owned(),
    };
    match std::env::var("KEYFOLD_LOG_LEVEL") {
        Ok(_) => SettingFlags::default().load().map_or(quiet, |settings| settings.log()),
        Err(_) => quiet,
    }
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    if let Some(error) = error.downcast_ref::<RunError>() {
        return error.exit_code();
    }
    if let Some(error) = error.downcast_ref::<RuntimeError>() {
        return error.exit_code();
    }
    error
        .downcast_ref::<demo::WorkerEnded>()
        .map_or(ExitCode::Failed, demo::WorkerEnded::exit_code)
}

#[cfg(test)]
mod tests;
