//! `outflow completions`, `man`, `--help` and `--version`.

use super::support::{folder, run, run_in};

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("outflow") && ran.out.contains("health"), "{shell}");
    }
    assert_eq!(run(&["completions", "abacus"]).code, Some(2));
}

#[test]
fn man_writes_a_page_for_each_command() {
    let page = run(&["man"]);
    assert!(page.out.contains(".TH outflow 1"), "{page:?}");
    let folder = folder();
    let ran = run_in(folder.path(), &["man", "--dir", "pages"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for name in [
        "outflow.1",
        "outflow-dev.1",
        "outflow-health-set.1",
        "outflow-config-show.1",
    ] {
        assert!(folder.path().join("pages").join(name).is_file(), "{name}");
    }
}

#[test]
fn help_lists_every_command_and_the_exit_codes() {
    let help = run(&["--help"]).out;
    for word in [
        "dev",
        "serve",
        "check",
        "init",
        "config",
        "get",
        "post",
        "put",
        "delete",
        "request",
        "status",
        "limits",
        "explain",
        "health",
        "reload",
        "mock",
        "simulate",
        "completions",
        "man",
        "75 blocked",
        "130 interrupted",
        "--color",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert_eq!(run(&[]).out, help, "a bare call is a call for help");
}

#[test]
fn version_prints_the_package_version() {
    let version = format!("outflow {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["--version"]).out, version);
}

#[test]
fn the_program_rejects_an_invalid_command_line() {
    for arguments in [
        &["frobnicate"][..],
        &["get"],
        &["dev", "--port", "x"],
        &["check", "--nope"],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.out.is_empty() && ran.talk.contains("--help"), "{ran:?}");
    }
}
