//! The recipes of `docs/recipes`, run against APIs that count arrivals.

use std::process::Command;

use http::HeaderName;
use outflow_core::Cost;
use outflow_mock::{Dialect, MockApi, MockResponse, Quota, Received, Route, Server};

use super::support::{RunningProgram, SECOND, recipe, recipe_with_packages, run_tool};

/// Our headers that the recipes send, none of which an API may see.
const CONTROL_HEADERS: [&str; 5] = [
    "outflow-cost",
    "outflow-priority",
    "outflow-deadline",
    "outflow-group",
    "outflow-mode",
];

// As in `outflow dev`: 10/s, which a busy machine must not turn into eleven.
const DEMO: &str = "limits = [{ rate = \"10/s\", accounting = \"safe\" }]\n\
                    groups.bulk.limits = [{ rate = \"5/s\", accounting = \"safe\" }]";

async fn demo() -> (MockApi, Server, RunningProgram) {
    let mut builder = MockApi::builder()
        .limit(Quota::sliding("10/s".parse().expect("a rate")))
        .answer("/**", MockResponse::ok("{\"ok\":true}"));
    for name in CONTROL_HEADERS {
        builder = builder.noting(HeaderName::from_static(name));
    }
    let api = builder.build().expect("valid");
    let server = api.listen().await.expect("a port");
    let apis = format!("[apis.demo]\nbase_url = \"{}\"\n{DEMO}", server.url());
    (api, server, RunningProgram::serving("", &apis))
}

/// Runs a recipe and returns its output.
fn run_recipe(mut command: Command, running: &RunningProgram) -> Option<String> {
    command.env("OUTFLOW_URL", &running.calls);
    run_tool(command)
}

// One call, twenty at once, and one order are twenty-two. The last call did not wait, so it was never sent.
fn assert_limited(api: &MockApi) {
    let audit = api.audit();
    assert_eq!((audit.count(), audit.refused()), (22, 0));
    let most = audit.most_in_any_window(SECOND);
    assert!(most <= 10, "{most} in a second");
    let orders = audit.only(|arrival| &*arrival.path == "/orders");
    let [order] = orders.arrivals() else {
        panic!("{orders:?}");
    };
    assert_eq!(order.method, "POST");
    assert_eq!(order.idempotency_key.as_ref().expect("a key"), "order-7");
    assert!(matches!(order.body, Received::Whole(12 | 13)), "{order:?}");
    let leaked = audit.only(|arrival| !arrival.headers.is_empty());
    assert_eq!(leaked.count(), 0, "{leaked:?}");
}

