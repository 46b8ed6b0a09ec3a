//! Compose file and image, as far as reading them goes: no Docker engine is needed.
use crate::files::{at, entries, list, path, read, texts, yaml};
use keyfold_service::yaml::Node;

const COMPOSE: &str = "docker-compose.yml";

fn services(compose: &Node) -> Vec<(&str, &Node)> {
    let services = entries(compose, "services");
    services
        .iter()
        .map(|(name, service)| (name.text.as_str(), service))
        .collect()
}

/// Whether an image is pinned: a tag with a version.
fn is_pinned(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    let tag = name.split_once(':').map(|(_, tag)| tag);
    tag.is_some_and(|tag| tag.contains('.') && tag.bytes().any(|b| b.is_ascii_digit()))
}

#[test]
fn images_are_pinned_and_ports_are_on_the_loopback_interface() {
    let compose = yaml(COMPOSE);
    for (name, service) in services(&compose) {
        let image = &at(service, &["image"]).text;
        assert!(is_pinned(image), "{name}: {image}");
        for port in texts(service, "ports") {
            assert!(
                port.starts_with("127.0.0.1:"),
                "{name} listens on every interface: {port}"
            );
        }
    }
    assert!(is_pinned("a/b:1.2-slim") && !is_pinned("a/b:latest") && !is_pinned("a:9/b") && !is_pinned("b:12"));
}

#[test]
fn every_service_says_when_it_is_healthy() {
    let compose = yaml(COMPOSE);
    for (name, service) in services(&compose) {
        let in_image = service.get("build").is_some() && read("Dockerfile").contains("\nHEALTHCHECK ");
        let here = service.get("healthcheck").map(|h| texts(h, "test"));
        assert!(in_image || here.is_some_and(|test| test.len() > 1), "{name}");
    }
}

#[test]
fn what_a_service_needs_is_there() {
    let compose = yaml(COMPOSE);
    let services = services(&compose);
    let volumes: Vec<&str> = entries(&compose, "volumes")
        .iter()
        .map(|(name, _)| name.text.as_str())
        .collect();
    for (name, service) in &services {
        for mount in texts(service, "volumes") {
            let from = mount.split(':').next().unwrap_or_default();
            let there = match from.strip_prefix("./") {
                Some(file) => path(file).exists(),
                None => volumes.contains(&from),
            };
            assert!(there, "{name} mounts {from}, which is not there");
        }
        for (other, condition) in entries(service, "depends_on") {
            let found = services.iter().find(|(name, _)| *name == other.text);
            let (_, other) = found.unwrap_or_else(|| panic!("{name} depends on {}", other.text));
            assert_eq!(at(condition, &["condition"]).text, "service_healthy");
            // The broker alone has no profile: `docker compose up` starts it and nothing else.
            let profiles = texts(other, "profiles");
            assert!(profiles.is_empty() || profiles == texts(service, "profiles"), "{name}");
        }
    }
    let alone: Vec<&str> = services
        .iter()
        .filter(|(_, service)| list(service, "profiles").is_empty())
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(alone, ["kafka"]);
}

#[test]
fn versions_are_those_of_the_repository() {
    let compose = yaml(COMPOSE);
    let kafka = &at(&compose, &["services", "kafka", "image"]).text;
    let version = kafka.rsplit(':').next().unwrap_or_default();
    assert!(read("scripts/kafka/fetch.sh").contains(version) || read("scripts/kafka/pom.xml").contains(version));
    let keyfold = &at(&compose, &["services", "keyfold", "image"]).text;
    assert_eq!(keyfold, concat!("keyfold:", env!("CARGO_PKG_VERSION")));
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain
        .lines()
        .find_map(|l| l.strip_prefix("channel = "))
        .expect("a channel");
    let builder = format!("FROM rust:{}-slim-bookworm AS build", channel.trim_matches('"'));
    assert!(read("Dockerfile").contains(&builder), "{builder}");
}

#[test]
fn the_image_is_pinned_runs_without_root_and_installs_what_the_list_has() {
    let dockerfile = read("Dockerfile").replace("\\\n", " ");
    let lines = |word: &str| -> Vec<String> {
        let of = dockerfile.lines().filter_map(|line| line.strip_prefix(word));
        of.map(|rest| rest.trim().to_owned()).collect()
    };
    for from in lines("FROM ") {
        let image = from.split_whitespace().next().unwrap_or_default();
        assert!(is_pinned(image), "{image}");
    }
    let last_stage = dockerfile.rsplit("\nFROM ").next().unwrap_or_default();
    let user = last_stage.lines().find_map(|line| line.strip_prefix("USER "));
    assert!(user.is_some_and(|user| user != "0" && user != "root"), "{user:?}");
    assert!(
        !last_stage.contains("g++") && !last_stage.contains("cargo"),
        "compilers stay behind"
    );
    let packages = read("scripts/packages.txt");
    let listed: Vec<&str> = packages
        .lines()
        .filter_map(|line| line.split('#').next()?.split_whitespace().next())
        .collect();
    let install = lines("RUN ").into_iter().next().unwrap_or_default();
    let install = install
        .split("--no-install-recommends")
        .nth(1)
        .and_then(|rest| rest.split("&&").next());
    for package in install.expect("packages").split_whitespace() {
        assert!(listed.contains(&package), "{package} is not in scripts/packages.txt");
    }
}
