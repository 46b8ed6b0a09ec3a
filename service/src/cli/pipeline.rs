//! `keyfold run`, `keyfold validate`, `keyfold topology`.
use super::output::{Output, put, put_json};
use super::{Done, Failure};
use crate::console::Console;
use crate::logging;
use crate::pipeline::{self, LoadedPipeline, PipelineErrors};
use crate::registry::Environment;
use crate::run;
use crate::settings::{SettingFlags, Settings};
use crate::yaml::Diagnostic;
use keyfold::testing::Faults;
use serde::Serialize;
use std::path::PathBuf;

/// Options of `keyfold run`.
#[derive(Debug, clap::Args)]
pub(super) struct RunOptions {
    /// The pipeline file.
    pipeline: PathBuf,
    #[command(flatten)]
    settings: SettingFlags,
}

/// Options of `keyfold validate`.
#[derive(Debug, clap::Args)]
pub(super) struct ValidateOptions {
    /// The pipeline file.
    pipeline: PathBuf,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    settings: SettingFlags,
}

/// Options of `keyfold topology`.
#[derive(Debug, clap::Args)]
pub(super) struct TopologyOptions {
    /// The pipeline file.
    pipeline: PathBuf,
    /// How it is written.
    #[arg(long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    settings: SettingFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Form {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// A flowchart in Mermaid's language.
    Mermaid,
}

pub(super) fn run(options: &RunOptions, console: &Console) -> Done {
    let settings = options.settings.load().map_err(Failure::Given)?;
    let loaded = load(&options.pipeline, &settings).map_err(|wrong| Failure::Given(wrong.0))?;
    logging::start(&settings.log(), console);
    run::run(loaded.into_job(), &settings, Faults::none(), console)?;
    Ok(0)
}

pub(super) fn validate(options: &ValidateOptions) -> Done {
    let settings = options.settings.load().map_err(Failure::Given)?;
    let loaded = load(&options.pipeline, &settings);
    match (options.output, loaded) {
        (Output::Text, Ok(loaded)) => put(&format!(
            "{}: good, job {}; {}\n",
            options.pipeline.display(),
            loaded.job,
            loaded.modes()
        )),
        (Output::Text, Err(wrong)) => Err(Failure::Given(wrong.0)),
        (Output::Json, Ok(loaded)) => put_json(&Answer::good(&loaded)),
        (Output::Json, Err(wrong)) => {
            put_json(&Answer::wrong(&wrong))?;
            Ok(super::USAGE)
        }
    }
}

pub(super) fn topology(options: &TopologyOptions) -> Done {
    let settings = options.settings.load().map_err(Failure::Given)?;
    let loaded = load(&options.pipeline, &settings).map_err(|wrong| Failure::Given(wrong.0))?;
    let description = loaded.describe();
    match options.output {
        Form::Text => put(&description.text()),
        Form::Json => put_json(&description),
        Form::Mermaid => put(&description.mermaid()),
    }
}

fn load(path: &std::path::Path, settings: &Settings) -> Result<LoadedPipeline, PipelineErrors> {
    pipeline::load(path, &Environment::new(settings.kafka().clone()))
}

/// What `keyfold validate --output json` says.
#[derive(Serialize)]
struct Answer<'a> {
    job: Option<&'a str>,
    /// Why group mode cannot run it.
    single_mode_because: Option<String>,
    errors: Vec<Wrong<'a>>,
}

#[derive(Serialize)]
struct Wrong<'a> {
    file: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    message: &'a str,
    help: Option<&'a str>,
}

impl<'a> Wrong<'a> {
    fn new(error: &'a Diagnostic) -> Wrong<'a> {
        Wrong {
            file: &error.file,
            line: error.place.map(|place| place.line),
            column: error.place.map(|place| place.column),
            message: &error.message,
            help: error.help.as_deref(),
        }
    }
}

impl Answer<'_> {
    fn good(loaded: &LoadedPipeline) -> Answer<'_> {
        Answer {
            job: Some(&loaded.job),
            single_mode_because: loaded.single_mode_because(),
            errors: Vec::new(),
        }
    }

    fn wrong(errors: &PipelineErrors) -> Answer<'_> {
        Answer {
            job: None,
            single_mode_because: None,
            errors: errors.0.iter().map(Wrong::new).collect(),
        }
    }
}
