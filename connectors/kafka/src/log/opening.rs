//! Opening a session in steps. A coordinator that is away, or busy with an old transaction, may take long: each call waits for a while and says
//! then that it may be repeated, so that its caller can give a sign of life. The next one goes on where it was.
use super::{BACK_OFF, KafkaLog, Session};
use crate::error::{log_error, transaction_error};
use crate::ffi::{Client, Failure, Kind};
use crate::sender::Sender;
use keyfold::sink::{Log, LogError, LogErrorKind, QueueGauge};
use std::time::{Duration, Instant};

/// One call. Longer would be silence that is taken for a hang (`Config::stall_after`, 20 s by default); shorter would leave no room for two steps.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// One try of `init_transactions`, which can be resumed.
const INIT_STEP: Duration = Duration::from_secs(5);
/// How long a new client may take to reach a broker before it is asked for a session all the same.
const CONNECTED_WITHIN: Duration = Duration::from_secs(1);

/// A coordinator that still ends the transaction of whoever was killed says so, and librdkafka asks again 500 ms later
/// (rd_kafka_idemp_request_pid_failed), when it has been over for long. A new client asks at once. So the first ones have this long, or twice as long
/// as they took to reach a broker, and the next one takes all the time there is.
const HURRIED: Duration = Duration::from_millis(100);
const HURRIED_CLIENTS: u32 = 2;

/// A client whose session is being opened.
pub(super) struct Opening<T> {
    client: T,
    pub(super) since: Instant,
}

impl<T> Opening<T> {
    pub(super) fn new(client: T) -> Opening<T> {
        Opening {
            client,
            since: Instant::now(),
        }
    }
}

/// What hurrying has come to.
enum Hurried {
    Open(Sender),
    Begun(Opening<Sender>),
}

fn made(failure: Failure) -> LogError {
    log_error(LogErrorKind::Fatal, "make a kafka producer", &failure.text)
}

impl KafkaLog {
    pub(super) fn open(&mut self) -> Result<(), LogError> {
        self.session = None;
        let end = Instant::now() + OPEN_WITHIN;
        self.fence_single_owner(end)?;
        if self.group_mode.is_some() {
            self.ask_first(end)?;
        }
        let opening = match self.resumable() {
            Some(opening) => opening,
            None => match self.hurried()? {
                Hurried::Open(sender) => return self.opened(sender, end),
                Hurried::Begun(opening) => opening,
            },
        };
        match self.init(opening.client.client(), &self.transactional_id, opening.since, end) {
            Err(error) if error.kind == LogErrorKind::Retriable => {
                self.opening = Some(opening);
                return Err(error);
            }
            opened => opened?,
        }
        self.opened(opening.client, end)
    }

