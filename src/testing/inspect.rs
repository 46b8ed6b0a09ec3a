//! Reads committed state out of a checkpoint store, as a restore would.
use crate::checkpoint::chain::{Chain, RestoreError};
use crate::checkpoint::object::ObjectReader;
use crate::checkpoint::pointer::Pointer;
use crate::checkpoint::protocol::Expected;
use crate::checkpoint::store::{Layout, Store};
use crate::sink::Committed;
use crate::state::key::parse_state_key;
use crate::state::{StateId, envelope};
use crate::types::Codec;
use std::collections::BTreeMap;

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
    for (shard, link) in chain.resolve(&pointer).map_err(text)?.links() {
        let tail = chain.plan(shard, link, None).map_err(text)?;
        let replayed = chain.replay(&tail, |_, section| {
            for change in section.changes.iter() {
                match change.value {
                    Some(value) => rows.insert(change.key.to_vec(), value.to_vec()),
                    None => rows.remove(change.key),
                };
            }
            Ok::<(), RestoreError>(())
        });
        replayed.map_err(text)?;
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
