//! Attempts to get a wrong configuration in, or a right one refused.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "reproductions"
)]
use outflow::config::{Config, Environment, Source};

const BASE: &str = "[apis.a]\nbase_url = \"https://a.example\"\n";

fn read(text: &str, env: &[(&str, &str)]) -> Result<Config, String> {
    let env: Environment = env
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect();
    Config::read(&[Source::new("f.toml", text)], &env).map_err(|m| m.to_string())
}

#[test]
fn rev1_show() {
    let cases: &[(&str, &str, &[(&str, &str)])] = &[
        ("no base", "[apis.a]\n", &[]),
        ("empty", "", &[]),
        ("dup limits", "limits = [\"10/s\", \"10/s\"]", &[]),
        ("zero rate", "limits = [\"0/s\"]", &[]),
        ("neg rate", "limits = [\"-1/s\"]", &[]),
        ("huge", "limits = [\"99999999999999999999/s\"]", &[]),
        ("slow", "limits = [\"1 per 0s\"]", &[]),
        (
            "cost over limit",
            "limits = [\"10/s\"]\nroutes = [{ path = \"/x\", cost = 11 }]",
            &[],
        ),
        (
            "group cost over api limit",
            "limits = [\"10/s\"]\n[apis.a.groups.g]\ncost = 11\nlimits=[\"100/s\"]",
            &[],
        ),
        (
            "route unknown group",
            "routes = [{ path = \"/x\", group = \"nope\" }]",
            &[],
        ),
        (
            "shadowed route",
            "routes = [{ path = \"/**\", group = \"g\" }, { path = \"/x\", group = \"h\" }]\n[apis.a.groups.g]\n[apis.a.groups.h]",
            &[],
        ),
        (
            "alias clash",
            "[apis.a.groups.g]\naliases=[\"h\"]\n[apis.a.groups.h]",
            &[],
        ),
        ("bad method", "methods = [\"GTE\"]", &[]),
        ("lower method", "methods = [\"get\"]", &[]),
        (
            "timeouts odd",
            "timeout = \"1s\"\nconnect_timeout = \"5s\"",
            &[],
        ),
        (
            "read > total",
            "timeout = \"1s\"\nread_timeout = \"5s\"",
            &[],
        ),
        ("zero timeout", "timeout = \"0s\"", &[]),
        ("max_wait 0", "max_wait = \"0s\"", &[]),
        ("queue 0", "max_queue = 0", &[]),
        (
            "key missing env",
            "key = { bearer = true, env = \"NOPE\" }",
            &[],
        ),
        (
            "key env empty",
            "key_env = \"EMPTY\"\nkey = \"bearer\"",
            &[("EMPTY", "")],
        ),
        (
            "key env newline",
            "key_env = \"NL\"\nkey = \"bearer\"",
            &[("NL", "SECRETCANARY\n")],
        ),
        ("unknown env", "", &[("OUTFLOW_APIS__A__TIMEOT", "5s")]),
        ("unknown api env", "", &[("OUTFLOW_APIS__B__TIMEOUT", "5s")]),
        (
            "env number as text",
            "",
            &[("OUTFLOW_APIS__A__TIMEOUT", "5")],
        ),
        (
            "env list",
            "",
            &[("OUTFLOW_APIS__A__LIMITS", "[\"3/s\", \"4/min\"]")],
        ),
        ("env lim plain", "", &[("OUTFLOW_APIS__A__LIMITS", "3/s")]),
        ("http base", "redirects = 300", &[]),
        (
            "userinfo",
            "[apis.b]\nbase_url = \"https://u:CANARY@b.example\"",
            &[],
        ),
        (
            "query base",
            "[apis.b]\nbase_url = \"https://b.example/?key=CANARY\"",
            &[],
        ),
        (
            "frag base",
            "[apis.b]\nbase_url = \"https://b.example/#x\"",
            &[],
        ),
        ("ftp", "[apis.b]\nbase_url = \"ftp://b.example\"", &[]),
        ("v6", "[apis.b]\nbase_url = \"http://[::1]:8080/v1\"", &[]),
        (
            "idn",
            "[apis.b]\nbase_url = \"https://b\u{fc}cher.example\"",
            &[],
        ),
        (
            "port 0",
            "[apis.b]\nbase_url = \"https://b.example:0\"",
            &[],
        ),
        (
            "port big",
            "[apis.b]\nbase_url = \"https://b.example:99999\"",
            &[],
        ),
        ("retry huge", "retry = { count = 4294967296 }", &[]),
        ("retries", "retries = 1000", &[]),
        ("crlf", "timeout = \"1s\"\r\nbogus = 1\r\n", &[]),
        ("two tables", "[apis.a.groups.g]\n[apis.a.groups.g]\n", &[]),
        ("unclosed", "limits = [\"10/s\"", &[]),
        (
            "dotted",
            "groups.g.limits = [\"1/s\"]\ngroups.g.limit = 3",
            &[],
        ),
        (
            "preset + override",
            "[apis.u]\npreset = \"upbit\"\nlimits=[\"1/s\"]\n[apis.u.groups.order]\nlimits=[\"100/s\"]",
            &[],
        ),
        ("bad preset", "[apis.u]\npreset = \"upbti\"", &[]),
        (
            "max_log_entries",
            "max_log_entries = 3\nlimits = [\"10/s\"]",
            &[],
        ),
        (
            "seed keys",
            "cleanup_interval = 5\nmemory_threshold_mb = 50",
            &[],
        ),
        ("rate_share", "rate_share = \"1/4\"\nlimits=[\"2/s\"]", &[]),
        ("rate_share 0", "rate_share = \"0/4\"", &[]),
        ("rate_share 2", "rate_share = \"5/4\"", &[]),
    ];
    for (name, text, env) in cases {
        let whole = if *name == "no base" || *name == "empty" {
            (*text).to_owned()
        } else {
            format!("{BASE}{text}\n")
        };
        match read(&whole, env) {
            Ok(config) => {
                let debug = format!("{config:?}");
                assert!(!debug.contains("CANARY"), "{name}: {debug}");
                let api = config.apis.last();
                println!(
                    "== {name}: OK warnings[{}] limits {:?} timeout {:?}",
                    config.warnings,
                    api.map(|a| a
                        .rules
                        .limits
                        .iter()
                        .map(|l| l.rate().to_string())
                        .collect::<Vec<_>>()),
                    api.map(|a| a.timeouts)
                );
            }
            Err(mistakes) => {
                assert!(!mistakes.contains("CANARY"), "{name}: {mistakes}");
                println!(
                    "== {name}: ERR {}",
                    mistakes.lines().take(7).collect::<Vec<_>>().join(" | ")
                );
            }
        }
    }
}
