//! The transactional publisher.
//!
//! One thread drives it. A session is a transactional producer; the pointers are read by a consumer of its own, which needs no session.
//! Delivery reports come by callback, not by event, so that commit and abort serve them themselves and never wait for another thread.
mod opening;
#[cfg(test)]
mod tests;

use self::opening::Opening;
use crate::config::KafkaConfig;
use crate::eager::KafkaEagerSender;
use crate::error::{METADATA_REMEDY, UNDECIDED, log_error, member_transaction_error, read_error, transaction_error};
use crate::ffi::{Client, Code, Failure, GroupMetadata, Kind, List};
use crate::pointers::KafkaPointerReader;
use crate::sender::{Sender, Targets};
use keyfold::checkpoint::pointer::Pointer;
use keyfold::runtime::{LogFactory, StageInfo};
use keyfold::sink::{
    CommitEntry, Committed, EagerSender, GiveUp, Log, LogError, LogErrorKind, LogTarget, PointerReader, QueueGauge,
};
use keyfold::types::{Assignment, GroupMember, OutputRef};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One question to the cluster. Longer than the broker's sweep of timed-out transactions (10 s) is left to the caller's next try.
const ASK_WITHIN: Duration = Duration::from_secs(10);
/// One question to a group's coordinator. While it moves, the next client gets the answer: longer would wait for the one that is gone.
const MEMBERS_WITHIN: Duration = Duration::from_secs(5);
/// One wait of a call that goes on inside when it is not waited for, and is waited for again.
const STEP: Duration = Duration::from_secs(1);
/// First and longest wait between two tries.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Publishes epochs into Kafka. See [`Log`] for the order of calls.
pub struct KafkaLog {
    config: KafkaConfig,
    group: String,
    transactional_id: String,
    /// Those of the stage; in group mode those of the assignment, once there is one.
    partitions: Vec<(String, i32)>,
    targets: Targets,
    transaction_timeout: Duration,
    session: Option<Session>,
    /// The session that is being opened; see [`opening`].
    opening: Option<Opening<Sender>>,
    pointers: Option<Client>,
    group_mode: Option<GroupMode>,
    /// What waits in the producer that outputs go to.
    queue: QueueGauge,
    /// Outputs go to an eager sender, and sessions have none.
    eager: bool,
    give_up: GiveUp,
}

/// What only a member of a group has.
struct GroupMode {
    instance: String,
    /// As whom offsets are sent; None before the first assignment.
    member: Option<GroupMember>,
    /// A partition of the stage, for a question that is only there to be answered.
    any_partition: Vec<(String, i32)>,
    /// Whether an owner in single mode may still hold the stage.
    single_may_live: bool,
    /// The session that ends it, while it is being opened.
    fencing: Option<Opening<Client>>,
}

struct Session {
    sender: Sender,
    errors_at_start: u64,
    /// Not to be used for another transaction, though librdkafka has reported nothing: see [`Session::watched`] for one reason. The other is
    /// a failed delivery, which makes it purge its queues at a later moment of its own, and with them what the next transaction has
    /// queued by then: not silently, but the next transaction fails for nothing.
    spoilt: bool,
}

impl Session {
    /// A call that sends offsets, or ends the transaction. When a connection closes meanwhile, librdkafka sends the request again by itself
    /// and tells nobody, while the first copy may still be on its way: only a later session's epoch keeps it out of the next transaction
    /// (EP-5). Between calls connections may close as they like, for idleness above all: nothing waits on them then.
    fn watched<T>(&mut self, call: impl FnOnce(&Arc<Client>) -> Result<T, Failure>) -> Result<T, Failure> {
        let client = self.sender.client();
        let closed = client.closed();
        let result = call(client);
        if client.closed() != closed {
            tracing::info!("a connection closed under a call of the transaction, the session is opened anew");
            self.spoilt = true;
        }
        result
    }
}

