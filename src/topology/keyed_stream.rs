//! Streams whose items are grouped by key.
use super::stream::{Job, Stream, Target, codec_encoder, sink, split, stateless};
use crate::operator::Refused;
use crate::operator::chain_factory::{Outs, open};
use crate::operator::context::Meta;
use crate::operator::keyed::{Aggregate, Updater};
use crate::operator::last_per_epoch::{LastPerEpoch, Weight};
use crate::operator::process::{KeyedProcess, Process};
use crate::operator::stateless::{Expand, filtering, mapping};
use crate::operator::states::{StateDecl, StateScope, lane_map};
use crate::operator::terminal::Output;
use crate::types::Codec;
use crate::types::codec::LongBe;
use std::sync::Arc;

/// A keyed stream: items of equal key bytes are on one lane, in order.
#[must_use = "a stream that nobody consumes does nothing"]
pub struct KeyedStream<T> {
    pub(super) job: Job,
    pub(super) outs: Outs<T>,
}

/// The one state of an aggregate.
const AGGREGATE: &str = "value";

impl<T> Clone for KeyedStream<T> {
    /// The same stream, for branching.
    fn clone(&self) -> Self {
        KeyedStream {
            job: self.job.clone(),
            outs: self.outs.clone(),
        }
    }
}

impl<T: Clone + Send + 'static> KeyedStream<Option<T>> {
    /// As [`KeyedStream::reduce`], of items that may be none, as tombstones are: none deletes the value of its key, and goes on as none.
    ///
    /// ```
    /// # use keyfold::topology::Job;
    /// # use keyfold::types::codec::Raw;
    /// # fn build(customers: Box<dyn keyfold::source::Source>, out: keyfold::sink::LogTarget) {
    /// let job = Job::new("customers");
    /// job.source("customers", customers, |record| Ok(record.value.map(<[u8]>::to_vec)))
    ///     .key_by_record_key("by-customer")
    ///     .reduce_or_delete("latest", Raw, |_, new| new)
    ///     .to_with("sink", out, |latest, _, output| {
    ///         output.value.clone_from(latest);
    ///         Ok(())
    ///     });
    /// # }
    /// ```
    pub fn reduce_or_delete(
        &self,
        id: &str,
        codec: impl Codec<T> + 'static,
        f: impl Fn(T, T) -> T + Send + Sync + 'static,
    ) -> KeyedStream<Option<T>> {
        let f: crate::operator::keyed::Update<Option<T>, T, Option<T>> = Arc::new(move |value, item| {
            *value = match (value.take(), item) {
                (Some(old), Some(new)) => Some(f(old, new)),
                (_, item) => item,
            };
            value.clone()
        });
        self.aggregate(id, Arc::new(codec), move || Updater::Sure(f.clone()))
    }
}

