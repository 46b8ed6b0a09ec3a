//! The log of one stage in one process, over a [`MemoryBroker`].
use super::broker::{MemoryBroker, error};
use super::process::{Call, Process};
use super::record::TestRecord;
use crate::runtime::StageInfo;
use crate::sink::{CommitEntry, Committed, EagerSender, Log, LogError, LogErrorKind, PointerReader};
use crate::types::output::decode_headers;
use crate::types::{Assignment, OutputRef};
use std::time::Duration;

/// Publishes a stage's epochs to a [`MemoryBroker`]; every call passes through the [`Process`].
pub struct MemoryLog {
    broker: MemoryBroker,
    stage: StageInfo,
    process: Process,
    /// The producer's epoch; None without a session.
    session: Option<u64>,
    in_transaction: bool,
    /// In group mode, once there is one.
    assignment: Option<Assignment>,
}

fn record_of(out: &OutputRef<'_>) -> Result<TestRecord, LogError> {
    let headers = decode_headers(out.headers);
    Ok(TestRecord {
        key: out.key.map(<[u8]>::to_vec),
        value: out.value.map(<[u8]>::to_vec),
        timestamp: out.timestamp,
        headers: headers.ok_or_else(|| error(LogErrorKind::Fatal, "send", "damaged headers"))?,
        partition: out.partition,
        offset: -1,
    })
}

fn topic_of<'a>(stage: &'a StageInfo, out: &OutputRef<'_>) -> Result<&'a str, LogError> {
    let target = stage.targets.get(usize::from(out.sink)).and_then(|t| t.as_ref());
    let missing = || {
        error(
            LogErrorKind::Fatal,
            "send",
            format!("sink {} is no target of the log", out.sink),
        )
    };
    target.map(|t| t.topic.as_str()).ok_or_else(missing)
}

impl MemoryLog {
    /// The stage's log.
    #[must_use]
    pub fn new(broker: MemoryBroker, stage: StageInfo, process: Process) -> MemoryLog {
        MemoryLog {
            broker,
            stage,
            process,
            session: None,
            in_transaction: false,
            assignment: None,
        }
    }

    /// What it asks about.
    fn partitions(&self) -> &[(String, i32)] {
        let assigned = self.assignment.as_ref().map(|a| &a.partitions);
        assigned.unwrap_or(&self.stage.partitions)
    }

    fn epoch(&self, call: &str) -> Result<u64, LogError> {
        self.session
            .ok_or_else(|| error(LogErrorKind::Fatal, call, "there is no session"))
    }

    /// A call out of order is a bug of the caller, which Kafka's client would answer in the same way.
    fn transaction(&self, call: &str) -> Result<u64, LogError> {
        if self.in_transaction {
            self.epoch(call)
        } else {
            Err(error(LogErrorKind::Fatal, call, "there is no transaction"))
        }
    }
}

