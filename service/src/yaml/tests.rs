use super::*;

fn tree(text: &str) -> Node {
    parse("f.yaml", text).unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(text: &str) -> String {
    match parse("f.yaml", text) {
        Ok(tree) => panic!("taken: {tree:?}"),
        Err(error) => error.to_string(),
    }
}

fn value(text: &str) -> Node {
    tree(&format!("a: {text}\n")).get("a").expect("there").clone()
}

#[test]
fn scalars_are_what_the_core_schema_says_and_keep_how_they_are_written() {
    let cases = [
        ("", Kind::Null, ""),
        ("~", Kind::Null, "~"),
        ("true", Kind::Bool(true), "true"),
        ("False", Kind::Bool(false), "False"),
        ("yes", Kind::Text, "yes"),
        ("007", Kind::Int, "007"),
        ("-12", Kind::Int, "-12"),
        ("0x1F", Kind::Int, "0x1F"),
        ("0o17", Kind::Int, "0o17"),
        ("0o18", Kind::Text, "0o18"),
        ("1.50", Kind::Float, "1.50"),
        ("1e3", Kind::Float, "1e3"),
        (".5", Kind::Float, ".5"),
        ("-.inf", Kind::Float, "-.inf"),
        ("inf", Kind::Text, "inf"),
        ("1.2.3", Kind::Text, "1.2.3"),
        ("512MiB", Kind::Text, "512MiB"),
        ("'12'", Kind::Text, "12"),
        ("\"a\\tb\"", Kind::Text, "a\tb"),
        (
            "amount > 0 AND customer IS NOT NULL",
            Kind::Text,
            "amount > 0 AND customer IS NOT NULL",
        ),
    ];
    for (written, kind, text) in cases {
        let node = value(written);
        assert_eq!((node.kind, node.text.as_str()), (kind, text), "{written}");
    }
    assert_eq!(tree("").kind, Kind::Null);
    assert_eq!(tree("# nothing\n").kind, Kind::Null);
}

#[test]
fn everything_knows_its_place() {
    let tree = tree("job: t\nsteps:\n  - id: one\n    map: { x: 1,\n      y: \"\\u00e9\" }\n");
    let Kind::Map(entries) = &tree.kind else {
        panic!("a mapping")
    };
    assert_eq!(entries[1].0.place, Place { line: 2, column: 1 });
    let Kind::List(steps) = &entries[1].1.kind else {
        panic!("a list")
    };
    assert_eq!(steps[0].place, Place { line: 3, column: 5 });
    let map = steps[0].get("map").expect("there");
    assert_eq!(map.place, Place { line: 4, column: 10 });
    assert_eq!(map.get("y").expect("there").place, Place { line: 5, column: 10 });
}

/// Where `token` of the scalar `a` is underlined.
fn underlined(text: &str, token: &str) -> String {
    let source = Source::new("f.yaml", text);
    let tree = source.parse().unwrap_or_else(|e| panic!("{e}"));
    let node = tree.get("a").expect("there");
    let at = node
        .text
        .find(token)
        .unwrap_or_else(|| panic!("no {token} in {:?}", node.text));
    let shown = source.inside(node, at..at + token.len(), "here").to_string();
    let lines: Vec<&str> = shown.lines().collect();
    let (line, carets) = (lines[1], lines[2]);
    let from = carets.find('^').expect("carets");
    let count = carets.matches('^').count();
    line.chars().skip(from).take(count).collect()
}

#[test]
fn a_token_inside_a_scalar_is_underlined_however_the_scalar_is_written() {
    let written = [
        "a: amount > limit AND x",
        "a: 'amount > limit AND ''x'''",
        "a: \"\\u0061mount\\n > limit AND \\\"x\\\"\"",
        "a: amount\n  > limit\n  AND x",
        "a: |\n  amount\n    > limit AND x\n",
        "a: >-  # folded\n    amount >\n    limit AND x\n\n",
        "a: \"amount \\\n   > limit AND x\"",
        "{ a: amount > limit AND x, b: 1 }",
        "b: &it amount > limit AND x\na: *it",
    ];
    for text in written {
        assert_eq!(underlined(text, "limit"), "limit", "{text}");
        assert_eq!(underlined(text, "x"), "x", "{text}");
    }
    assert_eq!(underlined("a: 'it''s = x'", "it's"), "it''s");
}

#[test]
fn the_end_of_a_text_is_underlined_behind_it() {
    let source = Source::new("f.yaml", "a: amount >   # more\n");
    let tree = source.parse().expect("taken");
    let node = tree.get("a").expect("there");
    let end = node.text.len();
    let shown = source.inside(node, end..end, "an operand is missing").to_string();
    assert_eq!(
        shown,
        "f.yaml:1:12: an operand is missing\n   1 | a: amount >   # more\n     |            ^"
    );
}

#[test]
fn what_is_not_taken_is_refused_with_its_place_and_the_way_out() {
    let cases = [
        "a: 1\n\tb: 2\n",
        "a: 1\nb: 2\na: 3\n",
        "a: b: c\n",
        "a: [1, 2\n",
        "a: 'x\n",
        "a: {b: 1]\n",
        "a: *x\n",
        "a: @x\n",
        "a: !!str 5\n",
        "a: !env X\n",
        "%YAML 1.2\n---\na: 1\n",
        "a: 1\n---\nb: 1\n",
        "? [a]\n: 1\n",
        ": 1\n",
        "<<: {a: 1}\n",
        "a: &x [*x]\n",
        "a: \"\\q\"\n",
        "a: 1\n b: 2\n",
        "- a\nb: 1\n",
    ];
    let mut out = String::new();
    for text in cases {
        out.push_str(&format!("{text:?}\n{}\n\n", wrong(text)));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn a_tree_that_would_grow_is_refused() {
    let deep = format!("a: {}1{}", "[".repeat(100), "]".repeat(100));
    assert!(wrong(&deep).contains("more than 64 deep"), "{}", wrong(&deep));
    let mut steep = String::new();
    for depth in 0..100 {
        steep.push_str(&format!("{}k:\n", " ".repeat(depth)));
    }
    assert!(wrong(&steep).contains("more than 64 deep"), "{}", wrong(&steep));
    // Each line repeats the one before ten times: the tenth power of ten lines.
    let mut laughs = String::from("l0: &l0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    for n in 1..10 {
        let before = vec![format!("*l{}", n - 1); 10].join(", ");
        laughs.push_str(&format!("l{n}: &l{n} [{before}]\n"));
    }
    assert!(
        wrong(&laughs).contains("with what aliases repeat"),
        "{}",
        wrong(&laughs)
    );
    let wide = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 100].join(","));
    assert!(wrong(&wide).contains("with what aliases repeat"));
    let long = "#".repeat(FILE_BYTES_MAX + 1);
    assert!(wrong(&long).contains("larger than 1048576 bytes"));
}

#[test]
fn an_alias_repeats_a_value() {
    let tree = tree("a: &s { x: string }\nb: *s\n");
    assert_eq!(tree.get("a").map(|n| &n.kind), tree.get("b").map(|n| &n.kind));
}

#[test]
fn a_line_that_may_hold_a_secret_is_not_shown() {
    let hidden = [
        "kafka.properties: { sasl.password: hunter2, x: [ }\n",
        "sasl.password: hunter2\n\thunter3: x\n",
        "ssl.key.pem: |\n  hunter2\n\thunter3: [\n",
        "sasl.password:\nhunter2: [\n",
        "a:\n  sasl.password: {\n    b: 1,\n    hunter2: ]\n",
    ];
    for text in hidden {
        let shown = wrong(text);
        assert!(!shown.contains("hunter"), "{text}\n{shown}");
    }
    let after = wrong("sasl.password: hunter2\nb: [\n");
    assert!(!after.contains("hunter"), "{after}");
    let shown = wrong("sasl.password: hunter2\nb: ]\n");
    assert!(shown.contains("| b: ]"), "{shown}");
}

#[test]
fn a_long_line_is_cut_and_a_terminal_is_left_alone() {
    let long = format!("a: [{}y] ]\n", "x, ".repeat(200));
    let shown = wrong(&long);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].len() < 140 && lines[1].contains("..."), "{shown}");
    assert_eq!(
        lines[1].chars().nth(lines[2].find('^').expect("carets")),
        Some(']'),
        "{shown}"
    );
    let shown = wrong("\"\\e[2J\": 1\n\"\\e[2J\": 2\n");
    assert!(!shown.contains('\u{1b}') && shown.contains("\\u{1b}[2J"), "{shown}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.yaml");
    let refused = Source::read(&path).expect_err("not there").to_string();
    assert!(refused.contains("p.yaml: cannot be read: No such file"), "{refused}");
    std::fs::write(&path, b"a: 1\nb: \xff\n").expect("written");
    let refused = Source::read(&path).expect_err("not text").to_string();
    assert!(refused.contains("p.yaml: line 2 is not UTF-8"), "{refused}");
    std::fs::write(&path, vec![b'#'; FILE_BYTES_MAX + 1]).expect("written");
    assert!(
        Source::read(&path)
            .expect_err("too large")
            .to_string()
            .contains("larger than")
    );
    std::fs::write(&path, "\u{feff}a: 1\n").expect("written");
    assert!(
        Source::read(&path)
            .expect("read")
            .parse()
            .expect("taken")
            .get("a")
            .is_some()
    );
}

