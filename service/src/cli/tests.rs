use super::*;

#[test]
fn the_command_line_fits_together() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_and_exit_code_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("docs/cli.md: {e}"));
    for command in Cli::command()
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
    {
        let heading = format!("## keyfold {}\n", command.get_name());
        assert!(text.contains(&heading), "docs/cli.md has no {heading}");
    }
    for line in EXIT_CODES.lines().skip(1) {
        let (code, meaning) = line.trim().split_once(' ').expect("a code and its meaning");
        let row = format!("| {code} | {} |", meaning.trim());
        assert!(text.contains(&row), "docs/cli.md has no {row}");
    }
}

/// "restoring shard 3 needs .." told its cause, and the cause was told once more behind it.
#[test]
fn a_cause_that_was_told_already_is_left_out() {
    let cause = anyhow::anyhow!("the object is damaged");
    assert_eq!(told(&cause), "the object is damaged");
    let twice = cause.context("restoring shard 3: the object is damaged");
    assert_eq!(told(&twice), "restoring shard 3: the object is damaged");
    let outer = twice.context("the run ended");
    assert_eq!(told(&outer), "the run ended: restoring shard 3: the object is damaged");
}
