use super::*;
use crate::tidy::findings;

const METER: (&str, &str) = (
    "crates/core/src/meter.rs",
    "#[test]\nfn takes_all_or_nothing() {}\n\nfn not_a_test() {}\n\n#[test]\n#[ignore]\nfn stress_takes() {}\n",
);
const LIB: (&str, &str) = ("crates/core/src/lib.rs", "mod meter;\n");

fn check_map(ids: &str, rows: &[&str]) -> Vec<String> {
    let head = "| id | requirement | status | module | tests |\n|---|---|---|---|---|\n";
    let map = format!("Ids: {ids}.\n\n{head}{}\n", rows.join("\n"));
    let lost = ("crates/core/src/lost.rs", "#[test]\nfn lost() {}\n");
    let xtask = ("xtask/src/main.rs", "#[test]\nfn helps() {}\n");
    findings(check, [LIB, METER, lost, xtask, ("xtask/src/ci.rs", ""), (MAP, &map)])
}

const TESTED: &str = "| W1 | takes | done | `core/meter` | `takes_all_or_nothing` |";

#[test]
fn tested_and_planned_requirements_pass() {
    let planned = "| W2 | waits | later: client | – | – |";
    let begun = "| W3 | sends | begun: client | core/meter | takes_all_or_nothing |";
    let of_xtask = "| W4 | checks | done | xtask/ci | helps, takes_all_or_nothing |";
    let found = check_map("W1–W4", &[TESTED, planned, begun, of_xtask]);
    assert!(found.is_empty(), "{found:?}");
}

// Each row has one fault, and the message names it.
#[test]
fn a_row_without_proof_is_an_error() {
    for (cells, message) in [
        ("takes | done | core/meter | no_such", "no such test"),
        ("takes | done | core/meter | not_a_test", "no such test"),
        ("takes | done | core/meter | stress_takes", "no such test"),
        ("takes | done | core/meter | lost", "no such test"),
        ("takes | done | core/meter | helps", "no such test"),
        ("takes | later: client | – | no_such", "no such test"),
        ("takes | done | core/meter | –", "names no test"),
        ("takes | begun: client | core/meter | –", "names no test"),
        ("takes | done | – | takes_all_or_nothing", "names no module"),
        ("takes | done | core/rate | takes_all_or_nothing", "no such module"),
        (" | later: client | – | –", "has no requirement"),
        ("takes | later | – | –", "has status"),
        ("takes | later: someday | – | –", "has status"),
        ("takes |  | – | –", "has status"),
        ("takes | done", "a row is"),
    ] {
        let found = check_map("W1", &[&format!("| W1 | {cells} |")]);
        assert!(found.len() == 1 && found[0].contains(message), "{cells}: {found:?}");
    }
}

#[test]
fn missing_duplicate_and_unknown_ids_are_errors() {
    assert!(check_map("W1–W2", &[TESTED])[0].contains("W2 has no row"));
    assert!(check_map("W1, C4b", &[TESTED])[0].contains("C4b has no row"));
    assert!(check_map("W1", &[TESTED, TESTED])[0].contains("has two rows"));
    assert!(check_map("W2–W2", &[TESTED])[0].contains("not in the list"));
}

#[test]
fn a_missing_map_or_list_is_an_error() {
    assert!(check_map("", &[TESTED])[0].contains("not in the list"));
    assert!(findings(check, [METER, (MAP, TESTED)])[0].contains("needs a line"));
    assert_eq!(findings(check, [METER]).len(), 1);
}