impl KafkaLog {
    /// `group` is `<job>.<stage>`; `partitions` are those of the stage's sources; an output's `sink` is its index in `targets`.
    /// Connects to nothing yet.
    #[must_use]
    pub fn new(
        config: &KafkaConfig,
        group: impl Into<String>,
        transactional_id: impl Into<String>,
        partitions: Vec<(String, i32)>,
        targets: Vec<LogTarget>,
        transaction_timeout: Duration,
    ) -> KafkaLog {
        KafkaLog {
            config: config.clone(),
            group: group.into(),
            transactional_id: transactional_id.into(),
            partitions,
            targets: targets.into_iter().map(Some).collect(),
            transaction_timeout,
            session: None,
            opening: None,
            pointers: None,
            group_mode: None,
            queue: QueueGauge::default(),
            eager: false,
            give_up: GiveUp::default(),
        }
    }

    /// The log of a stage. In single mode group and transactional id are `<job>.<stage>`, so that a newcomer fences its predecessor; in group
    /// mode the id ends with the instance's name, and the first session fences an owner in single mode as well.
    /// Refuses a broker whose limit of metadata is too small for a pointer.
    ///
    /// # Errors
    /// As [`KafkaLog::check_metadata_limit`].
    pub fn of_stage(
        config: &KafkaConfig,
        stage: &StageInfo,
        transaction_timeout: Duration,
    ) -> Result<KafkaLog, LogError> {
        let (group, id) = (stage.group(), stage.transactional_id());
        let partitions = stage.partitions.clone();
        let mut log = KafkaLog::new(config, group, id, partitions, Vec::new(), transaction_timeout);
        log.group_mode = stage.instance.clone().map(|instance| GroupMode {
            instance,
            member: None,
            any_partition: stage.partitions.iter().take(1).cloned().collect(),
            single_may_live: true,
            fencing: None,
        });
        log.targets.clone_from(&stage.targets);
        log.config.output_queue_budget(stage.producer_bytes);
        log.check_metadata_limit(Pointer::MAX_LEN)?;
        Ok(log)
    }

    /// [`KafkaLog::of_stage`] for the runtime.
    #[must_use]
    pub fn factory(config: &KafkaConfig, transaction_timeout: Duration) -> LogFactory {
        let config = config.clone();
        Box::new(move |stage| Ok(Box::new(KafkaLog::of_stage(&config, stage, transaction_timeout)?)))
    }

    /// Refuses a broker that does not take metadata of `len` bytes. When the broker does not tell, the answer is yes, and a commit that
    /// it refuses is [`LogErrorKind::Fatal`] and names the remedy.
    ///
    /// # Errors
    /// [`LogErrorKind::Fatal`] when the limit is too small.
    pub fn check_metadata_limit(&mut self, len: usize) -> Result<(), LogError> {
        const SETTING: &str = "offset.metadata.max.bytes";
        let told = self
            .pointers()?
            .broker_setting(SETTING, ASK_WITHIN / 2)
            .and_then(|v| v.parse::<usize>().ok());
        match told {
            Some(limit) if limit < len => {
                let reason = format!("the limit is {limit} bytes, a pointer takes {len}; {METADATA_REMEDY}");
                Err(log_error(
                    LogErrorKind::Fatal,
                    "check the broker's offset.metadata.max.bytes",
                    &reason,
                ))
            }
            Some(_) => Ok(()),
            None => {
                tracing::info!("the broker does not tell its {SETTING}; a commit will show whether a pointer fits");
                Ok(())
            }
        }
    }

    /// A consumer that reads pointers.
    fn consumer(&self) -> Result<Client, LogError> {
        Client::new(Kind::Consumer, &self.config.pointer_properties(&self.group))
            .map_err(|f| log_error(LogErrorKind::Fatal, "make a kafka consumer", &f.text))
    }

    /// The one that is kept, made at first use.
    fn pointers(&mut self) -> Result<&Client, LogError> {
        if self.pointers.is_none() {
            self.pointers = Some(self.consumer()?);
        }
        self.pointers.as_ref().ok_or_else(no_session)
    }

    fn session(&mut self) -> Result<&mut Session, LogError> {
        self.session.as_mut().ok_or_else(no_session)
    }

    /// Largest batch that every target takes.
    fn batch_bytes(&self) -> usize {
        self.targets
            .iter()
            .flatten()
            .map(|t| t.max_bytes)
            .min()
            .unwrap_or(usize::MAX)
    }

    /// Commit and abort go on inside for as long as it takes; librdkafka asks not to cut them short. This is past the time at which the
    /// broker itself ends the transaction, so what is cut here is a session of no more use.
    fn end_within(&self) -> Duration {
        self.transaction_timeout * 2 + Duration::from_secs(5)
    }