/// `{ amount: decimal(18,2), price: decimal(10,2) }` gave the columns `amount`, of type `decimal(18`, and twice `2)`.
#[test]
fn commas_in_parentheses_do_not_part_entries() {
    let text = "a: { amount: decimal(18,2), at: timestamp, price: decimal(10, 2) }\n\
                b: [substr(a, 1, length(b)), c]\n\
                c: { x: concat(a, ', (', b) = 'y', y: coalesce(a,\n      b), z }\n\
                d: { x: f(a, b: 1), y: 'f(a', z, g: f(a), h }\n";
    let source = Source::new("f.yaml", text);
    let tree = source.parse().expect("taken");
    let entries = |name: &str| match &tree.get(name).expect("there").kind {
        Kind::Map(entries) => entries
            .iter()
            .map(|(k, v)| format!("{}: {}", k.text, v.text))
            .collect::<Vec<_>>(),
        Kind::List(items) => items.iter().map(|item| item.text.clone()).collect(),
        _ => panic!("a list or a mapping"),
    };
    assert_eq!(
        entries("a"),
        ["amount: decimal(18,2)", "at: timestamp", "price: decimal(10, 2)"]
    );
    assert_eq!(entries("b"), ["substr(a, 1, length(b))", "c"]);
    assert_eq!(
        entries("c"),
        ["x: concat(a, ', (', b) = 'y'", "y: coalesce(a, b)", "z: "]
    );
    assert_eq!(entries("d"), ["x: f(a", "b: 1)", "y: f(a", "z: ", "g: f(a)", "h: "]);
    let y = tree.get("c").and_then(|c| c.get("y")).expect("there");
    let shown = source.inside(y, 12..13, "here").to_string();
    assert!(
        shown.starts_with("f.yaml:4:7: here\n   4 |       b), z }\n     |       ^"),
        "{shown}"
    );
}

proptest::proptest! {
    /// Whatever the text, there is a tree or a refusal that can be shown.
    #[test]
    fn no_text_brings_it_down(text in "[ \\t\\n:{}\\[\\],'\"&*!|>#a-c0-9.\\\\~-]{0,80}") {
        if let Err(error) = parse("f.yaml", &text) {
            let _ = error.to_string();
        }
    }

    /// Whatever the span, a place is found.
    #[test]
    fn no_span_brings_it_down(text in "[ \\n'\"|>a-c\\\\]{0,40}", from in 0usize..50, to in 0usize..50) {
        let source = Source::new("f.yaml", &format!("a: {text}"));
        if let Ok(tree) = source.parse() && let Some(node) = tree.get("a") {
            let _ = source.inside(node, from..to, "here").to_string();
        }
    }
}
