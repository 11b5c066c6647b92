//! What the program is shipped with: the container, the units, the package. They name files and
//! settings of this tree, and each of these is there.

use std::fs;

use super::support::{Ran, command, configured};
use crate::support::root;

// A stage copies from the tree or from the stage before; what comes from there is what its build
// makes: the binary of this package in the folder of that profile.
#[test]
fn the_container_copies_what_is_there() {
    let text = read("deploy/docker/Dockerfile");
    let copies: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .collect();
    assert_eq!(copies.len(), 2, "{copies:?}");
    for copy in copies {
        if let Some(made) = copy.strip_prefix("--from=build ") {
            assert!(made.starts_with("/src/target/dist/outflow "), "{made}");
            continue;
        }
        let (sources, _) = copy.rsplit_once(' ').expect("two places");
        for source in sources.split(' ') {
            assert!(root().join(source).exists(), "there is no {source}");
        }
    }
    assert!(text.contains("--profile dist --package outflow-cli"));
    let manifest = read("Cargo.toml");
    assert!(manifest.contains("[profile.dist]"), "the profile is there");
    let version = manifest
        .lines()
        .find(|line| line.starts_with("rust-version"));
    let version = version.and_then(|line| line.split('"').nth(1));
    let image = format!("FROM rust:{}-", version.expect("a version"));
    assert!(text.contains(&image), "the image is not {image}");
    let ignored = read(".dockerignore");
    for left_out in ["target", ".git"] {
        assert!(ignored.lines().any(|line| line == left_out), "{left_out}");
    }
}

// Each rule has a case that fires and one that is just not enough.
#[test]
fn promtool_finds_that_each_rule_fires_when_it_should_and_only_then() {
    let folder = root().join("deploy/prometheus");
    for arguments in [
        ["check", "rules", "outflow-bulk.rules.yml"],
        ["test", "rules", "outflow-bulk.test.yml"],
    ] {
        let mut promtool = std::process::Command::new("promtool");
        let ran = promtool.args(arguments).current_dir(&folder).output();
        let ran = Ran::of(ran.expect("it is installed"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let rules = read("deploy/prometheus/outflow-bulk.rules.yml");
    let cases = read("deploy/prometheus/outflow-bulk.test.yml");
    let fires = cases.matches("exp_alerts:").count();
    assert_eq!((rules.matches("- alert: ").count(), fires), (4, 4));
    // Whatever a rule asks for is a metric that is explained.
    let explained = read("docs/metrics.md");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for word in rules.split(|c| !is_name(c)) {
        let bare = word
            .strip_suffix("_count")
            .filter(|bare| bare.ends_with("_ms"));
        let name = bare.unwrap_or(word);
        if name.starts_with("bulk_action_") || name.starts_with("outflow_bulk_") {
            assert!(explained.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}

// With the tokens that it asks for its settings are right, and without them they are told to be wrong.
#[test]
fn the_container_sets_what_the_program_knows_and_asks_for_its_tokens() {
    let text = read("deploy/docker/Dockerfile");
    let set: Vec<_> = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
        .filter(|(name, _)| name.starts_with("OUTFLOW_"))
        .collect();
    assert_eq!(set.len(), 4, "{set:?}");
    let folder = configured("[apis.shop]\nbase_url = \"https://api.shop.example\"\n");
    let mut check = command(folder.path(), &["check"]);
    check.envs(set.iter().copied());
    let without = Ran::of(check.output().expect("it starts"));
    assert_eq!(without.code, Some(2), "{without:?}");
    check
        .env("OUTFLOW_TOKEN", "one")
        .env("OUTFLOW_ADMIN_TOKEN", "two");
    let with = Ran::of(check.output().expect("it starts"));
    assert_eq!((with.code, with.talk.as_str()), (Some(0), ""), "{with:?}");
}

// What is made by a build is not there yet; all else is.
#[test]
fn the_package_holds_what_is_there() {
    let manifest = read("crates/cli/Cargo.toml");
    let (_, assets) = manifest.split_once("assets = [").expect("a list");
    let assets: Vec<_> = assets
        .lines()
        .filter_map(|line| line.trim().strip_prefix("[\""))
        .filter_map(|line| line.split('"').next())
        .collect();
    assert!(assets.len() >= 9, "{assets:?}");
    for asset in assets {
        let built = asset == "target/release/outflow" || asset == "../../target/man/*.1";
        let path = root().join("crates/cli").join(asset.replace("/*.md", ""));
        assert!(built || path.exists(), "there is no {asset}");
    }
    for unit in ["outflow.service", "outflow.socket", "outflow-admin.socket"] {
        assert!(manifest.contains(unit), "{unit} is not in the package");
    }
}

// The unit, the container and the package agree on where the program and its configuration are.
#[test]
fn the_unit_starts_what_the_package_brings() {
    let unit = read("deploy/systemd/outflow.service");
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    let starts = lines.filter(|(key, _)| key.starts_with("ExecStart"));
    let folder = configured("");
    for (_, line) in starts {
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("/usr/bin/outflow"));
        let words: Vec<_> = words.chain(["--help"]).collect();
        assert!(words.contains(&"/etc/outflow/outflow.toml"), "{words:?}");
        let known = command(folder.path(), &words).output().expect("it starts");
        assert!(known.status.success(), "{words:?}");
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("readable")
}
