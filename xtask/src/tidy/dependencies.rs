//! Who may depend on whom: the arrows between our crates point one way, and each foreign crate has
//! an owner.
//!
//! An allow-list rather than a ban: a new dependency is a decision, taken by writing its name here.
//! The compiler would accept any of them. What a dependency brings along is cargo-deny's business.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;
use crate::command::Program;

/// One crate's wish for another.
#[derive(Debug)]
pub(super) struct Use {
    by: String,
    of: String,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Product,
    Tests,
    Build,
}

/// Asks cargo what every crate of the workspace depends on.
pub(super) fn load() -> Result<Vec<Use>> {
    let text = Program::cargo("metadata --no-deps --format-version 1").output()?;
    read(&serde_json::from_str(&text)?).context("cargo metadata is not as expected")
}

fn read(metadata: &Value) -> Option<Vec<Use>> {
    let mut uses = Vec::new();
    for package in metadata["packages"].as_array()? {
        let by = package["name"].as_str()?;
        for dependency in package["dependencies"].as_array()? {
            uses.push(Use {
                by: by.to_owned(),
                of: dependency["name"].as_str()?.to_owned(),
                place: place(dependency),
            });
        }
    }
    Some(uses)
}

fn place(dependency: &Value) -> Place {
    let model_checked = dependency["target"].as_str() == Some("cfg(loom)");
    match dependency["kind"].as_str() {
        Some("dev") => Place::Tests,
        Some("build") => Place::Build,
        // The model checker takes the place of the atomics, so the crate itself is built with it.
        _ if model_checked => Place::Tests,
        _ => Place::Product,
    }
}

/// Finds every use that the table does not allow.
pub(super) fn check(uses: &[Use]) -> Vec<Finding> {
    uses.iter()
        .filter_map(|wish| Some(Finding::fault(&wish.by, refusal(wish)?)))
        .collect()
}

fn refusal(wish: &Use) -> Option<String> {
    let Some(room) = ROOMS.iter().find(|room| room.name == wish.by) else {
        return Some("is no crate of the house: give it a row in tidy's table".to_owned());
    };
    let allowed = match wish.place {
        Place::Product => room.product.contains(&wish.of.as_str()),
        Place::Tests => {
            room.product.contains(&wish.of.as_str()) || room.tests.contains(&wish.of.as_str())
        }
        Place::Build => false,
    };
    if allowed {
        return None;
    }
    let reason = OWNERS
        .iter()
        .find(|(owned, owner)| *owned == wish.of && *owner != wish.by)
        .map_or("it is not on its list".to_owned(), |(_, owner)| {
            format!("only {owner} knows it")
        });
    let advice = "drop it, or argue for it in tidy's table";
    Some(format!("may not depend on {}: {reason}; {advice}", wish.of))
}

/// A crate and what it may use.
struct Room {
    name: &'static str,
    product: &'static [&'static str],
    tests: &'static [&'static str],
}

/// From left to right: a crate uses those above it in the first six rows, never one below.
const ROOMS: [Room; 10] = [
    Room {
        name: "outflow-core",
        product: &[],
        tests: &["proptest", "loom", "outflow-testkit"],
    },
    Room {
        name: "outflow-store",
        product: &[
            "outflow-core",
            "bytes",
            "futures-util",
            "redis",
            "rusqlite",
            "rustls",
            "smol_str",
            "tokio",
            "xxhash-rust",
        ],
        tests: &["proptest", "outflow-testkit", "tempfile"],
    },
    Room {
        name: "outflow-config",
        product: &[
            "outflow-core",
            "annotate-snippets",
            "secrecy",
            "serde",
            "smol_str",
            "strsim",
            "toml",
        ],
        tests: &[],
    },
    Room {
        name: "outflow",
        product: &[
            "outflow-core",
            "outflow-store",
            "outflow-config",
            "arc-swap",
            "blake3",
            "bytes",
            "fastrand",
            "foldhash",
            "h2",
            "http",
            "http-body",
            "http-body-util",
            "http-cache-semantics",
            "hyper",
            "hyper-rustls",
            "hyper-util",
            "percent-encoding",
            "pin-project-lite",
            "prometheus-client",
            "quick_cache",
            "rustix",
            "rustls",
            "rustls-platform-verifier",
            "secrecy",
            "serde",
            "serde_json",
            "slab",
            "smol_str",
            "tokio",
            "tokio-util",
            "tower-layer",
            "tower-service",
            "tracing",
            "tracing-subscriber",
        ],
        tests: &["proptest", "outflow-testkit", "outflow-mock", "tempfile"],
    },
    Room {
        name: "outflow-bulk",
        product: &[
            "outflow-core",
            "outflow-store",
            "outflow-config",
            "outflow",
            "arc-swap",
            "aws-lc-rs",
            "base64",
            "bytes",
            "fastrand",
            "http",
            "secrecy",
            "serde",
            "serde_json",
            "smol_str",
            "tokio",
        ],
        tests: &["proptest", "outflow-testkit", "outflow-mock", "tempfile"],
    },
    Room {
        name: "outflow-cli",
        product: &[
            "outflow-core",
            "outflow-store",
            "outflow-config",
            "outflow",
            "outflow-bulk",
            "outflow-mock",
            "anyhow",
            "arc-swap",
            "axum",
            "base64",
            "blake3",
            "bytes",
            "clap",
            "clap_complete",
            "clap_mangen",
            "csv",
            "getrandom",
            "http",
            "http-body",
            "http-body-util",
            "hyper",
            "hyper-util",
            "listenfd",
            "notify",
            "percent-encoding",
            "pin-project-lite",
            "rustix",
            "secrecy",
            "serde",
            "serde_json",
            "smol_str",
            "subtle",
            "tokio",
        ],
        tests: &["proptest", "outflow-testkit", "tempfile"],
    },
    Room {
        name: "outflow-mock",
        product: &[
            "outflow-core",
            "bytes",
            "fastrand",
            "http",
            "http-body",
            "http-body-util",
            "hyper",
            "hyper-util",
            "rcgen",
            "rustls",
            "serde",
            "serde_json",
            "tokio",
            "tokio-rustls",
        ],
        tests: &["proptest"],
    },
    Room {
        name: "outflow-testkit",
        product: &[
            "outflow-core",
            "outflow",
            "fastrand",
            "proptest",
            "rcgen",
            "rustix",
            "serde_json",
            "tempfile",
            "tokio",
        ],
        tests: &[],
    },
    Room {
        name: "outflow-parser-laws",
        product: &[
            "outflow-core",
            "outflow",
            "outflow-cli",
            "outflow-mock",
            "bytes",
            "http",
            "serde_json",
            "tempfile",
            "tokio",
        ],
        tests: &["proptest", "outflow-testkit"],
    },
    Room {
        name: "xtask",
        product: &["anyhow", "lexopt", "serde_json"],
        tests: &[],
    },
];

