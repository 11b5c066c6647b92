//! Deployment files: the container, the units and the package name files and settings of this tree, and all
//! of them exist.

use std::fs;

use super::support::{RunOutput, command, configured};
use crate::support::root;

// A stage copies from the tree or from the build stage, which makes the binary of this package in the folder
// of that profile.
#[test]
fn the_container_copies_existing_files() {
    let text = read("deploy/docker/Dockerfile");
    let copies: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("COPY ")).collect();
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
    let version = manifest.lines().find(|line| line.starts_with("rust-version"));
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
fn promtool_confirms_when_each_rule_fires() {
    let folder = root().join("deploy/prometheus");
    for arguments in [
        ["check", "rules", "outflow-bulk.rules.yml"],
        ["test", "rules", "outflow-bulk.test.yml"],
    ] {
        let mut promtool = std::process::Command::new("promtool");
        let ran = promtool.args(arguments).current_dir(&folder).output();
        let ran = RunOutput::new(ran.expect("it is installed"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let rules = read("deploy/prometheus/outflow-bulk.rules.yml");
    let cases = read("deploy/prometheus/outflow-bulk.test.yml");
    let fires = cases.matches("exp_alerts:").count();
    assert_eq!((rules.matches("- alert: ").count(), fires), (4, 4));
    // Every metric of a rule is documented.
    let explained = read("docs/metrics.md");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for word in rules.split(|c| !is_name(c)) {
        let bare = word.strip_suffix("_count").filter(|bare| bare.ends_with("_ms"));
        let name = bare.unwrap_or(word);
        if name.starts_with("bulk_action_") || name.starts_with("outflow_bulk_") {
            assert!(explained.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}

// With its tokens the container's settings are valid, without them they are not.
#[test]
fn the_container_sets_known_variables_and_requires_tokens() {
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
    let without = RunOutput::new(check.output().expect("it starts"));
    assert_eq!(without.code, Some(2), "{without:?}");
    check
        .env("OUTFLOW_TOKEN", "one-random-token")
        .env("OUTFLOW_ADMIN_TOKEN", "two-random-token");
    let with = RunOutput::new(check.output().expect("it starts"));
    assert_eq!((with.code, with.talk.as_str()), (Some(0), ""), "{with:?}");
}

// The build makes two of the assets; all others are in the tree.
#[test]
fn the_package_contains_existing_files() {
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

// The unit, the container and the package agree on the paths of the program and its configuration.
#[test]
fn the_unit_starts_the_packaged_program() {
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
