//! Pipelines: YAML files that describe a job.
//!
//! ```text
//! file -> spec (what stands where) -> graph (who reads whom) -> plan (schemas, expressions, formats) -> the engine's topology
//! ```
//!
//! Everything that is wrong with a file is told at once, each with its place and the way out ([`PipelineErrors`]).
mod describe;
mod flow;
mod formats;
mod graph;
mod plan;
mod report;
mod run;
mod spec;
mod types;

pub use describe::{Description, Kind, Part};
pub use report::PipelineErrors;
pub(crate) use run::AGGREGATES_SCHEMA;

use crate::registry::Environment;
use crate::run::{Commits, RunnableJob, Waiting};
use crate::yaml::{Diagnostic, Source};
use keyfold::topology::Topology;
use plan::Plan;
use report::Report;
use std::path::Path;

/// A pipeline that was checked and can run.
pub struct LoadedPipeline {
    /// The job's id.
    pub job: String,
    /// Where its positions are committed: all sources are topics, or none is.
    pub commits: Commits,
    /// Whether group mode can run it: every key is the record's own. Else why not.
    pub record_keyed: Result<(), String>,
    plan: Plan,
}

/// Reads and checks a pipeline file. Nothing outside of files is looked at: no broker is needed.
///
/// # Errors
/// All that is wrong with it.
pub fn load(path: &Path, environment: &Environment) -> Result<LoadedPipeline, PipelineErrors> {
    let source = Source::read(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    of_source(&source, folder, environment)
}

/// Checks the text of a pipeline file; relative paths in it are relative to `folder`.
///
/// # Errors
/// All that is wrong with it.
pub fn of_source(source: &Source, folder: &Path, environment: &Environment) -> Result<LoadedPipeline, PipelineErrors> {
    let tree = source.parse()?;
    let mut report = Report::new(source);
    let plan = spec::read(&tree, &mut report).and_then(|spec| {
        let graph = graph::resolve(&spec, &mut report);
        plan::plan(&spec, &graph, environment, folder, &mut report)
    });
    report.finish()?;
    let Some(plan) = plan else {
        // Whoever plans nothing has reported why.
        let error = Diagnostic::of_file(source.name(), "the pipeline cannot be planned, and nothing says why");
        return Err(error.help("report this with the file: it is a bug").into());
    };
    Ok(LoadedPipeline {
        job: plan.job.clone(),
        commits: plan
            .sources
            .first()
            .map_or(Commits::Store, |source| source.connector.commits),
        record_keyed: plan.record_keyed(),
        plan,
    })
}

impl LoadedPipeline {
    /// The engine's topology. Looks at what it writes to, and waits for it while it cannot be reached, until a stop is asked for.
    ///
    /// # Errors
    /// What a connector says, or the engine.
    pub fn topology(&self, waiting: &Waiting) -> Result<Topology, String> {
        run::topology(&self.plan, waiting)
    }

    /// Why group mode cannot run it; None when it can.
    #[must_use]
    pub fn single_mode_because(&self) -> Option<String> {
        match self.commits {
            Commits::Kafka => self.record_keyed.clone().err(),
            Commits::Store => Some("its sources are no topics, and the instances of a group share topics".to_owned()),
        }
    }

    /// The modes that can run it, in words.
    #[must_use]
    pub fn modes(&self) -> String {
        describe::modes(self.single_mode_because().as_deref())
    }

    /// As the run loop takes it.
    #[must_use]
    pub fn into_job(self) -> RunnableJob {
        RunnableJob {
            id: self.job.clone(),
            commits: self.commits,
            single_because: self.single_mode_because(),
            topology: Box::new(move |waiting| self.topology(waiting)),
        }
    }

    /// What it does, for people.
    #[must_use]
    pub fn describe(&self) -> Description {
        Description::of(&self.plan, self.single_mode_because())
    }
}
