//! `outflow init`.

use super::support::{RunOutput, command, folder, run, run_in};

#[test]
fn init_writes_valid_files_for_every_preset() {
    let presets = run(&["init", "--preset", "list"]).out;
    assert!(presets.lines().count() >= 7, "{presets}");
    for preset in presets.lines() {
        let folder = folder();
        let ran = run_in(folder.path(), &["init", "--preset", preset]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let variable = exported(&ran.talk);
        let mut check = command(folder.path(), &["check", "--json"]);
        if let Some(variable) = &variable {
            check.env(variable, "a-test-key-123");
        }
        let document = RunOutput::new(check.output().expect("it starts")).json(0);
        assert_eq!(document["warnings"], 0, "{preset}");
        let unset = run_in(folder.path(), &["check", "--json"]);
        assert_eq!(unset.code == Some(2), variable.is_some(), "{preset}: {unset:?}");
    }
}

/// Returns the variable that the program asks to export.
fn exported(talk: &str) -> Option<String> {
    let line = talk.lines().find_map(|line| line.split_once("export "))?;
    line.1.split_once('=').map(|(name, _)| name.to_owned())
}

// Each provider's own documentation names the variable of its key.
#[test]
fn init_names_the_variable_that_users_have() {
    for (preset, set, expected) in [
        ("github", None, "GITHUB_TOKEN"),
        ("github", Some("GITHUB_API_KEY"), "GITHUB_API_KEY"),
        ("github", Some("GH_TOKEN"), "GH_TOKEN"),
        ("openai", None, "OPENAI_API_KEY"),
        ("anthropic", None, "ANTHROPIC_API_KEY"),
        ("tmdb", None, "TMDB_API_KEY"),
        ("tmdb", Some("TMDB_READ_TOKEN"), "TMDB_READ_TOKEN"),
        ("shopify", Some("SHOPIFY_API_KEY"), "SHOPIFY_ACCESS_TOKEN"),
        ("binance", None, "BINANCE_API_KEY"),
    ] {
        let folder = folder();
        let mut init = command(folder.path(), &["init", "--preset", preset]);
        if let Some(set) = set {
            init.env(set, "a-test-key-123");
        }
        let ran = RunOutput::new(init.output().expect("it starts"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let text = std::fs::read_to_string(folder.path().join("outflow.toml")).expect("written");
        assert!(text.contains(&format!("\napi_key_env = \"{expected}\"\n")), "{text}");
        let asks = set != Some(expected);
        assert_eq!(exported(&ran.talk).is_some(), asks, "{ran:?}");
    }
}

#[test]
fn init_without_a_preset_writes_an_example() {
    let folder = folder();
    let ran = run_in(folder.path(), &["init", "--path", "mine.toml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.talk.contains("outflow serve -c mine.toml"), "{ran:?}");
    let checked = run_in(folder.path(), &["check", "mine.toml"]);
    assert_eq!(checked.out, "mine.toml: 1 API, 0 warnings\n");
}

// Users remove the `#`, so commented lines must be valid too.
#[test]
fn init_writes_valid_commented_lines() {
    let folder = folder();
    run_in(folder.path(), &["init"]);
    let file = folder.path().join("outflow.toml");
    let text = std::fs::read_to_string(&file).expect("written");
    let uncommented = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest.to_owned(),
        _ => line.to_owned(),
    };
    let lines: Vec<_> = text.lines().map(uncommented).collect();
    std::fs::write(&file, lines.join("\n")).expect("writable");
    let checked = command(folder.path(), &["check"])
        .env("EXAMPLE_API_KEY", "a-test-key-123")
        .output();
    let checked = RunOutput::new(checked.expect("it starts"));
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn init_keeps_an_existing_file_without_force() {
    let folder = folder();
    let file = folder.path().join("outflow.toml");
    std::fs::write(&file, "# mine\n").expect("writable");
    let ran = run_in(folder.path(), &["init"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("--force"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "# mine\n");
    assert_eq!(run_in(folder.path(), &["init", "--force"]).code, Some(0));
    assert!(
        std::fs::read_to_string(&file)
            .expect("there")
            .contains("[apis.example]")
    );
}

#[test]
fn init_lists_presets_for_an_unknown_one() {
    let ran = run(&["init", "--preset", "upbot"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("upbit"), "{ran:?}");
}
