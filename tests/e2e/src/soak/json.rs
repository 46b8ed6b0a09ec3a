//! Orders as JSON: good ones, and what people and programs make of them.
use super::mutate;
use super::record::{Fate, Orders as Make};
use crate::rng::Rng;

/// Orders as JSON.
pub struct Orders;

/// Put in the place of any member's value.
const AWKWARD: [&str; 48] = [
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
    "\"NaN\"",
    "1e400",
    "-1e400",
    "1e-400",
    "1e999999999999",
    "-0",
    "-0.0",
    "0x10",
    "01",
    "+1",
    ".5",
    "5.",
    "1e",
    "--1",
    "123456789012345678901234567890",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "9999999999999999.99",
    "0.0000000000000000000000000000001",
    "1.7976931348623157e308",
    "\"12.50\"",
    "\"1e5\"",
    "null",
    "true",
    "nul",
    "[]",
    "{}",
    "[[]]",
    "[null]",
    "[{\"sku\":[]}]",
    "{\"city\":{}}",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\u0000\"",
    "\"\\x\"",
    "\"tab\there\"",
    "-62135596800000",
    "253402300800000",
    "-1",
    "\"9999-12-31T23:59:60Z\"",
    "\"2024-02-30T00:00:00Z\"",
    "\"AAA=\"",
];

