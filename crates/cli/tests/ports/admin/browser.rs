//! The live page in a real browser, and attacks from pages of other sites.

use std::net::SocketAddr;

use outflow::config::Environment;
use outflow_cli::ListenAddr;
use outflow_mock::{Content, MockApi, MockResponse, Server};
use outflow_testkit::{Browser, SeenRequest};

use super::support::{QUIET, STOCK, TestProgram};

// Two APIs show that one changes without the other; one has a group with its own limit. A reload of the page
// would remove the mark.
#[tokio::test(flavor = "multi_thread")]
async fn chromium_shows_every_api_and_its_live_state() {
    let running = TestProgram::with_config(&format!("{QUIET}{STOCK}{MAIL}")).await;
    let mut browser = Browser::start(&[]).expect("it starts");
    let page = format!("http://{}/", running.address());
    browser.visit(&page).expect("the page");
    for shown in [
        "document.querySelectorAll('article').length === 2",
        "document.querySelector('[data-api=stock] .limit').textContent.includes('3/m')",
        "document.querySelector('[data-api=stock]').textContent.includes('orders')",
        "document.querySelector('[data-api=mail] .state').textContent === 'Normal'",
        "document.getElementById('about').textContent.startsWith('version ')",
    ] {
        browser.until(shown).expect("it is shown");
    }
    browser.run("window.mark = 1").expect("a mark");
    let sleep = r#"{"state":"sleep","reason":"their maintenance"}"#;
    let held = running.post("/v1/apis/stock/health", sleep).await;
    assert_eq!(held.status, 200, "{}", held.text());
    for shown in [
        "document.querySelector('[data-api=stock] .state').textContent === 'Sleep, held'",
        "document.querySelector('[data-api=stock] .state').dataset.state === 'Sleep'",
        "document.querySelector('[data-api=mail] .state').textContent === 'Normal'",
        "document.getElementById('events').textContent.includes('their maintenance')",
        "window.mark === 1",
    ] {
        browser.until(shown).expect("it is shown");
    }
    running.delete("/v1/apis/stock/health").await;
    browser
        .until("!document.querySelector('[data-api=stock] .state').textContent.includes('held')")
        .expect("it is shown");
    assert_eq!(browser.complaints(), [""; 0]);
}

// The browser itself logs the first response, a 401, and the one for the wrong token.
#[tokio::test(flavor = "multi_thread")]
async fn chromium_asks_for_the_token_and_stores_it_nowhere() {
    let text = QUIET.replace("[log]", "token_env = \"ADMIN\"\n    [log]");
    let environment = Environment::from_iter([("ADMIN", "s3cret-token-of-operators")]);
    let running = TestProgram::with_environment(&format!("{text}{STOCK}"), environment).await;
    let mut browser = Browser::start(&[]).expect("it starts");
    browser
        .visit(&format!("http://{}/", running.address()))
        .expect("the page");
    browser
        .until("!document.getElementById('ask').hidden")
        .expect("it asks");
    for (token, shown) in [
        ("wrong", "about.textContent === 'this token is wrong'"),
        (
            "s3cret-token-of-operators",
            "document.querySelectorAll('article').length === 1",
        ),
    ] {
        let typed = format!("{BOX} = '{token}', ask.requestSubmit()");
        browser.run(&typed).expect("typed");
        browser.until(shown).expect("it is shown");
    }
    let kept = "[location.href, document.cookie, localStorage.length + sessionStorage.length, \
                document.documentElement.outerHTML].join(' ')";
    let kept = browser.run(kept).expect("a look");
    let kept = kept.as_str().expect("a text");
    assert!(!kept.contains("s3cret") && kept.contains("/  0 <html"), "{kept}");
    let refused: Vec<_> = browser.complaints().iter().collect();
    let known = |detail: &&&String| detail.contains("401 (Unauthorized)");
    assert_eq!(refused.iter().filter(known).count(), 2, "{refused:?}");
    assert_eq!(refused.len(), 2, "{refused:?}");
}

// The configuration allows no such names, so the test passes them to the page directly. An operator's reason
// can be any text and comes with the stream.
#[tokio::test(flavor = "multi_thread")]
async fn chromium_runs_no_script_from_names_or_texts() {
    let running = TestProgram::start().await;
    let mut browser = Browser::start(&[]).expect("it starts");
    browser
        .visit(&format!("http://{}/", running.address()))
        .expect("the page");
    browser
        .until("document.querySelectorAll('article').length === 1")
        .expect("it is shown");
    let said = serde_json::json!({ "state": "sleep", "reason": MARKUP });
    let held = running.post("/v1/apis/stock/health", &said.to_string()).await;
    assert_eq!(held.status, 200, "{}", held.text());
    browser
        .until("document.getElementById('events').textContent.includes('<img src=x')")
        .expect("it is shown");
    let snapshot = running.get("/v1/snapshot").await.text();
    let named = serde_json::to_string(MARKUP).expect("a text");
    let hostile = snapshot
        .replace("\"stock\"", &named)
        .replace("\"orders\"", &named)
        .replace("\"Sleep\"", &named);
    browser
        .run(&format!(
            "showSnapshot({hostile}), addEvent({named}, {{ api: {named}, why: {named} }})"
        ))
        .expect("it is shown");
    browser
        .until("document.querySelector('article h2').textContent.includes('<img src=x')")
        .expect("it is shown");
    browser
        .run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")
        .expect("it is drawn");
    let made = browser.run("[window.ran ?? 0, document.querySelectorAll('img, main script, ol script').length]");
    assert_eq!(made.expect("a look"), serde_json::json!([0, 0]));
    assert_eq!(browser.complaints(), [""; 0]);
}

