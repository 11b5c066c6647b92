use super::*;

const METER: (&str, &str) = (
    "crates/core/src/meter.rs",
    "#[test]\nfn takes_all_or_nothing() {}\n\nfn not_a_test() {}\n\n#[test]\n#[ignore]\nfn stress_takes() {}\n",
);
const LIB: (&str, &str) = ("crates/core/src/lib.rs", "mod meter;\n");

fn found(ids: &str, rows: &[&str]) -> Vec<String> {
    let head = "| id | requirement | status | module | tests |\n|---|---|---|---|---|\n";
    let map = format!("Ids: {ids}.\n\n{head}{}\n", rows.join("\n"));
    let tree = Tree::of([
        LIB,
        METER,
        ("crates/core/src/lost.rs", "#[test]\nfn lost() {}\n"),
        ("xtask/src/main.rs", "#[test]\nfn helps() {}\n"),
        ("xtask/src/ci.rs", ""),
        (MAP, &map),
    ]);
    check(&tree).iter().map(ToString::to_string).collect()
}

const KEPT: &str = "| W1 | takes | done | `core/meter` | `takes_all_or_nothing` |";

#[test]
fn a_kept_and_a_planned_requirement_pass() {
    let planned = "| W2 | waits | later: client | – | – |";
    let begun = "| W3 | sends | begun: client | core/meter | takes_all_or_nothing |";
    let ours = "| W4 | checks | done | xtask/ci | helps, takes_all_or_nothing |";
    let found = found("W1–W4", &[KEPT, planned, begun, ours]);
    assert!(found.is_empty(), "{found:?}");
}

// Each row breaks one thing, and the message names it.
#[test]
fn a_row_that_is_not_kept_is_found() {
    for (row, message) in [
        (
            "| W1 | takes | done | core/meter | no_such |",
            "no such test",
        ),
        (
            "| W1 | takes | done | core/meter | not_a_test |",
            "no such test",
        ),
        (
            "| W1 | takes | done | core/meter | stress_takes |",
            "no such test",
        ),
        ("| W1 | takes | done | core/meter | lost |", "no such test"),
        ("| W1 | takes | done | core/meter | helps |", "no such test"),
        (
            "| W1 | takes | later: client | – | no_such |",
            "no such test",
        ),
        ("| W1 | takes | done | core/meter | – |", "names no test"),
        (
            "| W1 | takes | begun: client | core/meter | – |",
            "names no test",
        ),
        (
            "| W1 | takes | done | – | takes_all_or_nothing |",
            "names no module",
        ),
        (
            "| W1 | takes | done | core/rate | takes_all_or_nothing |",
            "no such module",
        ),
        ("| W1 |  | later: client | – | – |", "what is required"),
        ("| W1 | takes | later | – | – |", "has status"),
        ("| W1 | takes | later: someday | – | – |", "has status"),
        ("| W1 | takes |  | – | – |", "has status"),
        ("| W1 | takes | done |", "a row is"),
    ] {
        let found = found("W1", &[row]);
        assert!(
            found.len() == 1 && found[0].contains(message),
            "{row}: {found:?}"
        );
    }
}

#[test]
fn missing_doubled_and_unknown_ids_are_found() {
    assert!(found("W1–W2", &[KEPT])[0].contains("W2 has no row"));
    assert!(found("W1, C4b", &[KEPT])[0].contains("C4b has no row"));
    assert!(found("W1", &[KEPT, KEPT])[0].contains("has a row already"));
    assert!(found("W2–W2", &[KEPT])[0].contains("not among the ids"));
}

#[test]
fn a_map_without_its_list_or_no_map_at_all_is_found() {
    assert!(found("", &[KEPT])[0].contains("not among the ids"));
    let unlisted = Tree::of([METER, (MAP, KEPT)]);
    assert!(check(&unlisted)[0].message.contains("needs a line"));
    assert_eq!(check(&Tree::of([METER])).len(), 1);
}
