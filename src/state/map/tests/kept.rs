//! Entries that go back to what they were, and copies that cannot.
use super::*;

/// A value envelope that was damaged in the local copy ended the job for good, though the checkpoint store had the value: it was taken for
/// one of a newer format.
#[test]
fn a_damaged_envelope_is_damage_of_its_shard() {
    let mut rig = Rig::new(1 << 20);
    let shard = groups().shard_of(key(b"a").group);
    for (epoch, bytes) in [(1, &b"\x01\0\0"[..]), (2, b"\0\0\0\0\0\0\0\0\0abc"), (3, b"")] {
        let mut changes = change_sets();
        let mut state_key = Vec::new();
        write_state_key(key(b"a").group, STATE, b"a", b"", &mut state_key);
        changes[shard.0 as usize].push(crate::state::Change {
            key: &state_key,
            value: Some(bytes),
        });
        rig.apply(epoch, &changes);
        match rig.map.get(key(b"a"), 0) {
            Err(StateError::Damaged {
                shard: found, reason, ..
            }) => {
                assert!(found == shard.0 && reason.contains("sum/total"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A refused record left its timestamp on the entry, and `i64::MIN` after a `clear`; outputs of the key carried it from then on.
#[test]
fn what_is_restored_is_the_entry_exactly_and_nothing_is_written() {
    type Change = fn(&mut Option<i64>);
    let changes: [Change; 3] = [|v| *v = Some(9), |v| *v = None, |_| ()];
    for first in changes {
        for second in changes {
            let mut rig = Rig::new(1 << 20);
            rig.map.put(key(b"a"), 7, 1).expect("put");
            rig.encode(1);
            for (k, there) in [(&b"a"[..], Some((1, 7))), (b"b", None)] {
                let mut before = None;
                for change in [first, second] {
                    rig.map.update_keeping(key(k), 50, &mut before, change).expect("update");
                }
                rig.map.restore(key(k), before.expect("kept")).expect("restore");
                assert_eq!(rig.get(k), there);
                assert_eq!(rig.map.dirty_bytes(), 0);
            }
            assert_eq!(rig.encode(2).iter().map(ChangeSet::len).sum::<usize>(), 0);
            assert_eq!(rig.map.put(key(b"a"), 3, 2).expect("put"), 7, "the largest it has seen");
            let mut before = None;
            rig.map
                .update_keeping(key(b"a"), 50, &mut before, second)
                .expect("update");
            rig.map.restore(key(b"a"), before.expect("kept")).expect("restore");
            assert_eq!(rig.get(b"a"), Some((2, 7)));
            assert_eq!(
                rig.encode(3).iter().map(ChangeSet::len).sum::<usize>(),
                1,
                "still to be written"
            );
        }
    }
}
