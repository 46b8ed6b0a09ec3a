use proptest::prelude::*;

use super::super::node::Pattern;
use super::{table, told};

#[test]
fn texts_are_made_of_characters_not_of_bytes() {
    table(
        "lower('ABC') => 'abc' string
        upper(customer) => 'ADA' string
        upper('abc1') => 'ABC1' string
        lower(no_text) => NULL string
        upper(word) => 'STRASSE \u{1f600}' string
        lower('\u{c4}') => '\u{e4}' string
        length(word) => 8 int64
        length('') => 0 int64
        length(no_text) => NULL int64
        length(raw) => 3 int64
        customer || ' ' || line => 'Ada to be  or not' string
        customer || no_text => NULL string
        customer || NULL => NULL string
        'a' || 'b' = 'ab' => TRUE bool
        concat(customer, no_text, '!') => 'Ada!' string
        concat(no_text) => '' string
        concat('a', 'b', 'c') => 'abc' string
        'it''s' => 'it's' string
        trim('  a b  ') => 'a b' string
        trim(LEADING FROM '  a ') => 'a ' string
        trim(TRAILING FROM '  a ') => '  a' string
        trim(BOTH 'x' FROM 'xxaxx') => 'a' string
        trim(LEADING 'ab' FROM 'abcab') => 'cab' string
        trim(BOTH FROM ' a ') => 'a' string
        trim('xyaxy', 'yx') => 'a' string
        trim('xxx', 'x') => '' string
        trim('a', '') => 'a' string
        trim(no_text) => NULL string
        trim(customer, no_text) => NULL string
        trim(concat(' ', customer, ' ')) => 'Ada' string",
    );
}

#[test]
fn substr_counts_from_one_and_takes_any_place() {
    table(
        "substr('abcdef', 2) => 'bcdef' string
        substr('abcdef', 2, 3) => 'bcd' string
        substring('abcdef' FROM 2 FOR 3) => 'bcd' string
        substring('abcdef' FROM 2) => 'bcdef' string
        substring('abcdef' FOR 2) => 'ab' string
        substr('abcdef', 1, 0) => '' string
        substr('abcdef', 0, 2) => 'a' string
        substr('abcdef', -1, 4) => 'ab' string
        substr('abcdef', -5, 3) => '' string
        substr('abcdef', 7) => '' string
        substr('abcdef', 100, 5) => '' string
        substr('abcdef', 5, 100) => 'ef' string
        substr(word, 5, 2) => '\u{df}e' string
        substr(word, 8) => '\u{1f600}' string
        substr(customer, most) => '' string
        substr(customer, least) => 'Ada' string
        substr(customer, least, most) => '' string
        substr(customer, 1, most) => 'Ada' string
        substr(customer, most, most) => '' string
        substr(customer, 2, orders - 8) => negative_length: a length of -1 in `substr(customer, 2, orders - 8)`
        substr(customer, nothing) => NULL string
        substr(customer, 1, nothing) => NULL string
        substr(no_text, 1) => NULL string
        substr(upper(customer), 2) => 'DA' string",
    );
}