// If inline markup got in, the policy would stop it.
#[tokio::test(flavor = "multi_thread")]
async fn chromium_enforces_the_policy_of_the_page() {
    let running = TestProgram::start().await;
    let mut browser = Browser::start(&[]).expect("it starts");
    browser
        .visit(&format!("http://{}/", running.address()))
        .expect("the page");
    let put = format!("document.body.innerHTML = {}, 1", serde_json::json!(MARKUP));
    browser.run(&put).expect("markup is put in by hand");
    browser
        .run("new Promise((done) => setTimeout(done, 100))")
        .expect("it is drawn");
    assert_eq!(browser.run("window.ran ?? 0").expect("a look"), 0);
    let detail = browser.complaints().join("\n");
    assert!(detail.contains("Content Security Policy"), "{detail}");
}

// The attack comes from another port, which a browser calls the same site, and from another host name. Both
// resolve to this machine, so the network blocks nothing.
#[tokio::test(flavor = "multi_thread")]
async fn chromium_cannot_attack_from_a_foreign_page() {
    let (api, server) = api().await;
    let running = TestProgram::with_config(&config(&server)).await;
    let attacker = attacker(&running).await;
    let port = attacker.address().port();
    let mut browser = Browser::start(&["evil.example"]).expect("it starts");
    for (host, sent) in [("127.0.0.1", ATTACKS), ("evil.example", 2 * ATTACKS)] {
        browser.visit(&format!("http://{host}:{port}/")).expect("a page");
        browser.run("attack()").expect("it tries");
        let all = browser.until_seen(|seen_requests| ours(&running, seen_requests).len() >= sent);
        assert!(all.is_ok(), "{:?}", ours(&running, browser.seen_requests()));
    }
    let seen_requests = ours(&running, browser.seen_requests());
    let let_in: Vec<_> = seen_requests.iter().filter(|one| one.status != 403).collect();
    assert!(let_in.is_empty(), "{let_in:?}");
    assert_eq!(api.audit().count(), 0, "nothing reached the API");
    unchanged(&running).await;
}

// The name resolves to this machine, so the browser treats our page as same-origin: only the host check can
// refuse it.
#[tokio::test(flavor = "multi_thread")]
async fn chromium_is_refused_under_a_rebound_host_name() {
    let (api, server) = api().await;
    let running = TestProgram::with_config(&config(&server)).await;
    let mut browser = Browser::start(&["evil.example"]).expect("it starts");
    for port in [running.address().port(), sidecar(&running).port()] {
        browser
            .visit(&format!("http://evil.example:{port}/stock/x"))
            .expect("a page");
        let hold = "fetch('/v1/apis/stock/health', { method: 'POST', body: '{\"state\":\"offline\"}', \
                    headers: { 'content-type': 'application/json' } }).then((answer) => answer.status)";
        assert_eq!(browser.run(hold).expect("an answer"), 421);
        let read = "fetch('/stock/x').then((answer) => answer.status)";
        assert_eq!(browser.run(read).expect("an answer"), 421);
    }
    assert_eq!(api.audit().count(), 0, "nothing reached the API");
    unchanged(&running).await;
}

/// Returns the requests to either of our ports.
fn ours<'m>(running: &TestProgram, seen_requests: &'m [SeenRequest]) -> Vec<&'m SeenRequest> {
    let places = [running.address(), sidecar(running)].map(|address| address.to_string());
    let here = |one: &&SeenRequest| places.iter().any(|address| one.url.contains(address));
    seen_requests.iter().filter(here).collect()
}

async fn unchanged(running: &TestProgram) {
    let audit = running.get("/v1/audit").await.text();
    assert!(audit.contains("[]"), "{audit}");
    let state = running.get("/v1/apis").await.json()["apis"][0]["state"].clone();
    assert_eq!(state, "Normal");
}

/// Starts the API that the sidecar has keys for.
async fn api() -> (MockApi, Server) {
    let api = MockApi::builder().build().expect("valid");
    let server = api.listen().await.expect("a port");
    (api, server)
}

fn config(server: &Server) -> String {
    let url = server.url();
    format!("{QUIET}[apis.stock]\nbase_url = \"{url}\"\naddresses = \"any\"\nlimits = [\"100/s\"]\n")
}

/// Starts a foreign server whose page attacks both ports.
async fn attacker(running: &TestProgram) -> Server {
    let page = include_str!("attack.html")
        .replace("ADMIN", &running.address().to_string())
        .replace("SIDECAR", &sidecar(running).to_string());
    let page = MockResponse::status(200)
        .content(Content::Whole(page.into()))
        .header("content-type", "text/html");
    let api = MockApi::builder().answer("/**", page).build();
    api.expect("valid").listen().await.expect("a port")
}

fn sidecar(running: &TestProgram) -> SocketAddr {
    match running.program.sidecar() {
        ListenAddr::Tcp(address) => *address,
        ListenAddr::Unix(path) => panic!("a port was asked for, not {}", path.display()),
    }
}

const MAIL: &str = r#"
    [apis.mail]
    base_url = "http://localhost:9"
    limits = ["7/s"]
"#;

/// Markup that would run a script in three ways.
const MARKUP: &str =
    "<img src=x onerror=\"window.ran=1\"><svg onload=\"window.ran=2\"></svg><script>window.ran=3</script>";

const BOX: &str = "document.getElementById('token').value";

/// The page sends 8 forms; 2 blind posts, 2 preflights and a beacon to each of 4 addresses; 6 kinds of reads
/// to each of 3 addresses; 2 streams. The page itself reports that no socket opened.
const ATTACKS: usize = 8 + 4 * 5 + 3 * 6 + 2;
