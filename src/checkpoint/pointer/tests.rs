use super::*;
use crate::types::Incarnation;
use proptest::prelude::*;

const GOLDEN: &str = "k1;ce558b2b350fecc4;000000005707e1d0;0123456789abcdef-42;2b2ef9d0c9ec0c8f9cf1ee0d8f8cf5a1";

fn golden() -> Pointer {
    Pointer {
        job: job_hash("orders", "count"),
        store: 0x5707_e1d0,
        epoch: EpochId {
            incarnation: Incarnation(0x0123_4567_89ab_cdef),
            n: 42,
        },
        footer: "2b2ef9d0c9ec0c8f9cf1ee0d8f8cf5a1".parse().expect("digest"),
    }
}

/// The text is in docs/format/pointer.md and in committed offsets: it never changes.
#[test]
fn the_golden_pointer_is_written_and_read_as_documented() {
    assert_eq!(golden().to_string(), GOLDEN);
    assert_eq!(Pointer::parse(GOLDEN.as_bytes()), Ok(golden()));
    assert!(include_str!("../../../docs/format/pointer.md").contains(GOLDEN));
}

#[test]
fn job_and_stage_are_told_apart_by_the_zero_byte_between_them() {
    assert_ne!(job_hash("ab", "c"), job_hash("a", "bc"));
}

#[test]
fn the_longest_pointer_has_the_documented_length() {
    let epoch = EpochId {
        incarnation: Incarnation(u64::MAX),
        n: 9_999_999_999_999_999_999,
    };
    let longest = Pointer { epoch, ..golden() }.to_string();
    assert_eq!(longest.len(), Pointer::MAX_LEN);
    assert_eq!(Pointer::parse(longest.as_bytes()).expect("parses").to_string(), longest);
}

#[test]
fn ep_2_anything_but_a_pointer_is_refused() {
    let replaced = |from: &str, to: &str| GOLDEN.replace(from, to).into_bytes();
    let mut cases: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"k1".to_vec(),
        b"k1;;;;".to_vec(),
        b"\0".to_vec(),
        vec![b'a'; 10_000],
        vec![0xff, 0xfe, 0x80],
        [GOLDEN.as_bytes(), b";"].concat(),
        [GOLDEN.as_bytes(), b"\n"].concat(),
        [GOLDEN.as_bytes(), b"0"].concat(),
        [GOLDEN.as_bytes(), &[0]].concat(),
        [b" ", GOLDEN.as_bytes()].concat(),
        [GOLDEN.as_bytes(), &[0x80]].concat(),
        GOLDEN.to_uppercase().into_bytes(),
        GOLDEN.as_bytes()[..GOLDEN.len() - 1].to_vec(),
        replaced("k1", "k2"),
        replaced("k1", "../k1"),
        replaced("abcdef", "ABCDEF"),
        replaced("-42", "-../../x"),
        replaced("-42", "-%2e%2e%2f"),
        replaced("-42", "-042"),
        replaced("-42", "-0"),
        replaced("-42", "-"),
        replaced("-42", "-+42"),
        replaced("-42", "-99999999999999999999"),
        replaced("000000005707e1d0", "+00000005707e1d0"),
        replaced("000000005707e1d0", "5707e1d0"),
        replaced(";", ","),
    ];
    cases.push(GOLDEN.bytes().flat_map(|b| [b, 0]).collect());
    for case in cases {
        assert!(Pointer::parse(&case).is_err(), "{}", case.escape_ascii());
    }
}

proptest! {
    #[test]
    fn a_pointer_comes_back_and_bytes_that_parse_are_exactly_its_text(
        job: u64, store: u64, incarnation: u64, n in 1u64..9_999_999_999_999_999_999, footer: [u8; 16],
    ) {
        let epoch = EpochId { incarnation: Incarnation(incarnation), n };
        let pointer = Pointer { job, store, epoch, footer: Digest(footer) };
        prop_assert_eq!(Pointer::parse(pointer.to_string().as_bytes()), Ok(pointer));
    }

    #[test]
    fn a_changed_byte_gives_another_pointer_or_none(at in 0..GOLDEN.len(), byte: u8) {
        let mut bytes = GOLDEN.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(pointer) = Pointer::parse(&bytes) {
            let text = pointer.to_string();
            prop_assert_eq!(text.as_bytes(), bytes.as_slice());
        }
    }
}