impl<T: Clone + Send + 'static> KeyedStream<T> {
    fn next<U: Clone + 'static>(&self, id: &str, expand: Expand<T, U>) -> KeyedStream<U> {
        self.job.add_step(id, false);
        KeyedStream {
            job: self.job.clone(),
            outs: stateless(&self.outs, id, expand),
        }
    }

    fn aggregate<S, U>(
        &self,
        id: &str,
        codec: Arc<dyn Codec<S>>,
        updater: impl Fn() -> Updater<T, S, U> + Send + Sync + 'static,
    ) -> KeyedStream<U>
    where
        S: Clone + 'static,
        U: Clone + Send + 'static,
    {
        self.job.add_step(id, false);
        let decl = StateDecl {
            operator: id.to_owned(),
            name: AGGREGATE.to_owned(),
            schema: codec.schema(),
            ttl: None,
        };
        self.job.parts().lock().states.push(decl);
        let next: Outs<U> = Outs::default();
        let (id, after) = (id.to_owned(), next.clone());
        self.outs.add(move |setup| {
            let map = lane_map(setup, &id, AGGREGATE, codec.clone());
            Box::new(Aggregate::new(id.clone(), map, updater(), open(&after, setup)))
        });
        KeyedStream {
            job: self.job.clone(),
            outs: next,
        }
    }

    /// Folds the items of each key into a value that starts as `init()`; emits the value after every record, with the largest timestamp
    /// that the key has seen.
    pub fn fold<A: Clone + Send + 'static>(
        &self,
        id: &str,
        codec: impl Codec<A> + 'static,
        init: impl Fn() -> A + Send + Sync + 'static,
        f: impl Fn(&mut A, T) + Send + Sync + 'static,
    ) -> KeyedStream<A> {
        let f: crate::operator::keyed::Update<T, A, A> = Arc::new(move |value: &mut Option<A>, item| {
            let acc = value.get_or_insert_with(&init);
            f(acc, item);
            acc.clone()
        });
        self.aggregate(id, Arc::new(codec), move || Updater::Sure(f.clone()))
    }

    /// As [`KeyedStream::fold`], but `f` may refuse an item: the value stays as it was, and the bad-record policy decides.
    pub fn try_fold<A: Clone + Send + 'static, E: Into<Refused> + 'static>(
        &self,
        id: &str,
        codec: impl Codec<A> + 'static,
        init: impl Fn() -> A + Send + Sync + 'static,
        f: impl Fn(&mut A, T) -> Result<(), E> + Send + Sync + 'static,
    ) -> KeyedStream<A> {
        let f: crate::operator::keyed::TryUpdate<T, A, A> = Arc::new(move |value: &mut Option<A>, item| {
            let acc = value.get_or_insert_with(&init);
            f(acc, item).map_err(Into::into)?;
            Ok(acc.clone())
        });
        self.aggregate(id, Arc::new(codec), move || Updater::May(f.clone()))
    }

    /// Changes the value of an item's key, None where there is none, and emits what `f` returns, with the largest timestamp that the key has
    /// seen. `f` may refuse an item, and has left the value as it was then: it works on the value itself, so that nothing is copied
    /// for every record. [`KeyedStream::try_fold`] works on a copy.
    pub fn try_update<S: Clone + 'static, U: Clone + Send + 'static, E: Into<Refused> + 'static>(
        &self,
        id: &str,
        codec: impl Codec<S> + 'static,
        f: impl Fn(&mut Option<S>, T) -> Result<U, E> + Send + Sync + 'static,
    ) -> KeyedStream<U> {
        let f: crate::operator::keyed::TryUpdate<T, S, U> =
            Arc::new(move |value, item| f(value, item).map_err(Into::into));
        self.aggregate(id, Arc::new(codec), move || Updater::Careful(f.clone()))
    }

    /// Combines the items of each key two by two; emits the value after every record. See [`KeyedStream::reduce_or_delete`] for tombstones.
    pub fn reduce(
        &self,
        id: &str,
        codec: impl Codec<T> + 'static,
        f: impl Fn(T, T) -> T + Send + Sync + 'static,
    ) -> KeyedStream<T> {
        let f: crate::operator::keyed::Update<T, T, T> = Arc::new(move |value: &mut Option<T>, item| {
            let combined = match value.take() {
                Some(old) => f(old, item),
                None => item,
            };
            *value = Some(combined.clone());
            combined
        });
        self.aggregate(id, Arc::new(codec), move || Updater::Sure(f.clone()))
    }

    /// Counts the items of each key; emits the count after every record.
    pub fn count(&self, id: &str) -> KeyedStream<u64> {
        let f: crate::operator::keyed::Update<T, u64, u64> = Arc::new(|value: &mut Option<u64>, _| {
            let count = value.get_or_insert(0);
            *count = count.saturating_add(1);
            *count
        });
        let codec: Arc<dyn Codec<u64>> = Arc::new(LongBe);
        self.aggregate(id, codec, move || Updater::Sure(f.clone()))
    }

    /// Of the items of each key in an epoch the last one goes on, with the record it came from, when the epoch ends; those before it do not.
    /// Keys go on in the order in which they first came in the epoch. An epoch ends at every `epoch_interval` and whenever a high-water
    /// mark asks for it, so this thins out and promises no more than the last item of each.
    ///
    /// What is held until then is part of dirty state. `weight` tells what an item takes in memory beside its own size, so that the limits
    /// hold: the bytes of its texts, for one.
    ///
    /// ```
    /// # use keyfold::topology::Job;
    /// # use keyfold::types::codec::LongBe;
    /// # fn build(clicks: Box<dyn keyfold::source::Source>, out: keyfold::sink::LogTarget) {
    /// let job = Job::new("clicks");
    /// job.source("clicks", clicks, |_| Ok(()))
    ///     .key_by_record_key("by-page")
    ///     .count("counts")
    ///     .last_per_epoch("latest", |_| 0)
    ///     .to("pages", out, LongBe);
    /// # }
    /// ```
    pub fn last_per_epoch(&self, id: &str, weight: impl Fn(&T) -> usize + Send + Sync + 'static) -> KeyedStream<T> {
        self.job.add_step(id, false);
        let next: Outs<T> = Outs::default();
        let after = next.clone();
        let weight: Weight<T> = Arc::new(weight);
        self.outs
            .add(move |setup| Box::new(LastPerEpoch::new(weight.clone(), open(&after, setup))));
        KeyedStream {
            job: self.job.clone(),
            outs: next,
        }
    }

    /// A user's operator with named states. `factory` runs once now, to learn the states' names, and once per lane.
    pub fn process<P, U>(
        &self,
        id: &str,
        factory: impl Fn(&mut StateScope) -> P + Send + Sync + 'static,
    ) -> KeyedStream<U>
    where
        P: KeyedProcess<T, U> + 'static,
        U: Clone + Send + 'static,
    {
        self.job.add_step_with_headers(id, false);
        let mut declaring = StateScope::declaring(id);
        drop(factory(&mut declaring));
        self.job.parts().lock().states.extend(declaring.into_decls());
        let next: Outs<U> = Outs::default();
        let (id, after) = (id.to_owned(), next.clone());
        self.outs.add(move |setup| {
            let mut scope = StateScope::of_lane(&id, setup);
            let user = factory(&mut scope);
            Box::new(Process::new(id.clone(), user, scope, open(&after, setup)))
        });
        KeyedStream {
            job: self.job.clone(),
            outs: next,
        }
    }

    /// One item for each; the key stays.
    pub fn map<U: Clone + Send + 'static>(
        &self,
        id: &str,
        f: impl Fn(T) -> U + Send + Sync + 'static,
    ) -> KeyedStream<U> {
        self.next(id, mapping(move |item| Ok::<_, Refused>(f(item))))
    }

    /// One item for each, or a refusal that goes to the bad-record policy.
    pub fn try_map<U: Clone + Send + 'static, E: Into<Refused> + 'static>(
        &self,
        id: &str,
        f: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> KeyedStream<U> {
        self.next(id, mapping(f))
    }

    /// Keeps the items for which `f` is true.
    pub fn filter(&self, id: &str, f: impl Fn(&T) -> bool + Send + Sync + 'static) -> KeyedStream<T> {
        self.next(id, filtering(move |item| Ok::<_, Refused>(f(item))))
    }

    /// Keeps the items for which `f` is true; those that it refuses go to the bad-record policy.
    pub fn try_filter<E: Into<Refused> + 'static>(
        &self,
        id: &str,
        f: impl Fn(&T) -> Result<bool, E> + Send + Sync + 'static,
    ) -> KeyedStream<T> {
        self.next(id, filtering(f))
    }

    /// Any number of items for each.
    pub fn flat_map<U: Clone + Send + 'static>(
        &self,
        id: &str,
        f: impl Fn(T, &mut dyn FnMut(U)) + Send + Sync + 'static,
    ) -> KeyedStream<U> {
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
    ) -> KeyedStream<U> {
        self.next(id, Arc::new(move |item, out| f(item, out).map_err(Into::into)))
    }

    /// Splits the stream in `count`, as [`Stream::try_split`]; the key stays.
    pub fn try_split<E: Into<Refused> + 'static>(
        &self,
        id: &str,
        count: usize,
        choose: impl Fn(&T) -> Result<Option<usize>, E> + Send + Sync + 'static,
    ) -> Vec<KeyedStream<T>> {
        self.job.add_step(id, false);
        let outs = split(&self.outs, id, count, move |item| choose(item).map_err(Into::into));
        let stream = |outs| KeyedStream {
            job: self.job.clone(),
            outs,
        };
        outs.into_iter().map(stream).collect()
    }

    /// For keying by another key. Until then the items keep their key bytes: as the key of outputs, and for
    /// [`Stream::key_by_record_key`], which takes them and not the record's own.
    pub fn unkeyed(&self) -> Stream<T> {
        Stream {
            job: self.job.clone(),
            outs: self.outs.clone(),
            of_sources: false,
        }
    }

    /// Writes the items to a sink, under their key bytes.
    pub fn to(&self, id: &str, target: impl Into<Target>, codec: impl Codec<T> + 'static) {
        self.job.add_step(id, false);
        sink(&self.job, &self.outs, id, target.into(), codec_encoder(codec));
    }

    /// Writes the items to a sink; `encode` fills the output, which starts with the key bytes and the item's timestamp, from the item alone.
    pub fn to_encoded(
        &self,
        id: &str,
        target: impl Into<Target>,
        encode: impl Fn(&T, &mut Output) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.job.add_step(id, false);
        let encode = Arc::new(move |item: &T, _: &Meta<'_>, output: &mut Output| encode(item, output));
        sink(&self.job, &self.outs, id, target.into(), encode);
    }

    /// [`KeyedStream::to_encoded`] with the record that caused the item at hand: its headers travel for that.
    pub fn to_with(
        &self,
        id: &str,
        target: impl Into<Target>,
        encode: impl Fn(&T, &Meta<'_>, &mut Output) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.job.add_step_with_headers(id, false);
        sink(&self.job, &self.outs, id, target.into(), Arc::new(encode));
    }
}
