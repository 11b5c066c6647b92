use super::*;
use crate::tidy::findings;

fn config() -> String {
    BANNED_CALLS
        .map(|call| format!("{{ path = \"{call}\", reason = \"why\" }},\n"))
        .concat()
}

fn count(path: &str, text: &str) -> usize {
    findings(check, [(CONFIG, &config()), (path, text)]).len()
}

#[test]
fn a_missing_ban_or_reason_is_an_error() {
    let count = |text: &str| findings(check, [(CONFIG, text)]).len();
    assert_eq!(count(""), BANNED_CALLS.len());
    assert_eq!(count(&config().replacen("reason", "note", 1)), 1);
    assert_eq!(count(&config()), 0);
}

#[test]
fn only_owners_lift_a_ban() {
    let lifts = format!("#[expect(clippy::{LINT}s, reason = \"…\")]\n");
    assert_eq!(count("crates/client/src/clock.rs", &lifts), 0);
    assert_eq!(count("benches/src/main.rs", &lifts), 0);
    assert_eq!(count("crates/client/src/send.rs", &lifts), 1);
    let manifest = format!("{LINT}s = \"allow\"\n");
    assert_eq!(count("crates/client/Cargo.toml", &manifest), 1);
    let former_name = format!("#[allow(clippy::{LINT}, reason = \"…\")]\n");
    assert_eq!(count("crates/client/src/send.rs", &former_name), 1);
}

// An owner may lift the one lint, and no group, in any notation.
#[test]
fn no_file_lifts_a_group_with_the_bans() {
    let groups = GROUPS.split('|').map(|group| format!("clippy::{group}"));
    for group in groups.chain(["warnings".to_owned()]) {
        for lifts in [
            format!("#![{}({group})]\n", "allow"),
            format!("#[{}(dead_code, {group}, reason = \"…\")]\n", "expect"),
            format!("#[cfg_attr(all(), {} (\n    {group}\n))]\n", "allow"),
        ] {
            assert_eq!(count("crates/client/src/clock.rs", &lifts), 1, "{lifts}");
        }
    }
    for fine in [
        "#[expect(clippy::allow_attributes, clippy::style_x, reason = \"no warnings\")]\n",
        "let one = some.expect(\"warnings\");\n",
        "#![deny(clippy::all, warnings)]\n",
    ] {
        assert_eq!(count("crates/client/src/send.rs", fine), 0, "{fine}");
    }
}

#[test]
fn a_manifest_that_disables_a_group_is_an_error() {
    for line in [
        "style = \"allow\"\n",
        "all = { level = \"allow\", priority = -1 }\n",
        "warnings = \"allow\"\n",
        "rustflags = [\"-Aclippy::style\"]\n",
        "rustflags = \"-A clippy::all\"\n",
        "rustflags = [\"--cap-lints=allow\"]\n",
    ] {
        assert_eq!(count("Cargo.toml", line), 1, "{line}");
    }
    assert_eq!(count("Cargo.toml", "pedantic = { level = \"warn\" }\n"), 0);
}

#[test]
fn a_nearer_configuration_is_an_error() {
    assert_eq!(count("crates/bulk/clippy.toml", ""), 1);
    assert_eq!(count("crates/bulk/.clippy.toml", ""), 1);
}