type Members = Vec<(&'static str, String)>;

fn members(number: u64, parts: i64, big: Option<i64>, note: Option<usize>, rng: &mut Rng) -> Members {
    let or_null = |value: Option<String>| value.unwrap_or_else(|| "null".to_owned());
    // Some are no more than 0: they go to the other sink.
    let amount = format!("{}.{:02}", rng.below(1200) as i64 - 200, rng.below(100));
    let tags = match rng.below(4) {
        0 => "[]".to_owned(),
        1 => r#"["new",null,"gift \u00e9\ud83d\ude00"]"#.to_owned(),
        _ => format!(r#"["t{}"]"#, rng.below(100)),
    };
    let address = match rng.below(3) {
        0 => "null".to_owned(),
        1 => r#"{"city":"Turin"}"#.to_owned(),
        _ => format!(r#"{{"geo":{{"lat":{}.25,"lon":-7e-3}},"city":"Oslo"}}"#, rng.below(90)),
    };
    let lines: Vec<String> = (0..rng.below(4))
        .map(|n| format!(r#"{{"sku":"s{n}","price":"{n}.5","qty":{n}}}"#))
        .collect();
    vec![
        ("id", number.to_string()),
        ("customer", format!("\"c{}\"", rng.below(5000))),
        ("amount", amount),
        ("parts", parts.to_string()),
        ("at", timestamp(rng)),
        ("big", or_null(big.map(|n| n.to_string()))),
        ("score", format!("{}.5e-1", rng.below(1000))),
        ("paid", (rng.below(2) == 0).to_string()),
        (
            "note",
            or_null(note.map(|length| format!("\"{}\"", "x".repeat(length)))),
        ),
        ("blob", r#""AAECAw==""#.to_owned()),
        ("tags", tags),
        ("address", address),
        ("lines", format!("[{}]", lines.join(","))),
        ("cube", format!("[[[[[[[[{}]]]]]]]]", rng.below(10))),
    ]
}

fn timestamp(rng: &mut Rng) -> String {
    match rng.below(3) {
        0 => format!("{}", rng.below(1 << 41)),
        // Before 1970.
        1 => format!("-{}", rng.below(1 << 41)),
        _ => format!("\"2024-05-06T07:08:{:02}.123+02:00\"", rng.below(60)),
    }
}

fn text(members: &[(&str, String)]) -> Vec<u8> {
    let all: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", all.join(",")).into_bytes()
}

fn ordinary(number: u64, rng: &mut Rng) -> Members {
    members(number, 1 + rng.below(9) as i64, None, None, rng)
}

fn set(members: &mut Members, name: &str, value: String) {
    members
        .iter_mut()
        .filter(|(n, _)| *n == name)
        .for_each(|m| m.1.clone_from(&value));
}

impl Make for Orders {
    fn valid(&self, number: u64, parts: i64, big: Option<i64>, note: Option<usize>, rng: &mut Rng) -> Vec<u8> {
        let mut members = members(number, parts, big, note, rng);
        if rng.below(4) == 0 {
            rng.shuffle(&mut members);
        }
        text(&members)
    }

    fn twisted(&self, number: u64, rng: &mut Rng) -> (Vec<u8>, Fate) {
        let mut members = ordinary(number, rng);
        let at = rng.below(members.len() as u64) as usize;
        let other = rng.below(members.len() as u64) as usize;
        let awkward = AWKWARD[rng.below(AWKWARD.len() as u64) as usize].to_owned();
        let mut fate = Fate::Any;
        match rng.below(8) {
            0..=2 => members[at].1 = awkward,
            3 => {
                let again = (members[at].0, members[other].1.clone());
                members.insert(other, again);
                fate = Fate::Refused;
            }
            4 => members[at].1 = members[other].1.clone(),
            5 => _ = members.remove(at),
            6 => members.insert(at, ("unknown", awkward)),
            _ => return framed(text(&members), rng),
        }
        (text(&members), fate)
    }

    fn deep(&self, number: u64, levels: usize, rng: &mut Rng) -> (Vec<u8>, Fate) {
        let (open, close) = match rng.below(3) {
            0 => ("[", "]"),
            1 => (r#"{"a":"#, "}"),
            _ => (r#"[{"lines":"#, "}]"),
        };
        let mut members = ordinary(number, rng);
        let nested = format!("{}1{}", open.repeat(levels), close.repeat(levels));
        // What no column is made of may nest as deep as it likes; what one is made of may not.
        let (name, fate) = match rng.below(5) {
            0 => ("unknown", Fate::Output),
            1 => ("tags", Fate::Refused),
            // Members that its schema does not have.
            2 if open.starts_with('{') => ("address", Fate::Output),
            2 => ("address", Fate::Refused),
            3 => ("cube", Fate::Refused),
            _ => return (open.repeat(levels).into_bytes(), Fate::Refused),
        };
        match name {
            "unknown" => members.push((name, nested)),
            _ => set(&mut members, name, nested),
        }
        (text(&members), fate)
    }

    fn wide(&self, number: u64, values: usize, rng: &mut Rng) -> (Vec<u8>, Fate) {
        let (name, element) = match rng.below(4) {
            0 => ("tags", "null"),
            1 => ("tags", r#""""#),
            2 => ("cube", "[]"),
            _ => ("lines", "{}"),
        };
        let mut members = ordinary(number, rng);
        let elements = vec![element; values].join(",");
        set(&mut members, name, format!("[{elements}]"));
        (text(&members), Fate::Any)
    }

    fn noise(&self) -> Fate {
        Fate::Refused
    }
}

/// A whole object, with something before or behind it, or in another encoding.
fn framed(text: Vec<u8>, rng: &mut Rng) -> (Vec<u8>, Fate) {
    let refused = |before: &[u8], after: &[u8]| ([before, &text, after].concat(), Fate::Refused);
    match rng.below(8) {
        0 => refused(b"\xEF\xBB\xBF", b""),
        1 => refused(b"", b" {}"),
        2 => refused(b"[", b"]"),
        3 => refused(b"\0\0\0\0\x07", b""),
        4 => refused(b"", b"\xff"),
        5 => (text.iter().flat_map(|b| [0, *b]).collect(), Fate::Refused),
        6 => ([b" \n\t", text.as_slice(), b"\r\n "].concat(), Fate::Output),
        _ => (mutate::noise(3, rng).into_iter().chain(text).collect(), Fate::Any),
    }
}