/// What only one crate may know, so that the rest can be replaced around it.
const OWNERS: [(&str, &str); 5] = [
    ("redis", "outflow-store"),
    ("rusqlite", "outflow-store"),
    ("toml", "outflow-config"),
    ("clap", "outflow-cli"),
    ("axum", "outflow-cli"),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(by: &str, of: &str, kind: &Value) -> Vec<String> {
        let metadata = json!({
            "packages": [{ "name": by, "dependencies": [{ "name": of, "kind": kind }] }]
        });
        let uses = read(&metadata).expect("as cargo writes it");
        check(&uses).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_arrow_to_the_right_is_found() {
        for (by, of) in [
            ("outflow-core", "outflow-store"),
            ("outflow-store", "outflow"),
            ("outflow", "outflow-bulk"),
            ("outflow-bulk", "outflow-cli"),
            ("outflow-mock", "outflow-store"),
            ("outflow", "outflow-testkit"),
        ] {
            assert_eq!(found(by, of, &Value::Null).len(), 1, "{by} on {of}");
        }
    }

    #[test]
    fn the_core_may_use_nothing_at_all() {
        assert_eq!(found("outflow-core", "libm", &Value::Null).len(), 1);
        assert_eq!(found("outflow-core", "cc", &json!("build")).len(), 1);
        assert_eq!(found("outflow-core", "proptest", &Value::Null).len(), 1);
        assert!(found("outflow-core", "proptest", &json!("dev")).is_empty());
    }

    // Redis is allowed in this crate, so that only its place can be what is refused.
    #[test]
    fn a_build_script_may_use_nothing() {
        assert_eq!(found("outflow-store", "redis", &json!("build")).len(), 1);
    }

    #[test]
    fn cargo_tells_what_this_workspace_uses() {
        let uses = load().expect("cargo answers");
        assert!(
            uses.iter()
                .any(|wish| wish.by == "outflow" && wish.of == "outflow-core")
        );
    }

    #[test]
    fn what_has_an_owner_is_named_with_it() {
        let shown = found("outflow-bulk", "redis", &Value::Null);
        assert!(
            shown[0].contains("only outflow-store knows it"),
            "{shown:?}"
        );
        assert!(found("outflow-store", "redis", &Value::Null).is_empty());
        let unowned = found("outflow-bulk", "rand", &Value::Null);
        assert!(unowned[0].contains("not on its list"), "{unowned:?}");
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        assert_eq!(
            found("outflow-utils", "outflow-core", &Value::Null).len(),
            1
        );
    }

    // The table is written by hand, so it is held to the rules that it stands for.
    #[test]
    fn the_table_itself_points_left_and_respects_owners() {
        let line = [
            "outflow-core",
            "outflow-store",
            "outflow-config",
            "outflow",
            "outflow-bulk",
            "outflow-cli",
        ];
        for room in &ROOMS {
            let place = line.iter().position(|name| *name == room.name);
            for used in room.product {
                let target = line.iter().position(|name| name == used);
                if let (Some(place), Some(target)) = (place, target) {
                    assert!(target < place, "{} uses {used}", room.name);
                }
                for (owned, owner) in OWNERS {
                    assert!(
                        owned != *used || owner == room.name,
                        "{} uses {used}",
                        room.name
                    );
                }
            }
        }
    }
}
