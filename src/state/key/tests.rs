use super::*;
use proptest::prelude::*;

fn written(group: u16, state: u16, key: &[u8], namespace: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_state_key(KeyGroup(group), StateId(state), key, namespace, &mut out);
    out
}

/// Golden vectors: a change here makes every local copy and every checkpoint unreadable.
#[test]
fn state_keys_have_the_documented_bytes() {
    assert_eq!(written(0, 1, b"", b""), [0, 0, 0, 1, 0, 1]);
    assert_eq!(written(0x0102, 0x0304, b"key", b""), *b"\x01\x02\x03\x04key\x00\x01");
    assert_eq!(
        written(959, 7, b"a\x00b", b"\x00ns"),
        *b"\x03\xbf\x00\x07a\x00\xffb\x00\x01\x00ns"
    );
    assert_eq!(
        written(1, 1, b"\x00\x00", b""),
        *b"\x00\x01\x00\x01\x00\xff\x00\xff\x00\x01"
    );
}

#[test]
fn what_is_not_a_state_key_is_refused() {
    let bad: [&[u8]; 8] = [
        b"",
        b"\x00",
        b"\x00\x01\x00\x01",
        b"\x00\x01\x00\x01key",
        b"\x00\x01\x00\x01key\x00",
        b"\x00\x01\x00\x01key\x00\x02",
        b"\x00\x01\x00\x00key\x00\x01",
        b"\xff\xff\x00\x01key\x00\x01",
    ];
    for bytes in bad {
        assert_eq!(parse_state_key(bytes), None, "{bytes:?}");
    }
}

/// Few distinct bytes, so that prefixes, zeros and escapes meet often.
fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..6)
}

proptest! {
    #[test]
    fn state_keys_come_back(group in 0u16..32_768, state in 1u16.., k in key(), ns in key()) {
        let bytes = written(group, state, &k, &ns);
        let parsed = parse_state_key(&bytes).expect("strict parse of what was written");
        prop_assert_eq!(parsed, ParsedKey { group: KeyGroup(group), state: StateId(state), key: k, namespace: &ns });
    }

    #[test]
    fn byte_order_is_the_order_of_the_parts(
        a in (0u16..3, 1u16..3, key(), key()),
        b in (0u16..3, 1u16..3, key(), key()),
    ) {
        let left = written(a.0, a.1, &a.2, &a.3);
        let right = written(b.0, b.1, &b.2, &b.3);
        prop_assert_eq!(left.cmp(&right), a.cmp(&b));
    }

    #[test]
    fn no_key_without_a_namespace_is_a_prefix_of_another(a in key(), b in key()) {
        prop_assume!(a != b);
        prop_assert!(!written(1, 1, &b, b"").starts_with(&written(1, 1, &a, b"")));
    }
}
