//! Reads committed state out of a checkpoint store, as a restore would.
use super::driver::StateDir;
use super::faults::Faults;
use crate::checkpoint::base::manifest_of;
use crate::checkpoint::chain::{Chain, ShardState};
use crate::checkpoint::object::ObjectReader;
use crate::checkpoint::pointer::Pointer;
use crate::checkpoint::protocol::Expected;
use crate::checkpoint::store::{Layout, Store};
use crate::runtime::{FetchMeter, Progress, Restore};
use crate::sink::Committed;
use crate::state::backend::memory::MemoryFactory;
use crate::state::key::parse_state_key;
use crate::state::{Backend, BackendFactory, Expiry, ImageKind, StateId, envelope};
use crate::telemetry::Metrics;
use crate::types::{Codec, Shard, SystemClock};
use std::collections::BTreeMap;
use std::sync::Arc;

fn text(e: impl ToString) -> String {
    e.to_string()
}

/// The values of one state of a stage by key bytes.
pub(super) fn state<S>(
    store: &dyn Store,
    (job, stage): (&str, &str),
    committed: &[Committed],
    (operator, name): (&str, &str),
    codec: &dyn Codec<S>,
) -> Result<BTreeMap<Vec<u8>, S>, String> {
    let metadata = committed.iter().find_map(|c| c.metadata.as_deref());
    let pointer = Pointer::parse(metadata.ok_or("nothing is committed")?).map_err(text)?;
    let layout = Layout::new(job, stage).map_err(text)?;
    let path = layout.epoch(pointer.epoch);
    let object = ObjectReader::open(store, &path, Some(pointer.footer)).map_err(text)?;
    let header = object.header().clone();
    let known = header.states.iter().find(|s| s.operator == operator && s.name == name);
    let id = StateId(known.ok_or_else(|| format!("no state {operator}/{name}"))?.id);
    let expected = Expected {
        job: header.job,
        stage: header.stage,
        topology: header.topology,
        groups: header.groups,
        topics: header.topics,
        states: header.states,
    };
    let chain = Chain::new(store, &layout, &expected);
    let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (shard, state) in chain.resolve(&pointer).map_err(text)?.shards {
        let copy = Scratch::restored(chain, shard, &state)?;
        copy.backend
            .scan(&mut |key, value| drop(rows.insert(key.to_vec(), value.to_vec())))
            .map_err(text)?;
    }
    let mut values = BTreeMap::new();
    for (key, value) in &rows {
        let Some(parsed) = parse_state_key(key).filter(|p| p.state == id) else {
            continue;
        };
        let (_, encoded) = envelope::parse(value).map_err(text)?;
        values.insert(parsed.key, codec.decode(encoded).map_err(text)?);
    }
    Ok(values)
}

/// A copy of a shard, made for one look.
struct Scratch {
    backend: Arc<dyn Backend>,
    /// After the backend: it is closed before its directory goes.
    _dir: Option<StateDir>,
}

impl Scratch {
    /// As a start on an empty disk makes it, of the kind that the shard's base is.
    fn restored(chain: Chain<'_>, shard: Shard, state: &ShardState) -> Result<Scratch, String> {
        let (store, layout) = chain.place();
        let base = state.base.map(|based| manifest_of(store, layout, shard, &based.base));
        let kind = base
            .transpose()
            .map_err(text)?
            .map_or(ImageKind::Rows, |manifest| manifest.kind);
        let (factory, dir) = factory(kind)?;
        let clock = Arc::new(SystemClock::default());
        let restore = Restore {
            chain,
            backends: factory.as_ref(),
            expiry: Expiry::new(chain.groups(), Vec::new()),
            faults: &Faults::none(),
            progress: &Progress::default(),
            meter: &FetchMeter::new(Metrics::new(), clock),
            run_bytes: 1 << 20,
        };
        let backend = restore.shard(shard, state).map_err(text)?;
        Ok(Scratch { backend, _dir: dir })
    }
}

type Factory = (Box<dyn BackendFactory>, Option<StateDir>);

fn factory(kind: ImageKind) -> Result<Factory, String> {
    match kind {
        ImageKind::Rows => Ok((Box::new(MemoryFactory::default()), None)),
        #[cfg(feature = "rocksdb")]
        ImageKind::RocksDb => {
            use crate::state::backend::rocksdb::{RocksFactory, RocksSettings};
            let dir = StateDir::fresh("look");
            std::fs::create_dir_all(&dir.0).map_err(text)?;
            let factory = RocksFactory::new(&dir.0, RocksSettings::of_budget(1 << 20, 1), Faults::none());
            Ok((Box::new(factory), Some(dir)))
        }
        #[cfg(not(feature = "rocksdb"))]
        ImageKind::RocksDb => Err("a base of RocksDB, which this build does not have".to_owned()),
    }
}
