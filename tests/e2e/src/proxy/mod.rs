//! A proxy in front of a broker that withholds requests and responses by rule. It changes no byte.
//!
//! A Kafka request starts with `length i32 | api key i16 | api version i16 | correlation id i32`, a response with
//! `length i32 | correlation id i32`: that is all that is looked at, but for [`FIND_GROUP`]. The broker has to advertise the
//! proxy's address, so that everything passes through here.
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::broker::free_port;

mod rules;
#[cfg(test)]
mod tests;

pub use rules::{Action, Counters, Rule, RuleId};
use rules::{Decision, Rules};

/// Produce.
pub const PRODUCE: i16 = 0;
/// OffsetFetch.
pub const OFFSET_FETCH: i16 = 9;
/// FindCoordinator of a group, its versions 1 and 2, which name the kind of what they look for last. On the wire it has the number 10, as
/// FindCoordinator of a transactional id; that one goes by 10 here too.
pub const FIND_GROUP: i16 = -10;
/// Heartbeat of a member of a classic group.
pub const HEARTBEAT: i16 = 12;
/// ListGroups.
pub const LIST_GROUPS: i16 = 16;
/// InitProducerId.
pub const INIT_PRODUCER_ID: i16 = 22;
/// AddOffsetsToTxn; brokers from 4.0 on may not need it.
pub const ADD_OFFSETS_TO_TXN: i16 = 25;
/// EndTxn.
pub const END_TXN: i16 = 26;
/// TxnOffsetCommit.
pub const TXN_OFFSET_COMMIT: i16 = 28;

/// No frame is larger than this: Kafka's own default limit.
const FRAME_MAX: usize = 100 * 1024 * 1024;

/// A running proxy. Dropping it closes all connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    /// None while it does not listen.
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    rules: Rules,
    stop: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Listens on a free port of the loopback interface; every connection gets one of its own to `upstream`.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn start(upstream: SocketAddr) -> io::Result<Proxy> {
        // None of those that the kernel hands out itself: it has to be free again after `unreachable`.
        let port = free_port().map_err(io::Error::other)?;
        let shared = Arc::new(Shared {
            upstream,
            rules: Rules::default(),
            stop: AtomicBool::new(false),
            sockets: Mutex::new(Vec::new()),
        });
        let proxy = Proxy {
            port,
            shared,
            thread: Mutex::new(None),
        };
        proxy.listen()?;
        Ok(proxy)
    }

    fn listen(&self) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (listener, shared) = (TcpListener::bind(("127.0.0.1", self.port))?, self.shared.clone());
            shared.stop.store(false, Ordering::SeqCst);
            let builder = std::thread::Builder::new().name("proxy".into());
            *thread = Some(builder.spawn(move || accept(&listener, &shared))?);
        }
        Ok(())
    }

    fn listen_no_more(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            self.shared.stop.store(true, Ordering::SeqCst);
            // The listener wakes up for this connection.
            let _ = TcpStream::connect(("127.0.0.1", self.port));
            let _ = thread.join();
        }
    }

    /// `host:port` for clients, and for the broker to advertise.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Adds a rule. For each frame the first rule that applies decides.
    pub fn add(&self, rule: Rule) -> RuleId {
        self.shared.rules.add(rule)
    }

    /// Lets go what this rule holds, and ends it.
    pub fn release(&self, id: RuleId) {
        self.shared.rules.remove(id);
    }

    /// Ends all rules.
    pub fn clear(&self) {
        self.shared.rules.clear();
    }

    /// How often this rule has acted.
    #[must_use]
    pub fn acted(&self, id: RuleId) -> u64 {
        self.shared.rules.acted(id)
    }

    /// Waits until the rule has acted `times` times; false when that took longer than `limit`.
    #[must_use]
    pub fn wait_until_acted(&self, id: RuleId, times: u64, limit: Duration) -> bool {
        self.shared.rules.wait_until_acted(id, times, limit)
    }

    /// What has passed of this kind of request.
    #[must_use]
    pub fn counters(&self, api_key: i16) -> Counters {
        self.shared.rules.counters(api_key)
    }

    /// Closes every connection; clients may connect again.
    pub fn cut(&self) {
        for socket in self
            .shared
            .sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// With `true` closes every connection and refuses others, until told `false`: the broker cannot be reached.
    ///
    /// # Errors
    /// When it cannot listen again.
    pub fn unreachable(&self, unreachable: bool) -> io::Result<()> {
        if !unreachable {
            return self.listen();
        }
        self.listen_no_more();
        self.cut();
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.rules.clear();
        self.listen_no_more();
        self.cut();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        // A broker that is down shows to the client as a closed connection.
        let _ = connect(client, shared);
    }
}

