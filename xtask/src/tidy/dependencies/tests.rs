use std::collections::HashSet;

use serde_json::json;

use super::*;

fn check_edge(from: &str, to: &str, kind: &Value) -> Vec<String> {
    let metadata = json!({
        "packages": [{ "name": from, "dependencies": [{ "name": to, "kind": kind }] }]
    });
    let edges = parse_metadata(&metadata).expect("the format of cargo");
    check(&edges).iter().map(ToString::to_string).collect()
}

#[test]
fn an_edge_against_the_order_is_an_error() {
    for (from, to) in [
        ("outflow-core", "outflow-store"),
        ("outflow-store", "outflow"),
        ("outflow", "outflow-bulk"),
        ("outflow-bulk", "outflow-cli"),
        ("outflow-config", "outflow"),
        ("outflow-sidecar", "outflow-store"),
        ("outflow-sidecar", "outflow-admin"),
        ("outflow-mock", "outflow-store"),
        ("outflow-simulate", "outflow-store"),
        ("outflow", "outflow-testkit"),
        ("outflow-cli", "outflow-parser-laws"),
    ] {
        let found = check_edge(from, to, &Value::Null);
        assert_eq!(found.len(), 1, "{from} to {to}");
    }
}

#[test]
fn an_edge_of_the_table_is_fine() {
    for (from, to) in [
        ("outflow-admin", "outflow-bulk"),
        ("outflow-admin", "axum"),
        ("outflow-config", "toml"),
        ("outflow-cli", "outflow-simulate"),
    ] {
        let found = check_edge(from, to, &Value::Null);
        assert!(found.is_empty(), "{found:?}");
    }
    assert!(check_edge("outflow", "outflow-testkit", &json!("dev")).is_empty());
}

#[test]
fn the_core_has_no_dependency_outside_tests() {
    assert_eq!(check_edge("outflow-core", "libm", &Value::Null).len(), 1);
    assert_eq!(check_edge("outflow-core", "cc", &json!("build")).len(), 1);
    assert_eq!(check_edge("outflow-core", "proptest", &Value::Null).len(), 1);
    assert!(check_edge("outflow-core", "proptest", &json!("dev")).is_empty());
}

// The crate may use Redis elsewhere, so only the kind can be the violation.
#[test]
fn a_build_script_has_no_dependency() {
    assert_eq!(check_edge("outflow-store", "redis", &json!("build")).len(), 1);
}

#[test]
fn cargo_lists_the_edges_of_this_workspace() {
    let edges = load().expect("cargo metadata");
    let is_known = |edge: &DependencyEdge| edge.from == "outflow" && edge.to == "outflow-core";
    assert!(edges.iter().any(is_known));
}

#[test]
fn a_violation_names_the_owner() {
    let owned = check_edge("outflow-bulk", "redis", &Value::Null);
    assert!(owned[0].contains("only outflow-store may use it"), "{owned:?}");
    let free = check_edge("outflow-bulk", "rand", &Value::Null);
    assert!(free[0].contains("does not list it"), "{free:?}");
}

#[test]
fn a_crate_without_a_row_is_an_error() {
    let found = check_edge("outflow-utils", "outflow-core", &Value::Null);
    assert_eq!(found.len(), 1);
}

// The table obeys the rules that it enforces.
#[test]
fn the_table_is_in_order_and_respects_owners() {
    let mut above = HashSet::new();
    for row in CRATES {
        for own in row.own.split_whitespace() {
            assert!(above.contains(own), "{} uses {own}", row.name);
        }
        for (owned, owner) in OWNED_CRATES {
            let uses = row.foreign.split_whitespace().any(|name| name == *owned);
            assert!(!uses || *owner == row.name, "{} uses {owned}", row.name);
        }
        above.insert(row.name);
    }
}
