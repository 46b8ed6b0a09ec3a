//! Jobs and streams that are not keyed.
use super::builder::{BuiltSegment, BuiltSink, BuiltSource, Parts, Segment, Step, Topology, TopologyError};
use super::keyed_stream::KeyedStream;
use super::sources::SourceOptions;
use crate::barrier::Barrier;
use crate::exchange::Hub;
use crate::operator::chain_factory::{Outs, open};
use crate::operator::context::{LaneSetup, Meta};
use crate::operator::keyed_lane::{KeyedLane, TypedLane};
use crate::operator::source_lane::Decoder;
use crate::operator::split::{Choose, Split};
use crate::operator::stateless::{Expand, Stateless, filtering, mapping};
use crate::operator::terminal::{Encode, KeyBy, KeyWriter, Output, ToSink};
use crate::operator::{BadReason, Refused};
use crate::sink::{LogTarget, OutboxSink};
use crate::source::Source;
use crate::types::{Codec, RecordRef};
use parking_lot::Mutex;
use std::sync::Arc;

/// A job under construction. Cheap to clone; clones are the same job.
#[derive(Clone)]
pub struct Job {
    name: String,
    parts: Arc<Mutex<Parts>>,
}

/// Where a sink's outputs go.
pub enum Target {
    /// Into the log's transaction (Kafka).
    Log(LogTarget),
    /// Through the outbox, after the commit.
    Outbox(Box<dyn OutboxSink>),
}

impl From<LogTarget> for Target {
    fn from(target: LogTarget) -> Self {
        Target::Log(target)
    }
}

impl<S: OutboxSink + 'static> From<S> for Target {
    fn from(sink: S) -> Self {
        Target::Outbox(Box::new(sink))
    }
}

impl Job {
    /// A job with a stable id: 1 to 64 characters of `a-z0-9-_`, starting with a letter.
    #[must_use]
    pub fn new(name: &str) -> Job {
        Job {
            name: name.to_owned(),
            parts: Arc::default(),
        }
    }

    /// A step that is given its records' headers.
    pub(super) fn add_step_with_headers(&self, id: &str, on_source_lanes: bool) {
        self.add_step(id, on_source_lanes);
        self.parts.lock().headers_behind_exchanges |= !on_source_lanes;
    }

    pub(super) fn add_step(&self, id: &str, on_source_lanes: bool) {
        self.parts.lock().steps.push(Step {
            id: id.to_owned(),
            on_source_lanes,
        });
    }

    pub(super) fn parts(&self) -> &Mutex<Parts> {
        &self.parts
    }

    /// Names the stage, which has the id of its first source otherwise: a job whose sources come in any order, or under other ids, then finds
    /// its offsets and state again.
    pub fn stage(&self, id: &str) {
        self.parts.lock().stage = Some(id.to_owned());
    }

    /// Adds a source whose bad records stop the job. `decode` turns a record into an item; tombstones and null keys come as they are.
    pub fn source<T: Clone + Send + 'static>(
        &self,
        id: &str,
        source: Box<dyn Source>,
        decode: impl Fn(&RecordRef<'_>) -> Result<T, String> + Send + Sync + 'static,
    ) -> Stream<T> {
        self.source_with(id, source, SourceOptions::default(), decode)
    }

    /// Adds a source with options.
    pub fn source_with<T: Clone + Send + 'static>(
        &self,
        id: &str,
        source: Box<dyn Source>,
        options: SourceOptions,
        decode: impl Fn(&RecordRef<'_>) -> Result<T, String> + Send + Sync + 'static,
    ) -> Stream<T> {
        self.add_step(id, true);
        let outs: Outs<T> = Outs::default();
        let policy = self.parts.lock().policy(options.bad_records);
        let decode = Arc::new(decode);
        let (name, chain) = (id.to_owned(), outs.clone());
        let open = Arc::new(move |setup: &LaneSetup| {
            let decode = decode.clone();
            Box::new(Decoder {
                id: name.clone(),
                decode,
                next: open(&chain, setup),
            }) as Box<_>
        });
        self.parts.lock().sources.push(BuiltSource {
            id: id.to_owned(),
            source,
            policy,
            open,
        });
        Stream {
            job: self.clone(),
            outs,
            of_sources: true,
        }
    }

