//! Secrets in mistaken configurations: no command, log line or response quotes one.

use outflow_testkit::Process;

use super::support::{command, configured, run_in};
use crate::support::PATIENCE;

/// Lines of an API with an error, and the secret in it.
const ERRORS_BY_KEY: [&str; 44] = [
    "api_key = \"CANARY\"",
    "api_key = CANARY",
    "api_kye = \"CANARY\"",
    "apikey = \"CANARY\"",
    "API_KEY = \"CANARY\"",
    "api_key: CANARY",
    "api_key \"CANARY\"",
    "export API_KEY=CANARY",
    "key = \"CANARY\"",
    "key = { value = \"CANARY\" }",
    "key = { header = \"X-Key\", value = \"CANARY\" }",
    "key = [\"CANARY\"]",
    "key.value = \"CANARY\"",
    "auth = \"CANARY\"",
    "auth.bearer = \"CANARY\"",
    "auth = { type = \"bearer\", token = \"CANARY\" }",
    "token = \"CANARY\"",
    "password = \"CANARY\"",
    "passwrod = \"CANARY\"",
    "cookie = \"CANARY\"",
    "client_secret = \"CANARY\"",
    "api_key_env = \"CANARY\"",
    "api_key_env = [\"CANARY\"]",
    "api_key_env = { name = \"CANARY\" }",
    "api_key_file = \"CANARY\"",
    "api_key_file = [ \"CANARY\" ]",
    "api_key_file = [\n  \"CANARY\",\n]",
    "api_key_file = { path = \"CANARY\" }",
    "headers = [\"Authorization: Bearer CANARY\"]",
    "headers = [\n  [\"Authorization\", \"Bearer CANARY\"],\n]",
    "headers = { Authorization = \"Bearer CANARY\" }",
    "headers = { \"X-Api-Key: CANARY\" = true }",
    "headers.X-Api-Key = [\"CANARY\"]",
    "[apis.stock.auth]\nvalue = \"CANARY\"",
    "[apis.stock.key]\nvalue = \"CANARY\"",
    "[[apis.stock.headers]]\nname = \"Authorization\"\nvalue = \"Bearer CANARY\"",
    "proxy = \"http://me:CANARY@proxy.example/?a=b\"",
    "timeout = 5 # api_key = \"CANARY\"",
    "timeout = \"5s\" api_key = \"CANARY\"",
    "api_key = \"\"\"\nCANARY\n\"\"\"",
    "[bulk.redis]\nurl = \"redis://:CANARY@127.0.0.1\"",
    "[bulk.webhook]\nsecret = \"CANARY\"",
    "[admin]\ntoken = \"CANARY\"",
    "[server]\ntoken_env = \"CANARY\"\ntokne = \"CANARY\"",
];

/// Lines in which only the form of a value can tell that it is a secret.
const ERRORS_BY_FORM: [&str; 14] = [
    "timeout = \"CANARY\"",
    "timeout = CANARY",
    "limits = [\"10/s\", \"CANARY\"]",
    "limits = [\n  \"CANARY\",\n]",
    "cache = \"CANARY\"",
    "preset = \"CANARY\"",
    "methods = [\"CANARY\"]",
    "routes = [{ path = \"/CANARY\", group = \"CANARY\" }]",
    "groups.a = { limits = [\"1/s\"], aliases = [\"CANARY\", \"CANARY\"] }",
    "trust = { file = \"CANARY\", files = 1 }",
    "value = \"CANARY\"",
    "CANARY",
    "\"CANARY\" = \"api_key\"",
    "[log]\nlevel = \"CANARY\"",
];

/// A word that only its key gives away, and secrets by their form.
const WORD: &str = "hunterhunter";
const FORMS: [&str; 2] = ["4f9a8b7c6d5e4f3a2b1c", "sk-live-Zq7xW2"];

const BASE: &str = "[server]\nlisten = \":0\"\n[admin]\nlisten = \":0\"\n[apis.stock]\n\
                    base_url = \"http://127.0.0.1:9\"\n";

/// Returns each configuration with the secret in it.
fn mistaken() -> Vec<(String, &'static str)> {
    let by_key = ERRORS_BY_KEY.iter().map(|line| (line, WORD));
    let by_form = ERRORS_BY_KEY
        .iter()
        .chain(&ERRORS_BY_FORM)
        .flat_map(|line| FORMS.map(|form| (line, form)));
    let mut all: Vec<_> = by_key
        .chain(by_form)
        .map(|(line, secret)| {
            // A table that the base has already is written once.
            let base = match line.split_once('\n') {
                Some((heading @ ("[admin]" | "[server]"), _)) => {
                    BASE.replace(&format!("{heading}\nlisten = \":0\"\n"), "")
                }
                _ => BASE.to_owned(),
            };
            (format!("{base}{}\n", line.replace("CANARY", secret)), secret)
        })
        .collect();
    for url in [
        "https://me:CANARY@stock.example/?a=b@c",
        "https://stock.example/?key=CANARY",
        "CANARY://x",
    ] {
        let text = BASE.replace("http://127.0.0.1:9", &url.replace("CANARY", FORMS[0]));
        all.push((text, FORMS[0]));
    }
    all
}

// Every command that reads a configuration, in both forms of its output.
#[test]
fn no_command_prints_a_secret_of_a_mistaken_configuration() {
    for (text, secret) in mistaken() {
        let folder = configured(&text);
        for arguments in [
            &["check"][..],
            &["check", "--json"],
            &["config", "show", "--sources"],
            &["serve", "--listen", "no"],
        ] {
            // A wrong flag ends a program whose configuration is right after all.
            let ran = run_in(folder.path(), arguments);
            let shown = format!("{}{}", ran.out, ran.talk);
            assert!(!shown.contains(secret), "{arguments:?} of\n{text}\n{shown}");
        }
    }
}

// One program meets all of them, by its watch on the file and by requests of an operator.
#[test]
fn no_reload_shows_a_secret_of_a_mistaken_configuration() {
    let folder = configured(BASE);
    let file = folder.path().join("outflow.toml");
    let mut process = Process::start(command(folder.path(), &["serve"])).expect("it starts");
    let line = process.wait_for_line("operation ", PATIENCE).expect("a banner");
    let admin = line.split_whitespace().nth(1).expect("a URL").to_owned();
    for (text, secret) in mistaken() {
        std::fs::write(&file, &text).expect("writable");
        for arguments in [&["reload"][..], &["reload", "--json"], &["config", "show", "--running"]] {
            let ran = run_in(folder.path(), &[arguments, &["--admin", &admin]].concat());
            let shown = format!("{}{}", ran.out, ran.talk);
            assert!(!shown.contains(secret), "{arguments:?} of\n{text}\n{shown}");
        }
    }
    std::fs::write(&file, BASE).expect("writable");
    for (value, is_shown) in [("7s", true), (FORMS[0], false)] {
        let ran = run_in(folder.path(), &["set", "stock", "timeout", value, "--admin", &admin]);
        assert_eq!(ran.talk.contains(value) || ran.out.contains(value), is_shown, "{ran:?}");
    }
    process.terminate().expect("a signal");
    let ended = process.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(0));
    for line in process.last_lines(PATIENCE) {
        let secrets = [WORD, FORMS[0], FORMS[1]];
        assert!(
            !secrets.iter().any(|secret| line.text.contains(secret)),
            "{}",
            line.text
        );
    }
}