    /// A client and its session, where it comes quickly; else a client that may wait for one.
    fn hurried(&self) -> Result<Hurried, LogError> {
        for _ in 0..HURRIED_CLIENTS {
            let opening = Opening::new(self.sender()?);
            let client = opening.client.client();
            // A broker that cannot be reached answers no other client sooner.
            if client.any_broker(self.give_up.within(CONNECTED_WITHIN)).is_err() {
                return Ok(Hurried::Begun(opening));
            }
            let end = Instant::now() + (opening.since.elapsed() * 2).max(HURRIED);
            match self.init(client, &self.transactional_id, opening.since, end) {
                Ok(()) => return Ok(Hurried::Open(opening.client)),
                Err(error) if error.kind == LogErrorKind::Retriable && !self.give_up.over() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Hurried::Begun(Opening::new(self.sender()?)))
    }

    /// The session is there.
    fn opened(&mut self, sender: Sender, end: Instant) -> Result<(), LogError> {
        // The only owner reads stable, which an old transaction of its own would hold up until here.
        if self.group_mode.is_none() {
            self.ask_first(end)?;
        }
        // What was reported while the session was being opened does not count against it.
        sender.client().poll(0);
        let errors_at_start = sender.client().errors();
        self.session = Some(Session {
            sender,
            errors_at_start,
            spoilt: false,
        });
        Ok(())
    }

    /// What an earlier call has begun. A client that gets nowhere is of no use for ever: some of its troubles only a new one is rid of.
    fn resumable(&mut self) -> Option<Opening<Sender>> {
        let patience = self.end_within();
        self.opening.take().filter(|opening| opening.since.elapsed() < patience)
    }

    fn sender(&self) -> Result<Sender, LogError> {
        let (id, timeout) = (&self.transactional_id, self.transaction_timeout);
        let properties = self.config.transactional_properties(id, timeout, self.batch_bytes());
        let patience = timeout + Duration::from_secs(5);
        let none = QueueGauge::default();
        let queue = if self.eager { &none } else { &self.queue };
        Sender::new(&self.config, &self.targets, &properties, patience, queue)
    }

    /// Ends an owner in single mode, once: it commits with generation -1, which a classic group accepts in a transaction even when it has
    /// members, so no generation keeps it out. Its transactional id does. Two instances that do so at once may fence each other here, and
    /// either way nobody else is left.
    pub(super) fn fence_single_owner(&mut self, end: Instant) -> Result<(), LogError> {
        let (id, timeout, patience) = (self.group.clone(), self.transaction_timeout, self.end_within());
        let Some(mode) = self.group_mode.as_mut().filter(|mode| mode.single_may_live) else {
            return Ok(());
        };
        let begun = mode.fencing.take().filter(|fencing| fencing.since.elapsed() < patience);
        let resumed = begun.is_some();
        let fencing = match begun {
            Some(fencing) => fencing,
            None => {
                let properties = self.config.transactional_properties(&id, timeout, usize::MAX);
                Opening::new(Client::new(Kind::Producer, &properties).map_err(made)?)
            }
        };
        let fenced = self.init(&fencing.client, &id, fencing.since, end);
        let Some(mode) = &mut self.group_mode else {
            return fenced;
        };
        match fenced {
            Err(error) if error.kind != LogErrorKind::Fenced => {
                mode.fencing = (error.kind == LogErrorKind::Retriable).then_some(fencing);
                Err(error)
            }
            // The client may have had this answer for a while (rd_kafka_txn_curr_api keeps it), and the owner has been back since: only what was
            // asked and answered within one call tells that nobody is left.
            _ if resumed => Err(log_error(
                LogErrorKind::Retriable,
                "end an owner in single mode",
                "the answer came between two calls, it is asked once more",
            )),
            _ => {
                mode.single_may_live = false;
                Ok(())
            }
        }
    }

    /// A producer that asks for the group's coordinator before there is one (the first job of a new cluster) is answered "not
    /// available" and then waits for ever (rd_kafka_coord_req_fsm). The consumer goes on asking, so it asks first.
    fn ask_first(&mut self, end: Instant) -> Result<(), LogError> {
        match &self.group_mode {
            None if self.partitions.is_empty() => Ok(()),
            None => self.committed().map(drop),
            // Any answer will do. One that is stable would wait for the transactions of other instances.
            Some(mode) if mode.any_partition.is_empty() => Ok(()),
            Some(mode) => {
                let left = end.saturating_duration_since(Instant::now());
                self.glance_at(&mode.any_partition, left.max(CONNECTED_WITHIN))
                    .map(drop)
            }
        }
    }

    /// Tries until `end`, for a client that is there `since` then.
    fn init(&self, client: &Client, id: &str, since: Instant, end: Instant) -> Result<(), LogError> {
        let context = format!("init_transactions of {id}");
        // A client that is not connected yet looks for its coordinator again 500 ms later (rd_kafka_txn_coord_query). Without an answer
        // here the call below waits as it would have.
        if since.elapsed() < CONNECTED_WITHIN {
            let _ = client.any_broker(self.give_up.within(CONNECTED_WITHIN));
        }
        let mut wait = BACK_OFF.0;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let step = self.give_up.within(INIT_STEP.min(left.max(BACK_OFF.0)));
            let failure = match client.init_transactions(step) {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            client.poll(0);
            // A refused log-in shows only as a time-out; the error callback knows better.
            let reported = client
                .take_last_error()
                .map(|(code, text)| transaction_error(&context, &Failure::plain(code, text)));
            if let Some(hopeless) = reported.filter(|e| e.kind == LogErrorKind::Fatal) {
                return Err(hopeless);
            }
            let error = transaction_error(&context, &failure);
            if error.kind != LogErrorKind::Retriable || Instant::now() + wait >= end || self.give_up.over() {
                return Err(error);
            }
            tracing::warn!(%error, "init_transactions is tried again");
            std::thread::sleep(wait);
            wait = (wait * 2).min(BACK_OFF.1);
        }
    }
}
