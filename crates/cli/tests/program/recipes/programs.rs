//! The recipes of `docs/recipes`, the files themselves, before APIs that count what comes.

use std::process::Command;

use http::HeaderName;
use outflow_core::Cost;
use outflow_mock::{Dialect, MockApi, MockResponse, Quota, Received, Route, Server};

use super::support::{Running, SECOND, printed, recipe, recipe_with_packages};

/// The headers of ours that the recipes send, none of which an API may see.
const STEERING: [&str; 5] = [
    "outflow-cost",
    "outflow-priority",
    "outflow-deadline",
    "outflow-group",
    "outflow-mode",
];

// As in `outflow dev`: ten a second, which a busy machine must not turn into eleven.
const DEMO: &str = "limits = [{ rate = \"10/s\", accounting = \"safe\" }]\n\
                    groups.bulk.limits = [{ rate = \"5/s\", accounting = \"safe\" }]";

async fn demo() -> (MockApi, Server, Running) {
    let mut builder = MockApi::builder()
        .limit(Quota::sliding("10/s".parse().expect("a rate")))
        .answer("/**", MockResponse::ok("{\"ok\":true}"));
    for name in STEERING {
        builder = builder.noting(HeaderName::from_static(name));
    }
    let api = builder.build().expect("valid");
    let server = api.listen().await.expect("a port");
    let apis = format!("[apis.demo]\nbase_url = \"{}\"\n{DEMO}", server.url());
    (api, server, Running::serving("", &apis))
}

/// Runs a recipe; what it printed.
fn cooked(mut command: Command, running: &Running) -> Option<String> {
    command.env("OUTFLOW_URL", &running.calls);
    printed(command)
}

// One call, twenty at once, and one order: twenty-two. The last one did not want to wait, so it was never
// sent.
fn was_governed(api: &MockApi) {
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
    let told = audit.only(|arrival| !arrival.headers.is_empty());
    assert_eq!(told.count(), 0, "{told:?}");
}

fn says(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "no {words:?} in:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipe_for_curl_is_governed() {
    let (api, _server, running) = demo().await;
    let Some(text) = cooked(recipe("curl.sh"), &running) else {
        return;
    };
    says(
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
    was_governed(&api);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipes_for_requests_httpx_and_fetch_are_governed() {
    for (name, many) in [
        ("with_requests.py", "20 answered with 200"),
        ("with_httpx.py", "20 answered with 200 over HTTP/2"),
        ("fetch.mjs", "20 answered with 200"),
    ] {
        let (api, _server, running) = demo().await;
        let Some(text) = cooked(recipe(name), &running) else {
            continue;
        };
        let refused = "refused: 429 urn:outflow:problem:busy by 10/s\ncome back in ";
        says(&text, &["200 after ", many, "steered: 200", refused]);
        was_governed(&api);
    }
}

/// Counts as its provider does: every question as 400 tokens, of which there are a thousand in ten seconds.
async fn chat() -> (MockApi, Server, Running) {
    let mut builder = MockApi::builder()
        .route(Route::new("chat", "/chat/completions").costing(Cost::new(400)))
        .limit(Quota::sliding("1000/10s".parse().expect("a rate")).named("tokens"))
        .dialect(Dialect::OpenAi)
        .noting(HeaderName::from_static("authorization"))
        .answer("/**", MockResponse::chat());
    for name in STEERING {
        builder = builder.noting(HeaderName::from_static(name));
    }
    let api = builder.build().expect("valid");
    let server = api.listen().await.expect("a port");
    let apis = format!(
        "[apis.chat]\nbase_url = \"{}\"\n\
         limits = [{{ rate = \"1000/10s\", counts = \"tokens\", accounting = \"safe\" }}]",
        server.url()
    );
    (api, server, Running::serving("", &apis))
}

// Two questions are 800 of the thousand tokens, so the third would be one too many: it is refused here
// and not there.
fn kept_to_its_tokens(api: &MockApi, text: &str) {
    let saying = "Good things come to every caller that waits patiently.";
    assert_eq!(text.matches(saying).count(), 2, "{text}");
    says(
        text,
        &[
            "used 13 tokens",
            "refused: 429 ",
            "problem:busy",
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
async fn the_recipe_for_openai_in_python_keeps_to_the_tokens() {
    let (api, _server, running) = chat().await;
    if let Some(text) = cooked(recipe("with_openai.py"), &running) {
        kept_to_its_tokens(&api, &text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipe_for_openai_in_node_keeps_to_the_tokens() {
    let (api, _server, running) = chat().await;
    let command = recipe_with_packages("openai.mjs");
    if let Some(text) = command.and_then(|command| cooked(command, &running)) {
        kept_to_its_tokens(&api, &text);
    }
}

// What the recipes are first tried with, as their list says.
#[test]
fn the_recipes_work_with_dev_as_it_stands() {
    let mut running = Running::dev();
    if let Some(text) = cooked(recipe("curl.sh"), &running) {
        says(
            &text,
            &["20 answered with 200", "steered: 200", "problem:busy"],
        );
    }
    if let Some(text) = cooked(recipe("with_openai.py"), &running) {
        says(&text, &["wait their turn.\nrefused: 429 "]);
    }
    running.process.terminate().expect("a signal");
    for api in ["demo", "chat"] {
        let line = running
            .process
            .wait_for_line(&format!("{api} allows"), SECOND * 5);
        assert!(line.expect("a summary").ends_with("throttled 0"));
    }
}

#[test]
fn every_recipe_is_listed_and_run() {
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
