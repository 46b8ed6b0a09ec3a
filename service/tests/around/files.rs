//! Files of the repository.
use keyfold_service::yaml::{self, Kind, Node};
use std::path::{Path, PathBuf};

pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

pub fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

pub fn yaml(name: &str) -> Node {
    yaml::parse(name, &read(name)).unwrap_or_else(|e| panic!("{e}"))
}

/// The node at these keys.
pub fn at<'a>(node: &'a Node, keys: &[&str]) -> &'a Node {
    keys.iter().fold(node, |node, key| {
        let found = node.get(key);
        found.unwrap_or_else(|| panic!("{keys:?} at {:?}: no {key}", node.place))
    })
}

pub fn list<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    match node.get(key).map(|n| &n.kind) {
        Some(Kind::List(items)) => items,
        None => &[],
        Some(other) => panic!("{key} is no list: {other:?}"),
    }
}

pub fn entries<'a>(node: &'a Node, key: &str) -> &'a [(Node, Node)] {
    match node.get(key).map(|n| &n.kind) {
        Some(Kind::Map(entries)) => entries,
        None => &[],
        Some(other) => panic!("{key} is no mapping: {other:?}"),
    }
}

/// The texts of a list of scalars.
pub fn texts<'a>(node: &'a Node, key: &str) -> Vec<&'a str> {
    list(node, key).iter().map(|n| n.text.as_str()).collect()
}