fn assert_contains(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_limits_the_curl_recipe() {
    let (api, _server, running) = demo().await;
    let Some(text) = run_recipe(recipe("curl.sh"), &running) else {
        return;
    };
    assert_contains(
        &text,
        &[
            "200 after",
            "20 answered with 200",
            "steered: 200",
            "HTTP/1.1 429",
            "retry-after: ",
            "proxy-status: outflow;",
            "urn:outflow:problem:busy",
        ],
    );
    assert_limited(&api);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_limits_the_requests_httpx_and_fetch_recipes() {
    for (name, many) in [
        ("with_requests.py", "20 answered with 200"),
        ("with_httpx.py", "20 answered with 200 over HTTP/2"),
        ("fetch.mjs", "20 answered with 200"),
    ] {
        let (api, _server, running) = demo().await;
        let Some(text) = run_recipe(recipe(name), &running) else {
            continue;
        };
        let refused = "refused: 429 urn:outflow:problem:busy by 10/s\ncome back in ";
        assert_contains(&text, &["200 after ", many, "steered: 200", refused]);
        assert_limited(&api);
    }
}

/// Counts as its provider does: 400 tokens for a question, and a thousand in ten seconds.
async fn chat() -> (MockApi, Server, RunningProgram) {
    let mut builder = MockApi::builder()
        .route(Route::new("chat", "/chat/completions").costing(Cost::new(400)))
        .limit(Quota::sliding("1000/10s".parse().expect("a rate")).named("tokens"))
        .dialect(Dialect::OpenAi)
        .noting(HeaderName::from_static("authorization"))
        .answer("/**", MockResponse::chat());
    for name in CONTROL_HEADERS {
        builder = builder.noting(HeaderName::from_static(name));
    }
    let api = builder.build().expect("valid");
    let server = api.listen().await.expect("a port");
    let apis = format!(
        "[apis.chat]\nbase_url = \"{}\"\n\
         limits = [{{ rate = \"1000/10s\", counts = \"tokens\", accounting = \"safe\" }}]",
        server.url()
    );
    (api, server, RunningProgram::serving("", &apis))
}

// Two questions are 800 of the thousand tokens. Outflow refuses the third, so the API never sees it.
fn assert_within_tokens(api: &MockApi, text: &str) {
    let saying = "Good things come to every caller that waits patiently.";
    assert_eq!(text.matches(saying).count(), 2, "{text}");
    assert_contains(
        text,
        &[
            "used 13 tokens",
            "refused: 429 busy",
            "the limit of 1000/10s",
            "come back in ",
        ],
    );
    let audit = api.audit();
    assert_eq!((audit.count(), audit.refused()), (2, 0));
    for arrival in audit.arrivals() {
        let [(name, _key)] = arrival.headers.as_slice() else {
            panic!("{arrival:?}");
        };
        assert_eq!(name, "authorization", "{arrival:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_openai_recipe_stays_within_its_tokens() {
    let (api, _server, running) = chat().await;
    if let Some(text) = run_recipe(recipe("with_openai.py"), &running) {
        assert_within_tokens(&api, &text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_openai_recipe_stays_within_its_tokens() {
    let (api, _server, running) = chat().await;
    let command = recipe_with_packages("openai.mjs");
    if let Some(text) = command.and_then(|command| run_recipe(command, &running)) {
        assert_within_tokens(&api, &text);
    }
}

// The list of recipes recommends `outflow dev` for a first try.
#[test]
fn dev_serves_the_recipes_unchanged() {
    let mut running = RunningProgram::dev();
    if let Some(text) = run_recipe(recipe("curl.sh"), &running) {
        assert_contains(&text, &["20 answered with 200", "steered: 200", "problem:busy"]);
    }
    if let Some(text) = run_recipe(recipe("with_openai.py"), &running) {
        assert_contains(&text, &["waits patiently.\nrefused: 429 busy"]);
    }
    for name in ["with_requests.py", "with_httpx.py", "fetch.mjs"] {
        if let Some(text) = run_recipe(recipe(name), &running) {
            assert_contains(&text, &["20 answered with 200", "steered: 200", "refused: 429"]);
        }
    }
    let node = recipe_with_packages("openai.mjs");
    if let Some(text) = node.and_then(|node| run_recipe(node, &running)) {
        assert_contains(&text, &["waits patiently.\nrefused: 429 busy because 429 Outflow: "]);
    }
    running.process.terminate().expect("a signal");
    for api in ["demo", "chat"] {
        let line = running.process.wait_for_line(&format!("{api} allows"), SECOND * 5);
        assert!(line.expect("a summary").ends_with("throttled 0"));
    }
}

#[test]
fn the_list_names_every_recipe_and_a_test_runs_it() {
    let folder = crate::support::root().join("docs/recipes");
    let list = std::fs::read_to_string(folder.join("README.md")).expect("a list");
    for file in std::fs::read_dir(folder).expect("a folder") {
        let name = file.expect("a file").file_name();
        let name = name.to_string_lossy();
        if name != "README.md" {
            assert!(list.contains(&*name), "{name} is not listed");
        }
        let helps = ["README.md", "requirements.txt"].contains(&&*name);
        let run = include_str!("programs.rs").contains(&format!("\"{name}\""));
        assert!(helps || run, "{name} is not run");
    }
}