    /// What a failed transactional call means, to a member of a group or to the only owner.
    fn failed(&self, context: &str, failure: &Failure) -> LogError {
        match &self.group_mode {
            Some(mode) => member_transaction_error(context, failure, &mode.instance),
            None => transaction_error(context, failure),
        }
    }

    /// As whom offsets are sent. What a group would accept without a look never goes out for a member (EP-7).
    fn sent_as(&self) -> Result<GroupMetadata, LogError> {
        let context = format!("send offsets of group {}", self.group);
        let refused = |reason: &str| log_error(LogErrorKind::Fatal, &context, reason);
        let of_nobody = || GroupMetadata::of_nobody(&self.group).map_err(|f| refused(&f.text));
        let Some(mode) = self
            .group_mode
            .as_ref()
            .filter(|_| !self.config.switches().broken("EP-7"))
        else {
            return of_nobody();
        };
        let Some(member) = &mode.member else {
            return Err(refused("nothing is assigned: there is nobody to send them as"));
        };
        let sent_as = GroupMetadata::of_member(&self.group, member.generation, &member.id, &member.instance)
            .map_err(|f| refused(&f.text))?;
        // Read back from what is sent.
        check_identity(&context, sent_as.generation(), &sent_as.member_id())?;
        Ok(sent_as)
    }

    fn glance_at(&self, partitions: &[(String, i32)], within: Duration) -> Result<Vec<Committed>, LogError> {
        let properties = self.config.glance_properties(&self.group);
        let client = Client::new(Kind::Consumer, &properties)
            .map_err(|f| log_error(LogErrorKind::Fatal, "make a kafka consumer", &f.text))?;
        read_offsets(&client, &self.group, partitions, self.give_up.within(within))
    }

    fn read_committed(&mut self, wait: Duration) -> Result<Vec<Committed>, LogError> {
        let (group, partitions) = (self.group.clone(), self.partitions.clone());
        read_offsets(self.pointers()?, &group, &partitions, wait)
    }

    fn offsets(&self, entries: &[CommitEntry]) -> Result<List, LogError> {
        let refused = |reason: &str| log_error(LogErrorKind::Fatal, "send offsets", reason);
        if entries.is_empty() {
            return Err(refused("no offsets at all: nothing would be committed"));
        }
        let mut list = List::new(entries.len());
        for entry in entries {
            let at = &entry.position;
            // librdkafka leaves out what is negative and says that all went well.
            if at.offset < 0 {
                return Err(refused(&format!(
                    "{} partition {}: offset {} is none",
                    at.topic, at.partition, at.offset
                )));
            }
            list.add(
                &at.topic,
                at.partition,
                at.offset,
                at.leader_epoch,
                entry.pointer.as_bytes(),
            )
            .map_err(|f| refused(&f.text))?;
        }
        Ok(list)
    }
}

/// Refuses an identity under which a classic group takes offsets from anybody (EP-7).
fn check_identity(context: &str, generation: i32, member: &str) -> Result<(), LogError> {
    if generation >= 0 && !member.is_empty() {
        return Ok(());
    }
    let reason = format!(
        "generation {generation} and member id \"{member}\" are no identity: the group would accept them without a look; wait for \
         the next assignment"
    );
    Err(log_error(LogErrorKind::Fatal, context, &reason))
}

