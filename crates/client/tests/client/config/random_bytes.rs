//! No text, however broken, causes worse than diagnostics.

use outflow::Preset;
use outflow::config::{Config, Environment, RenderStyle, Source};
use proptest::prelude::*;

fn read(text: &str, variables: &[(String, String)]) {
    let environment: Environment = variables.iter().cloned().collect();
    match Config::read(&[Source::new("soup", text)], &environment) {
        Ok(config) => drop(config.warnings.render(RenderStyle::Coloured)),
        Err(diagnostics) => {
            assert!(!diagnostics.is_empty());
            drop(diagnostics.render(RenderStyle::Plain));
            drop(serde_json::to_string(&diagnostics).expect("plain data"));
        }
    }
}

/// Lines that are nearly right, in any order.
fn lines() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "[apis.a]",
        "[apis.b.groups.x]",
        "[apis.a.health]",
        "[log]",
        "[[apis.a.routes]]",
        "base_url",
        "preset",
        "timeout",
        "limits",
        "rate_share",
        "key",
        "api_key",
        "routes",
        "policy",
        "429",
        "cache",
        "retry",
        "rate_base",
        "bucket_capacity",
        "groups",
        "health",
        "p_throttle",
        "window_length",
        "path",
        "group",
        "cost",
        "level",
        "max_log_entries",
        "aliases",
    ]);
    let values = prop::sample::select(vec![
        "",
        " = 1",
        " = -1",
        " = nan",
        " = 1e400",
        " = 99999999999999999999999999999999999999999",
        " = \"10/s\"",
        " = [\"10/s\", 5]",
        " = \"1/0\"",
        " = \"0/1\"",
        " = \"tmdb\"",
        " = \"upbit\"",
        " = \"https://a.example\"",
        " = {}",
        " = { rate = \"1/s\", kind = \"bucket\", burst = 9 }",
        " = [{ path = \"/**\", group = \"x\", cost = 9 }]",
        " = \"\\u0000\"",
        " = \"ü%\"",
        " = \"10s",
        " = 1979-05-27T07:32:00Z",
        " = true",
        ".a = 1",
        " = [[[[[]]]]]",
        " = \"999999999999999d\"",
    ]);
    prop::collection::vec((names, values), 0..12).prop_map(|lines| {
        let line = |(name, value): (&str, &str)| {
            let value = if name.starts_with('[') { "" } else { value };
            format!("{name}{value}\n")
        };
        lines.into_iter().map(line).collect()
    })
}

/// A preset's text with a piece cut out and another put in.
fn torn() -> impl Strategy<Value = String> {
    let preset = prop::sample::select(Preset::ALL.to_vec());
    (
        preset,
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        ".{0,8}",
    )
        .prop_map(|(preset, from, to, put)| {
            let text = preset.text().replace("[api", "[apis.a");
            let (a, b) = (from.index(text.len()), to.index(text.len()));
            let (from, to) = (a.min(b), a.max(b).min(a.min(b) + 40));
            let (from, to) = (text.floor_char_boundary(from), text.floor_char_boundary(to));
            format!("{}{put}{}", &text[..from], &text[to..])
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_panics(text in "\\PC*") {
        read(&text, &[]);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&String::from_utf8_lossy(&bytes), &[]);
    }

    #[test]
    fn no_nearly_right_text_panics(text in lines()) {
        read(&text, &[]);
    }

    #[test]
    fn no_torn_preset_panics(text in torn()) {
        read(&text, &[]);
    }

    #[test]
    fn no_variable_panics(
        name in "(OUTFLOW|ANIVAULT)_(APIS__A__|)(TIMEOUT|LIMITS|GROUPS__X|RATE_BASE|SLEEP_MIN|[A-Z_]{0,9})",
        value in "\\PC{0,20}",
    ) {
        read("[apis.a]\nbase_url = \"https://a.example\"\n", &[(name, value)]);
    }
}

// Deep enough to use up a thread's stack if each level took a frame.
#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    let dotted = "a.".repeat(50_000);
    read(&format!("{dotted}a = 1"), &[]);
    read(&format!("[{dotted}a]\nb = 1"), &[]);
    read(&format!("a = {}", "[".repeat(50_000)), &[]);
    read(&format!("a = {}", "{ a = ".repeat(50_000)), &[]);
    let widest = format!("{{ {}a = ", "a.".repeat(15));
    read(&format!("a = {}", widest.repeat(50_000)), &[]);
    let deep = format!("OUTFLOW_{}", "A__".repeat(50_000));
    read("", &[(deep, "1".to_owned())]);
    let value = "[".repeat(50_000);
    read("", &[("OUTFLOW_APIS__A".to_owned(), value)]);
}