/// Two threads for each connection, one for each direction.
fn connect(client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let broker = TcpStream::connect(shared.upstream)?;
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    let mut sockets = shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
    sockets.retain(|s| s.peer_addr().is_ok());
    sockets.extend([client.try_clone()?, broker.try_clone()?]);
    drop(sockets);
    let open: Open = Arc::default();
    let up = (client.try_clone()?, broker.try_clone()?, shared.clone(), open.clone());
    let down = (broker, client, shared.clone(), open);
    let builder = || std::thread::Builder::new().name("proxy-connection".into());
    builder().spawn(move || {
        let _ = requests(&up.0, &up.1, &up.2, &up.3);
        close(&up.0, &up.1);
    })?;
    builder().spawn(move || {
        let _ = responses(&down.0, &down.1, &down.2, &down.3);
        close(&down.0, &down.1);
    })?;
    Ok(())
}

/// Requests without a response yet, by correlation id: the api key, and what shall happen to the response.
type Open = Arc<Mutex<HashMap<i32, (i16, Option<Decision>)>>>;

fn close(one: &TcpStream, other: &TcpStream) {
    // Either may be closed already.
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}

fn requests(client: &TcpStream, broker: &TcpStream, shared: &Shared, open: &Open) -> io::Result<()> {
    let mut frame = Vec::new();
    while read_frame(client, &mut frame, 8)? {
        let api_key = kind(&frame);
        let id = i32::from_be_bytes([frame[8], frame[9], frame[10], frame[11]]);
        let decision = shared.rules.request(api_key);
        let of_response = match decision {
            Some(decision) if decision.action == Action::CloseInsteadOfRequest => return Ok(()),
            Some(decision) if decision.action.holds_request() => {
                shared.rules.hold(&decision);
                None
            }
            other => other,
        };
        open.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, (api_key, of_response));
        let mut broker = broker;
        shared.rules.passed_request(api_key);
        broker.write_all(&frame)?;
    }
    Ok(())
}

/// The api key, or [`FIND_GROUP`].
fn kind(frame: &[u8]) -> i16 {
    let number = |at: usize| i16::from_be_bytes([frame[at], frame[at + 1]]);
    match (number(4), number(6), frame.last()) {
        (10, 1 | 2, Some(0)) => FIND_GROUP,
        (api_key, _, _) => api_key,
    }
}

fn responses(broker: &TcpStream, client: &TcpStream, shared: &Shared, open: &Open) -> io::Result<()> {
    let mut frame = Vec::new();
    while read_frame(broker, &mut frame, 4)? {
        let id = i32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]);
        let known = open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let Some((api_key, decision)) = known else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if let Some(decision) = decision {
            shared.rules.act(&decision);
            match decision.action {
                Action::DropResponse => continue,
                Action::CloseInsteadOfResponse => return Ok(()),
                _ => shared.rules.hold(&decision),
            }
        }
        let mut client = client;
        shared.rules.passed_response(api_key);
        client.write_all(&frame)?;
    }
    Ok(())
}

/// Reads the length and what it says, at least `minimum` bytes; false at the end of the stream.
fn read_frame(mut from: &TcpStream, frame: &mut Vec<u8>, minimum: usize) -> io::Result<bool> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        other => other?,
    }
    let count = usize::try_from(i32::from_be_bytes(length)).map_err(|_| io::ErrorKind::InvalidData)?;
    if !(minimum..=FRAME_MAX).contains(&count) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    frame.clear();
    frame.extend(length);
    frame.resize(4 + count, 0);
    from.read_exact(&mut frame[4..])?;
    Ok(true)
}
