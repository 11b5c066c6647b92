//! `outflow status`, `limits`, `explain`, `health` and `reload`.

use super::support::run;

#[test]
fn without_a_program_they_say_how_to_start_one() {
    // Port 9 is for throwing away, and nobody listens on it.
    for arguments in [
        &["status"][..],
        &["limits"],
        &["explain", "demo", "/"],
        &["health", "set", "demo", "sleep"],
        &["health", "release", "demo"],
        &["reload"],
        &["config", "show", "--running"],
    ] {
        let mut arguments = arguments.to_vec();
        arguments.extend_from_slice(&["--admin", "127.0.0.1:9", "--json"]);
        let ran = run(&arguments);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.out.is_empty(), "{ran:?}");
        assert!(
            ran.talk.contains("outflow serve") && ran.talk.contains("because:"),
            "{ran:?}"
        );
    }
}

#[test]
fn a_place_that_is_none_is_a_usage_error() {
    let ran = run(&["status", "--admin", "https://elsewhere"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("http://127.0.0.1:7071"), "{ran:?}");
}
