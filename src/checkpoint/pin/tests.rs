use super::*;
use crate::checkpoint::store::MemoryStore;
use crate::checkpoint::tests::epoch;

fn pointer(n: u64) -> Pointer {
    Pointer {
        job: 1,
        store: 2,
        epoch: epoch(n),
        footer: Digest::of(&n.to_be_bytes()),
    }
}

#[test]
fn pins_keep_what_they_were_put_with_and_a_damaged_one_is_an_error() {
    let (store, layout) = (MemoryStore::new(1), Layout::new("orders", "count").expect("valid"));
    assert!(all(&store, &layout).expect("none").is_empty());
    put(&store, &layout, "one", &[pointer(1), pointer(2)]).expect("put");
    let two = put(&store, &layout, "two", &[pointer(3)]).expect("put");
    assert_eq!(
        all(&store, &layout).expect("read"),
        [pointer(1), pointer(2), pointer(3)]
    );
    assert!(matches!(put(&store, &layout, "a/b", &[]), Err(PinError::Name(_))));
    for bit in 0..store.get(&two).expect("there").len() * 8 {
        assert!(store.flip(&two, bit));
        let why = all(&store, &layout).expect_err("flipped").to_string();
        assert!(why.contains(two.as_str()), "{why}");
        assert!(store.flip(&two, bit));
    }
    store.delete(&two).expect("there");
    assert_eq!(all(&store, &layout).expect("read").len(), 2);
}
