//! The broker and its topics.
use crate::Args;
use crate::load::{Input, fill};
use anyhow::{Context, Result, ensure};
use keyfold_benches::cpu_of;
use keyfold_e2e::broker::free_port;
use keyfold_e2e::{Broker, BrokerOptions};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As the workload says.
pub const PARTITIONS: i32 = 4;
/// Marks the directory as ours to empty.
const MARK: &str = "keyfold-bench";

/// What runs beside the measured processes.
pub struct Scene {
    pub args: Args,
    pub broker: Broker,
    pub dir: PathBuf,
    /// The inputs that are there, by their topics.
    inputs: Vec<(Input, String)>,
    topics: usize,
}

impl Scene {
    pub fn set(args: &Args) -> Result<Scene> {
        let dir = empty_dir(&args.dir)?;
        let options = BrokerOptions {
            heap: Some("-Xmx1g".to_owned()),
            ..BrokerOptions::default()
        };
        Ok(Scene {
            args: args.clone(),
            broker: Broker::start_with(&dir.join("broker"), free_port()?, options)?,
            dir,
            inputs: Vec::new(),
            topics: 0,
        })
    }

    /// A topic of its own, empty.
    pub fn topic(&mut self, name: &str) -> Result<String> {
        self.topic_of(name, PARTITIONS)
    }

    /// The same with so many partitions.
    pub fn topic_of(&mut self, name: &str, partitions: i32) -> Result<String> {
        self.topics += 1;
        let topic = format!("{name}-{}", self.topics);
        self.broker.create_topic(&topic, partitions, &[])?;
        Ok(topic)
    }

    /// The topic with an input, which is produced when it is asked for first.
    pub fn input(&mut self, input: Input) -> Result<String> {
        if let Some((_, topic)) = self.inputs.iter().find(|(known, _)| *known == input) {
            return Ok(topic.clone());
        }
        // One at a time, so that the disk holds them.
        for (_, topic) in std::mem::take(&mut self.inputs) {
            self.forget(&topic)?;
        }
        let topic = self.topic_of("input", input.partitions)?;
        eprintln!("bench: producing {input:?} into {topic}");
        fill(&self.broker.bootstrap(), &topic, &input)?;
        self.inputs.push((input, topic.clone()));
        Ok(topic)
    }

    /// Removes a topic.
    pub fn forget(&self, topic: &str) -> Result<()> {
        self.broker
            .tool("topics.sh", &["--delete", "--topic", topic])
            .map(|_| ())
    }

    /// CPU time of the broker so far.
    pub fn broker_cpu(&self) -> Result<Duration> {
        let pid = self.broker.pid().context("the broker does not run")?;
        Ok(cpu_of(pid)?)
    }
}

fn empty_dir(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        let ours = dir.join(MARK).exists();
        ensure!(
            ours,
            "{} is there and not of an earlier run: name another with --dir",
            dir.display()
        );
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)?;
    fs::write(dir.join(MARK), "")?;
    Ok(dir.canonicalize()?)
}