    pub(super) fn add_sink(&self, id: &str, target: Target) -> u16 {
        let built = match target {
            Target::Log(target) => BuiltSink::Log(target),
            Target::Outbox(sink) => BuiltSink::Outbox(sink),
        };
        let sinks = &mut self.parts.lock().sinks;
        sinks.push((id.to_owned(), built));
        (sinks.len() - 1).min(usize::from(u16::MAX)) as u16
    }

    /// Checks the job and takes it for running.
    ///
    /// # Errors
    /// [`TopologyError`]
    pub fn build(self) -> Result<Topology, TopologyError> {
        let parts = std::mem::take(&mut *self.parts.lock());
        parts.check(&self.name)?;
        let first = parts.sources.first().map(|s| s.id.clone());
        let stage = parts.stage.clone().or(first).unwrap_or_default();
        let fingerprint = parts.fingerprint();
        let step_policies = parts.step_policies()?;
        let letters_behind_exchanges = parts.letters_behind_exchanges();
        let Parts {
            sources,
            segments,
            sinks,
            states,
            headers_behind_exchanges,
            ..
        } = parts;
        Ok(Topology {
            job: self.name,
            stage,
            sources,
            segments,
            sinks,
            step_policies,
            letters_behind_exchanges,
            headers_behind_exchanges,
            states,
            fingerprint,
        })
    }
}

/// A stream of items that are not keyed: after a source, or after [`KeyedStream::unkeyed`].
#[must_use = "a stream that nobody consumes does nothing"]
pub struct Stream<T> {
    pub(super) job: Job,
    pub(super) outs: Outs<T>,
    /// Not behind any keyed stream: the items still have their record's key.
    pub(super) of_sources: bool,
}

impl<T> Clone for Stream<T> {
    /// The same stream, for branching.
    fn clone(&self) -> Self {
        Stream {
            job: self.job.clone(),
            outs: self.outs.clone(),
            of_sources: self.of_sources,
        }
    }
}

pub(super) fn stateless<T: Clone + 'static, U: Clone + 'static>(
    outs: &Outs<T>,
    id: &str,
    expand: Expand<T, U>,
) -> Outs<U> {
    let next: Outs<U> = Outs::default();
    let (id, after) = (id.to_owned(), next.clone());
    outs.add(move |setup| Box::new(Stateless::new(id.clone(), expand.clone(), open(&after, setup))));
    next
}

pub(super) fn split<T: Clone + 'static>(
    outs: &Outs<T>,
    id: &str,
    count: usize,
    choose: impl Fn(&T) -> Result<Option<usize>, Refused> + Send + Sync + 'static,
) -> Vec<Outs<T>> {
    let nexts: Vec<Outs<T>> = (0..count).map(|_| Outs::default()).collect();
    let (id, after) = (id.to_owned(), nexts.clone());
    let choose: Choose<T> = Arc::new(choose);
    outs.add(move |setup| {
        let nexts = after.iter().map(|outs| open(outs, setup)).collect();
        Box::new(Split::new(id.clone(), choose.clone(), nexts))
    });
    nexts
}

pub(super) fn sink<T: Clone + 'static>(job: &Job, outs: &Outs<T>, id: &str, target: Target, encode: Encode<T>) {
    let sink = job.add_sink(id, target);
    let id = id.to_owned();
    outs.add(move |_| Box::new(ToSink::new(id.clone(), sink, encode.clone())));
}

pub(super) fn codec_encoder<T: 'static>(codec: impl Codec<T> + 'static) -> Encode<T> {
    Arc::new(move |item, _, out: &mut Output| {
        let value = out.value.get_or_insert_default();
        codec.encode(item, value).map_err(|e| e.to_string())
    })
}

struct ExchangeSegment<T> {
    hub: Arc<Hub<T, Barrier>>,
    outs: Outs<T>,
}

impl<T: Clone + Send + 'static> Segment for ExchangeSegment<T> {
    fn open(&self, setup: LaneSetup) -> Box<dyn KeyedLane> {
        let chain = open(&self.outs, &setup);
        Box::new(TypedLane::new(self.hub.take_inputs(setup.index), chain, setup))
    }
}