/// What is committed, as the client's isolation level tells it.
pub(crate) fn read_offsets(
    client: &Client,
    group: &str,
    partitions: &[(String, i32)],
    wait: Duration,
) -> Result<Vec<Committed>, LogError> {
    let context = format!("read committed offsets of group {group}");
    let mut list = List::new(partitions.len());
    for (topic, partition) in partitions {
        list.add(topic, *partition, -1, -1, b"")
            .map_err(|f| log_error(LogErrorKind::Fatal, &context, &f.text))?;
    }
    let asked = client.committed(&list, wait);
    // Serves the error callback; a record cannot lie there, nothing is assigned.
    let served = client.poll_consumer();
    let reported = client.take_last_error();
    if let Err(failure) = asked {
        let told = served
            .err()
            .or_else(|| reported.map(|(code, text)| Failure::plain(code, text)));
        let hopeless = told
            .map(|f| read_error(&context, &f))
            .filter(|e| e.kind == LogErrorKind::Fatal);
        return Err(hopeless.unwrap_or_else(|| read_error(&context, &failure)));
    }
    let mut out = Vec::with_capacity(partitions.len());
    for entry in list.entries() {
        if entry.code != Code::NoError {
            let context = format!("{context}: {} partition {}", entry.topic, entry.partition);
            return Err(read_error(
                &context,
                &Failure::plain(entry.code, entry.code.to_string()),
            ));
        }
        out.push(Committed {
            topic: entry.topic,
            partition: entry.partition,
            offset: (entry.offset >= 0).then_some(entry.offset),
            metadata: entry.metadata.filter(|m| !m.is_empty()),
        });
    }
    Ok(out)
}

/// Waits for a commit or an abort, which goes on inside: a call that ran out of time is resumed by the next (rd_kafka_commit_transaction).
fn in_steps(
    within: Duration,
    give_up: &GiveUp,
    mut call: impl FnMut(Duration) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let end = Instant::now() + within;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match call(left.min(STEP)) {
            Err(f) if f.code == Code::OperationTimedOut && !f.fatal && left > STEP && !give_up.over() => {}
            done => return done,
        }
    }
}

fn no_session() -> LogError {
    log_error(LogErrorKind::SessionLost, "use the session", "there is no open session")
}

/// A commit or abort that ran out of time: what became of it is unknown.
fn end_error(error: LogError, failure: &Failure) -> LogError {
    let timed_out = matches!(failure.code, Code::OperationTimedOut | Code::MessageTimedOut);
    if error.kind == LogErrorKind::Retriable && timed_out {
        return LogError {
            kind: LogErrorKind::SessionLost,
            ..error
        };
    }
    error
}

impl Log for KafkaLog {
    fn open_session(&mut self) -> Result<(), LogError> {
        self.open()
    }

