use super::*;
use crate::state::ChangeSet;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Few keys, so that sets meet: some of them beginnings of others.
fn rows() -> impl Strategy<Value = Rows> {
    let key = proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..4);
    let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..4));
    proptest::collection::btree_map(key, value, 0..30)
}

fn changes(rows: &Rows) -> ChangeSet {
    let mut set = ChangeSet::default();
    for (key, value) in rows {
        let value = value.as_deref();
        set.push(Change { key, value });
    }
    set
}

proptest! {
    /// One after the other or as one, it comes to the same.
    #[test]
    fn merged_sets_are_the_sets_one_after_the_other(all in proptest::collection::vec(rows(), 0..6)) {
        let mut one_by_one = Rows::new();
        for rows in &all {
            one_by_one.extend(rows.clone());
        }
        let sets: Vec<ChangeSet> = all.iter().map(changes).collect();
        let merged: Vec<_> = Merged::of(sets.iter().map(ChangeSet::iter))
            .map(|change| (change.key.to_vec(), change.value.map(<[u8]>::to_vec)))
            .collect();
        prop_assert_eq!(merged, one_by_one.into_iter().collect::<Vec<_>>());
    }
}