impl Log for MemoryLog {
    fn open_session(&mut self) -> Result<(), LogError> {
        let (broker, name, process) = (&self.broker, self.stage.transactional_id(), &self.process);
        self.session = None;
        self.in_transaction = false;
        let opened = process.log(Call::Session, broker.clock(), || Ok(broker.open_session(&name)))?;
        process.clear_suspect();
        self.session = Some(opened);
        Ok(())
    }
    fn committed(&mut self) -> Result<Vec<Committed>, LogError> {
        let (broker, stage) = (&self.broker, &self.stage);
        let act = || broker.stable_offsets(&stage.group(), self.partitions());
        self.process.log(Call::Committed, broker.clock(), act)
    }
    fn glance(&mut self) -> Result<Vec<Committed>, LogError> {
        let (broker, stage) = (&self.broker, &self.stage);
        let act = || Ok(broker.decided_offsets(&stage.group(), self.partitions()));
        self.process.log(Call::Committed, broker.clock(), act)
    }
    fn group_has_members(&mut self) -> Result<bool, LogError> {
        let (broker, group) = (&self.broker, self.stage.group());
        self.process
            .log(Call::Members, broker.clock(), || Ok(broker.has_members(&group)))
    }
    fn assign(&mut self, assignment: &Assignment) -> Result<(), LogError> {
        let member = &assignment.member;
        if member.generation < 0 || member.id.is_empty() {
            let reason = format!(
                "generation {} and member id {:?}: a group would take them without a look",
                member.generation, member.id
            );
            return Err(error(LogErrorKind::Fatal, "assign", reason));
        }
        self.assignment = Some(assignment.clone());
        Ok(())
    }
    fn pointer_reader(&mut self) -> Result<Box<dyn PointerReader>, LogError> {
        Ok(Box::new(MemoryPointerReader {
            broker: self.broker.clone(),
            group: self.stage.group(),
            process: self.process.clone(),
        }))
    }
    fn begin(&mut self) -> Result<(), LogError> {
        self.epoch("begin")?;
        if self.in_transaction {
            return Err(error(LogErrorKind::Fatal, "begin", "a transaction is open"));
        }
        self.process.log(Call::Begin, self.broker.clock(), || Ok(()))?;
        self.in_transaction = true;
        Ok(())
    }
    fn send(&mut self, output: &OutputRef<'_>) -> Result<(), LogError> {
        let epoch = self.transaction("send")?;
        let (record, topic) = (record_of(output)?, topic_of(&self.stage, output)?);
        let act = || self.broker.send(&self.stage.transactional_id(), epoch, topic, record);
        self.process.log(Call::Send, self.broker.clock(), act)
    }
    fn drain(&mut self) -> Result<(), LogError> {
        self.transaction("drain")?;
        self.process.log(Call::Drain, self.broker.clock(), || Ok(()))
    }
    fn send_offsets(&mut self, entries: &[CommitEntry]) -> Result<(), LogError> {
        let epoch = self.transaction("send_offsets")?;
        let (name, group) = (self.stage.transactional_id(), self.stage.group());
        let named = !self.process.is_anonymous();
        let member = self.assignment.as_ref().map(|a| &a.member).filter(|_| named);
        if named && self.stage.instance.is_some() && member.is_none() {
            let reason = "nothing is assigned, and a group takes offsets without a member unseen";
            return Err(error(LogErrorKind::Fatal, "send_offsets", reason));
        }
        let act = || self.broker.send_offsets((&name, epoch), (&group, member), entries);
        self.process.log(Call::Offsets, self.broker.clock(), act)
    }
    fn commit(&mut self) -> Result<(), LogError> {
        let epoch = self.transaction("commit")?;
        let act = || self.broker.end(&self.stage.transactional_id(), epoch, true);
        self.process.log(Call::Commit, self.broker.clock(), act)?;
        self.in_transaction = false;
        Ok(())
    }
    fn abort(&mut self) -> Result<(), LogError> {
        let epoch = self.transaction("abort")?;
        self.in_transaction = false;
        let act = || self.broker.end(&self.stage.transactional_id(), epoch, false);
        self.process.log(Call::Abort, self.broker.clock(), act)
    }
    fn session_is_suspect(&self) -> bool {
        self.process.suspect()
    }
    fn eager_sender(&mut self) -> Result<Option<Box<dyn EagerSender>>, LogError> {
        Ok(Some(Box::new(MemoryEager {
            broker: self.broker.clone(),
            stage: self.stage.clone(),
            process: self.process.clone(),
        })))
    }
    fn close(&mut self) {
        // As with a client that goes away: what is open stays open until it is fenced or times out.
        self.session = None;
    }
}

struct MemoryPointerReader {
    broker: MemoryBroker,
    group: String,
    process: Process,
}

/// What the reader waits for an undecided transaction in real time: others run meanwhile, and the clock is left to them.
const NAP: Duration = Duration::from_millis(1);

impl PointerReader for MemoryPointerReader {
    fn committed(&mut self, of: &[(String, i32)], within: Duration) -> Result<Vec<Committed>, LogError> {
        let broker = &self.broker;
        let look = || broker.stable_offsets(&self.group, of);
        let act = || {
            look().or_else(|_| {
                std::thread::sleep(NAP.min(within));
                look()
            })
        };
        self.process.log(Call::Committed, broker.clock(), act)
    }
}

struct MemoryEager {
    broker: MemoryBroker,
    stage: StageInfo,
    process: Process,
}

impl EagerSender for MemoryEager {
    fn send(&mut self, output: &OutputRef<'_>) -> Result<(), LogError> {
        let (record, topic) = (record_of(output)?, topic_of(&self.stage, output)?);
        let act = || self.broker.produce(topic, record).map(|_| ());
        self.process.log(Call::Eager, self.broker.clock(), act)
    }
    fn drain(&mut self, _within: Duration) -> Result<bool, LogError> {
        self.process.log(Call::EagerDrain, self.broker.clock(), || Ok(true))
    }
}