/// How an exchange finds the keys of its items.
struct Keying<T> {
    schema: String,
    record_keyed: bool,
    /// Writes an item's key bytes.
    writer: KeyWriter<T>,
}

/// Adds an exchange.
fn exchange<T: Clone + Send + 'static>(job: &Job, outs: &Outs<T>, id: &str, keying: Keying<T>) -> Outs<T> {
    let Keying {
        schema,
        record_keyed,
        writer: key,
    } = keying;
    let hub: Arc<Hub<T, Barrier>> = Arc::default();
    let behind: Outs<T> = Outs::default();
    let (name, upstream) = (id.to_owned(), hub.clone());
    outs.add(move |setup| {
        let router = upstream.connect(setup.keyed_lanes, setup.groups);
        Box::new(KeyBy::new(name.clone(), key.clone(), router))
    });
    let mut parts = job.parts().lock();
    parts.keys.push((id.to_owned(), schema));
    let segment = Box::new(ExchangeSegment {
        hub,
        outs: behind.clone(),
    });
    parts.segments.push(BuiltSegment {
        id: id.to_owned(),
        record_keyed,
        segment,
    });
    behind
}

impl<T: Clone + Send + 'static> Stream<T> {
    fn add_step(&self, id: &str) {
        self.job.add_step(id, self.of_sources);
    }

    fn next<U: Clone + 'static>(&self, id: &str, expand: Expand<T, U>) -> Stream<U> {
        self.add_step(id);
        Stream {
            job: self.job.clone(),
            outs: stateless(&self.outs, id, expand),
            of_sources: self.of_sources,
        }
    }

    /// One item for each.
    pub fn map<U: Clone + Send + 'static>(&self, id: &str, f: impl Fn(T) -> U + Send + Sync + 'static) -> Stream<U> {
        self.next(id, mapping(move |item| Ok::<_, Refused>(f(item))))
    }

    /// One item for each, or a refusal that goes to the bad-record policy.
    pub fn try_map<U: Clone + Send + 'static, E: Into<Refused> + 'static>(
        &self,
        id: &str,
        f: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Stream<U> {
        self.next(id, mapping(f))
    }

    /// Keeps the items for which `f` is true.
    pub fn filter(&self, id: &str, f: impl Fn(&T) -> bool + Send + Sync + 'static) -> Stream<T> {
        self.next(id, filtering(move |item| Ok::<_, Refused>(f(item))))
    }

    /// Keeps the items for which `f` is true; those that it refuses go to the bad-record policy.
    pub fn try_filter<E: Into<Refused> + 'static>(
        &self,
        id: &str,
        f: impl Fn(&T) -> Result<bool, E> + Send + Sync + 'static,
    ) -> Stream<T> {
        self.next(id, filtering(f))
    }

    /// Any number of items for each.
    pub fn flat_map<U: Clone + Send + 'static>(
        &self,
        id: &str,
        f: impl Fn(T, &mut dyn FnMut(U)) + Send + Sync + 'static,
    ) -> Stream<U> {
        self.next(
            id,
            Arc::new(move |item, out| {
                f(item, out);
                Ok(())
            }),
        )
    }

    /// Any number of items for each, or a refusal that goes to the bad-record policy; what was given out before it is dropped then.
    pub fn try_flat_map<U: Clone + Send + 'static, E: Into<Refused> + 'static>(
        &self,
        id: &str,
        f: impl Fn(T, &mut dyn FnMut(U)) -> Result<(), E> + Send + Sync + 'static,
    ) -> Stream<U> {
        self.next(id, Arc::new(move |item, out| f(item, out).map_err(Into::into)))
    }

    /// This stream and another one together, without any order between them.
    pub fn merge(&self, id: &str, other: &Stream<T>) -> Stream<T> {
        self.job.add_step(id, self.of_sources && other.of_sources);
        let joined: Outs<T> = Outs::default();
        for side in [&self.outs, &other.outs] {
            let after = joined.clone();
            side.add(move |setup| open(&after, setup));
        }
        Stream {
            job: self.job.clone(),
            outs: joined,
            of_sources: self.of_sources && other.of_sources,
        }
    }

    /// Splits the stream in `count`: each item goes to the one whose index `choose` gives, and is dropped without one. Those that `choose`
    /// refuses go to the bad-record policy, once.
    pub fn try_split<E: Into<Refused> + 'static>(
        &self,
        id: &str,
        count: usize,
        choose: impl Fn(&T) -> Result<Option<usize>, E> + Send + Sync + 'static,
    ) -> Vec<Stream<T>> {
        self.add_step(id);
        let outs = split(&self.outs, id, count, move |item| choose(item).map_err(Into::into));
        let stream = |outs| Stream {
            job: self.job.clone(),
            outs,
            of_sources: self.of_sources,
        };
        outs.into_iter().map(stream).collect()
    }

    /// Keys the stream by what `f` takes from an item; `codec` writes the key bytes. Equal keys meet on one lane.
    pub fn key_by<K: 'static>(
        &self,
        id: &str,
        codec: impl Codec<K> + 'static,
        f: impl Fn(&T) -> K + Send + Sync + 'static,
    ) -> KeyedStream<T> {
        self.keyed(
            id,
            Keying {
                schema: codec.schema(),
                record_keyed: false,
                writer: Arc::new(move |item, _, out| match codec.encode(&f(item), out) {
                    Ok(()) => Ok(true),
                    Err(e) => Err(Refused {
                        reason: BadReason::Encode,
                        message: e.to_string(),
                    }),
                }),
            },
        )
    }

    /// Keys the stream by the bytes that `f` appends. Items for which it gives false have no key, and go to the bad-record policy like those
    /// that it refuses. `schema` names how the bytes are made, and changes when that does.
    pub fn try_key_by_bytes<E: Into<Refused> + 'static>(
        &self,
        id: &str,
        schema: &str,
        f: impl Fn(&T, &mut Vec<u8>) -> Result<bool, E> + Send + Sync + 'static,
    ) -> KeyedStream<T> {
        self.keyed(
            id,
            Keying {
                schema: schema.to_owned(),
                record_keyed: false,
                writer: Arc::new(move |item, _, out| f(item, out).map_err(Into::into)),
            },
        )
    }

    /// Keys the stream by the record's own key bytes. Records without a key follow the bad-record policy.
    ///
    /// After [`KeyedStream::unkeyed`] the items no longer have their record's key but that of the keyed stream they come from, and are
    /// keyed by its bytes once more: each goes back to where it was. For another key use [`Stream::key_by`].
    pub fn key_by_record_key(&self, id: &str) -> KeyedStream<T> {
        self.keyed(
            id,
            Keying {
                schema: "record-key".to_owned(),
                record_keyed: self.of_sources,
                writer: Arc::new(|_, meta: &Meta<'_>, out| {
                    out.extend_from_slice(meta.key.unwrap_or_default());
                    Ok(meta.key.is_some())
                }),
            },
        )
    }

    fn keyed(&self, id: &str, keying: Keying<T>) -> KeyedStream<T> {
        self.add_step(id);
        let outs = exchange(&self.job, &self.outs, id, keying);
        KeyedStream {
            job: self.job.clone(),
            outs,
        }
    }

    /// Writes the items to a sink, under the record's key; after [`KeyedStream::unkeyed`] under the key bytes of the stream they come from.
    pub fn to(&self, id: &str, target: impl Into<Target>, codec: impl Codec<T> + 'static) {
        self.add_step(id);
        sink(&self.job, &self.outs, id, target.into(), codec_encoder(codec));
    }

    /// Writes the items to a sink; `encode` fills the output, which starts with the record's key and timestamp, from the item alone.
    pub fn to_encoded(
        &self,
        id: &str,
        target: impl Into<Target>,
        encode: impl Fn(&T, &mut Output) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add_step(id);
        let encode = Arc::new(move |item: &T, _: &Meta<'_>, output: &mut Output| encode(item, output));
        sink(&self.job, &self.outs, id, target.into(), encode);
    }

    /// [`Stream::to_encoded`] with the record that caused the item at hand: behind an exchange its headers travel for that.
    pub fn to_with(
        &self,
        id: &str,
        target: impl Into<Target>,
        encode: impl Fn(&T, &Meta<'_>, &mut Output) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.job.add_step_with_headers(id, self.of_sources);
        sink(&self.job, &self.outs, id, target.into(), Arc::new(encode));
    }
}
