//! Addresses of all parts, and commands to try.

use serde_json::json;

use super::mock_apis::{MockApis, NamedApi};
use crate::program::Program;
use crate::terminal::{Terminal, answer_json, say};

/// Prints the addresses as text.
pub(super) fn print(program: &Program, terminal: Terminal) {
    let (calls, admin) = (program.sidecar(), program.admin());
    let title = terminal.strong("outflow dev");
    say!(
        "{title}: three mock APIs behind a sidecar; no packet leaves this machine\n\n\
         \x20 calls     {calls}/NAME/PATH\n\
         \x20 operation {admin}/\n\
         \x20 metrics   {admin}/metrics\n\n\
         \x20 demo      allows 10 calls a second and throttles the eleventh\n\
         \x20 flaky     allows 5 calls a second; one response in four is a failure\n\
         \x20 chat      has the API of OpenAI: 10 calls a second, 1,000 tokens in 10 seconds; Outflow has its key\n\n\
         Try, in another terminal:\n\n\
         \x20 curl {calls}/demo/hello\n\
         \x20 seq 30 | xargs -P 30 -I N curl -s -o /dev/null -w '%{{http_code}} after %{{time_total}} s\\n' {calls}/demo/N\n\
         \x20 curl -i {calls}/flaky/hello\n\
         \x20 curl {admin}/metrics\n\n\
         Example programs, in Python and Node: docs/recipes\n\n\
         With your own APIs: outflow init, outflow check, outflow serve. Ctrl-C ends this.\n"
    );
}

/// Prints the addresses as JSON.
pub(super) fn print_json(program: &Program, apis: &MockApis) -> anyhow::Result<()> {
    let (calls, admin) = (program.sidecar().to_string(), program.admin().to_string());
    let list = apis.all.each_ref().map(|NamedApi { name, server, .. }| {
        json!({
            "name": name,
            "calls": format!("{calls}/{name}"),
            "upstream": server.url(),
        })
    });
    answer_json(&json!({
        "calls": calls,
        "admin": admin,
        "metrics": format!("{admin}/metrics"),
        "apis": list,
    }))
}