    fn committed(&mut self) -> Result<Vec<Committed>, LogError> {
        if self.partitions.is_empty() {
            return Ok(Vec::new());
        }
        let end = Instant::now() + ASK_WITHIN;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.read_committed(self.give_up.within(left.max(BACK_OFF.0))) {
                Err(error) if self.give_up.over() => return Err(error),
                // A coordinator that moves or loads: over in a moment.
                Err(error) if error.kind == LogErrorKind::Retriable && left > BACK_OFF.0 => {
                    tracing::debug!(%error, "committed offsets are read again");
                    std::thread::sleep(BACK_OFF.0);
                }
                // Silence has two reasons, and only one of them passes by itself.
                Err(error) if error.kind == LogErrorKind::Retriable && self.glance().is_ok() => {
                    let context = format!("read committed offsets of group {}", self.group);
                    return Err(log_error(LogErrorKind::Retriable, &context, UNDECIDED));
                }
                done => return done,
            }
        }
    }

    fn glance(&mut self) -> Result<Vec<Committed>, LogError> {
        if self.partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.glance_at(&self.partitions, ASK_WITHIN)
    }

    fn group_has_members(&mut self) -> Result<bool, LogError> {
        let group = self.group.clone();
        let context = format!("look at group {group}");
        // A client that knew a former coordinator would go on asking it, for ever: one of its own asks who it is now.
        let client = Arc::new(self.consumer()?);
        let within = self.give_up.within(MEMBERS_WITHIN);
        let asked = client.ask_for_members(&group, within);
        let answer = asked.map_err(|f| read_error(&context, &f))?.answer(within);
        let refused = |kind, reason: &str| Err(log_error(kind, &context, reason));
        match answer {
            Some(Ok(roster)) => {
                let members = roster.members.len();
                tracing::debug!(group, members, "consumer group");
                Ok(members > 0)
            }
            // A group of another kind, and the text says which.
            Some(Err(f)) if f.code == Code::InvalidArgument => refused(LogErrorKind::Fatal, &f.text),
            Some(Err(failure)) => Err(read_error(&context, &failure)),
            None => refused(LogErrorKind::Retriable, "its coordinator has not answered"),
        }
    }

    fn assign(&mut self, assignment: &Assignment) -> Result<(), LogError> {
        let context = format!("take over an assignment of group {}", self.group);
        let member = &assignment.member;
        check_identity(&context, member.generation, &member.id)?;
        match &mut self.group_mode {
            Some(mode) if mode.instance == member.instance => mode.member = Some(member.clone()),
            Some(mode) => {
                let reason = format!("it is of instance {}, this one is {}", member.instance, mode.instance);
                return Err(log_error(LogErrorKind::Fatal, &context, &reason));
            }
            None => {
                let reason = "the stage runs in single mode; it needs an instance name for group mode";
                return Err(log_error(LogErrorKind::Fatal, &context, reason));
            }
        }
        self.partitions.clone_from(&assignment.partitions);
        Ok(())
    }

    fn pointer_reader(&mut self) -> Result<Box<dyn PointerReader>, LogError> {
        Ok(Box::new(KafkaPointerReader::new(&self.config, &self.group)?))
    }

    fn begin(&mut self) -> Result<(), LogError> {
        let session = self.session()?;
        if session.sender.client().in_flight() > 0 {
            // Reports of an aborted transaction may lie there still.
            session.sender.client().push_out(Duration::from_millis(100));
        }
        if session.sender.client().in_flight() > 0 {
            return Err(log_error(
                LogErrorKind::SessionLost,
                "begin",
                "messages of an earlier transaction are in flight",
            ));
        }
        session.sender.reset();
        session
            .sender
            .client()
            .begin_transaction()
            .map_err(|f| transaction_error("begin", &f))
    }

    fn send(&mut self, output: &OutputRef<'_>) -> Result<(), LogError> {
        let give_up = self.give_up.clone();
        self.session()?.sender.send(output, &give_up)
    }

    fn drain(&mut self) -> Result<(), LogError> {
        let give_up = self.give_up.clone();
        let session = self.session()?;
        session.sender.drain(&give_up).inspect_err(|_| session.spoilt = true)
    }

    fn send_offsets(&mut self, entries: &[CommitEntry]) -> Result<(), LogError> {
        let (list, sent_as) = (self.offsets(entries)?, self.sent_as()?);
        let within = self.give_up.within(self.transaction_timeout + Duration::from_secs(5));
        let session = self.session()?;
        let sent = session.watched(|client| client.send_offsets(list, sent_as, within));
        session.spoilt |= sent.is_err();
        sent.map_err(|f| self.failed(&format!("send offsets of group {}", self.group), &f))
    }

    fn commit(&mut self) -> Result<(), LogError> {
        let (within, give_up) = (self.end_within(), self.give_up.clone());
        let session = self.session()?;
        if session.sender.client().in_flight() > 0 {
            return Err(log_error(
                LogErrorKind::Abortable,
                "commit",
                "outputs are in flight: drain comes first",
            ));
        }
        let commit = |client: &Arc<Client>| in_steps(within, &give_up, |step| client.commit_transaction(step));
        let ended = session.watched(commit);
        ended.map_err(|f| end_error(self.failed("commit", &f), &f))
    }

    fn abort(&mut self) -> Result<(), LogError> {
        let (within, give_up) = (self.end_within(), self.give_up.clone());
        let abort = |client: &Arc<Client>| in_steps(within, &give_up, |step| client.abort_transaction(step));
        let ended = self.session()?.watched(abort);
        ended.map_err(|f| end_error(transaction_error("abort", &f), &f))
    }

    fn session_is_suspect(&self) -> bool {
        self.session.as_ref().is_some_and(|session| {
            let client = session.sender.client();
            client.poll(0);
            session.spoilt || client.errors() != session.errors_at_start || client.fatal_error().is_some()
        })
    }

    fn eager_sender(&mut self) -> Result<Option<Box<dyn EagerSender>>, LogError> {
        self.eager = true;
        let sender = KafkaEagerSender::new(&self.config, &self.targets, self.batch_bytes(), &self.queue)?;
        Ok(Some(Box::new(sender)))
    }

    fn queue(&self) -> Option<QueueGauge> {
        Some(self.queue.clone())
    }

    fn give_up(&mut self, give_up: GiveUp) {
        self.give_up = give_up;
    }

    fn close(&mut self) {
        self.session = None;
        self.opening = None;
        self.pointers = None;
    }
}