#[test]
fn like_knows_two_signs_and_an_escape() {
    table(
        "customer LIKE 'A%' => TRUE bool
        customer LIKE 'a%' => FALSE bool
        customer NOT LIKE 'B%' => TRUE bool
        customer LIKE '%' => TRUE bool
        customer LIKE '' => FALSE bool
        empty LIKE '' => TRUE bool
        empty LIKE '%' => TRUE bool
        empty LIKE '_' => FALSE bool
        customer LIKE '_d_' => TRUE bool
        customer LIKE '__' => FALSE bool
        customer LIKE '%d%' => TRUE bool
        customer LIKE 'Ada' => TRUE bool
        customer LIKE 'Ada_' => FALSE bool
        customer LIKE 'A%a' => TRUE bool
        'a' LIKE 'a%a' => FALSE bool
        'aa' LIKE 'a%a' => TRUE bool
        line LIKE 'to%or%not' => TRUE bool
        line LIKE 'to%not%or' => FALSE bool
        line LIKE '%__or%' => TRUE bool
        '50%' LIKE '50!%' ESCAPE '!' => TRUE bool
        '50x' LIKE '50!%' ESCAPE '!' => FALSE bool
        'a_c' LIKE 'a!_c' ESCAPE '!' => TRUE bool
        'abc' LIKE 'a!_c' ESCAPE '!' => FALSE bool
        '!' LIKE '!!' ESCAPE '!' => TRUE bool
        '50\\%' LIKE '50\\%' => TRUE bool
        word LIKE 'stra_e _' => TRUE bool
        no_text LIKE '%' => NULL bool
        customer LIKE no_text => NULL bool
        customer LIKE NULL => NULL bool
        customer LIKE customer || '%' => TRUE bool
        customer LIKE 'A!' || substr(empty, 1) ESCAPE '!' => like_pattern: the pattern 'A!' ends with its escape character in `customer LIKE 'A!' || substr(empty, 1) ESCAPE '!'`",
    );
}

#[test]
fn split_cuts_a_text_into_an_array() {
    table(
        "split(line) => ['to', 'be', 'or', 'not'] array(string)
        split('  ') => [] array(string)
        split('') => [] array(string)
        split('a,b,,c', ',') => ['a', 'b', '', 'c'] array(string)
        split('', ',') => [''] array(string)
        split('abc', '') => ['abc'] array(string)
        split('a--b', '--') => ['a', 'b'] array(string)
        split(no_text) => NULL array(string)
        split(line, no_text) => NULL array(string)
        cardinality(split(line)) => 4 int64
        split(line)[2] => 'be' string
        split(line)[5] => NULL string",
    );
}

/// What LIKE means, by trying all ways.
fn naive(text: &[char], pattern: &[char], escape: Option<char>) -> bool {
    match pattern {
        [] => text.is_empty(),
        [e, c, rest @ ..] if Some(*e) == escape => text.first() == Some(c) && naive(&text[1..], rest, escape),
        ['%', rest @ ..] => (0..=text.len()).any(|cut| naive(&text[cut..], rest, escape)),
        ['_', rest @ ..] => !text.is_empty() && naive(&text[1..], rest, escape),
        [c, rest @ ..] => text.first() == Some(c) && naive(&text[1..], rest, escape),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn like_is_what_a_naive_matcher_says(text in "[ab\u{e4}%]{0,12}", pattern in "[ab\u{e4}%_!]{0,8}", escaped in any::<bool>()) {
        let escape = escaped.then_some('!');
        let chars: Vec<char> = pattern.chars().collect();
        match Pattern::new(&pattern, escape) {
            Some(compiled) => {
                let wanted = naive(&text.chars().collect::<Vec<_>>(), &chars, escape);
                prop_assert_eq!(compiled.matches(&text), wanted, "{:?} LIKE {:?}", text, pattern);
            }
            None => prop_assert!(escaped && pattern.ends_with('!')),
        }
    }

    #[test]
    fn substr_is_what_a_slow_one_says(text in "[a\u{e4}\u{1f600}]{0,6}", from in -4i64..9, length in 0i64..9) {
        let part: String = text
            .chars()
            .zip(1_i64..)
            .filter(|(_, place)| (from..from + length).contains(place))
            .map(|(c, _)| c)
            .collect();
        prop_assert_eq!(told(&format!("substr('{text}', {from}, {length})")), format!("'{part}' string"));
    }
}

/// A pattern of many `%` over a text that nearly fits makes backtracking matchers slow; here it is a search for each part.
#[test]
fn a_pattern_of_many_parts_takes_no_longer_than_its_searches() {
    let text = "a".repeat(100_000);
    let start = std::time::Instant::now();
    for pattern in [
        "%a".repeat(200) + "%b",
        "%a_a".repeat(60) + "%b",
        "_%".repeat(300) + "b",
    ] {
        assert!(!Pattern::new(&pattern, None).unwrap().matches(&text));
    }
    // Milliseconds; a matcher that goes back would not end.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
