//! Reproductions: logs, metrics, tasks and secrets around a whole client.
#![allow(dead_code, clippy::all, clippy::pedantic, clippy::disallowed_methods)]

#[path = "http/support.rs"]
mod support;

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::log::{Log, LogSettings, RollingFile};
use outflow::{Config, Event, Observer, Outflow, SystemClock};
use outflow_upstream::{Act, Answer, Content, Fault, Script, StrictApi, When};
use support::scripted;
use tracing_subscriber::layer::SubscriberExt;

const PATIENCE: Duration = Duration::from_secs(10);
const CANARY: &str = "CANARY/7f3a+\"x9\"-0123456789";

fn configured(base_url: &str, dir: &Path, more: &str) -> Config {
    let dir = dir.display();
    let text = format!(
        r#"
        [log]
        level = "trace"
        file = "{dir}/logs/outflow.log"
        [metrics]
        ndjson = {{ file = "{dir}/metrics.ndjson" }}
        interval = "1h"
        [cache]
        dir = "{dir}/cache"
        [apis.strict]
        base_url = "{base_url}"
        limits = ["1000/s"]
        cache = "standard"
        {more}
        "#
    );
    let env = Environment::from_iter([("STRICT_KEY", CANARY)]);
    Config::read(&[Source::new("test.toml", text)], &env).expect("valid")
}

async fn kept() -> (StrictApi, outflow_upstream::Server) {
    let api = scripted(Script::new());
    api.answer(
        "/**",
        Answer::ok("{}").header("cache-control", "max-age=60"),
    );
    let server = api.listen().await.unwrap();
    (api, server)
}

// The numbers of the last hour are the reason to write a last line.
#[tokio::test]
async fn rev2_the_last_line_of_metrics_is_written_at_the_end() {
    let (_api, server) = kept().await;
    let dir = tempfile::tempdir().unwrap();
    let client = Outflow::init(configured(&server.url(), dir.path(), "")).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for _ in 0..7 {
        client.get("strict", "/a").send().await.unwrap();
    }
    assert!(client.close(PATIENCE).await);
    let text = std::fs::read_to_string(dir.path().join("metrics.ndjson")).unwrap();
    let last = text.lines().last().unwrap().to_owned();
    let lines = text.lines().count();
    assert!(
        lines >= 2 && last.contains('7'),
        "{lines} lines, the last: {last}"
    );
}

// A call that waits between two attempts holds no permit, so closing does not see it.
#[tokio::test]
async fn rev2_closing_waits_for_the_line_of_a_call_between_two_attempts() {
    let api = scripted(Script::new().rule(When::always(), Answer::status(503)));
    let server = api.listen().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let client = Outflow::init(configured(&server.url(), dir.path(), "")).unwrap();
    let call = client.get("strict", "/a").send();
    let closing = async {
        while api.audit().count() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.close(PATIENCE).await
    };
    let (ended, clean) = tokio::join!(call, closing);
    let log = std::fs::read_to_string(dir.path().join("logs/outflow.log")).unwrap();
    println!("{:?} {clean}", ended.map(|answer| answer.status()));
    assert_eq!(log.matches("event=request").count(), 1, "{log}");
}

#[test]
fn rev2_a_log_is_not_written_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "precious\n").unwrap();
    let link = dir.path().join("o.log");
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    let mut file = RollingFile::new(&link, 1 << 20, 2).unwrap();
    let wrote = file.write_all(b"line\n");
    assert_eq!(
        std::fs::read_to_string(&victim).unwrap(),
        "precious\n",
        "{wrote:?}"
    );
}

#[test]
fn rev2_a_log_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let mut file = RollingFile::new(dir.path().join("logs/o.log"), 1 << 20, 2).unwrap();
    file.write_all(b"line\n").unwrap();
    let mode = |path: &str| {
        std::fs::metadata(dir.path().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        (mode("logs"), mode("logs/o.log")),
        (0o700, 0o600),
        "{:o} {:o}",
        mode("logs"),
        mode("logs/o.log")
    );
}

// With three files there were five before; nobody removes the others.
#[test]
fn rev2_fewer_files_are_fewer_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("o.log");
    let block = vec![b'x'; 100_000];
    for files in [5, 2] {
        let mut file = RollingFile::new(&path, 128 * 1024, files).unwrap();
        for _ in 0..8 {
            file.write_all(&block).unwrap();
        }
    }
    let count = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(count <= 2, "{count} files");
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn handles() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rev2_two_hundred_clients_leave_nothing_behind() {
    let (_api, server) = kept().await;
    let dir = tempfile::tempdir().unwrap();
    let mut before = (0, 0);
    for round in 0..200 {
        let client = Outflow::init(configured(&server.url(), dir.path(), "")).unwrap();
        client
            .get("strict", &format!("/{round}"))
            .send()
            .await
            .unwrap();
        drop(client);
        if round == 5 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            before = (threads(), handles());
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = (threads(), handles());
    println!("{before:?} {after:?}");
    assert!(
        after.0 <= before.0 + 3 && after.1 <= before.1 + 10,
        "{before:?} {after:?}"
    );
    let log = std::fs::read_to_string(dir.path().join("logs/outflow.log")).unwrap();
    assert_eq!(
        log.matches("event=request").count(),
        200,
        "lines of dropped clients"
    );
    let files = std::fs::read_dir(dir.path().join("cache")).unwrap().count();
    println!("{files} files in the cache");
}

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Page {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

// "For the program's own code, so that one file in one form holds everything."
#[test]
fn rev2_the_programs_own_lines_are_in_the_log() {
    let page = Page::default();
    let (log, mut pump) = Log::new(LogSettings::new(Arc::new(SystemClock::new())), page.clone());
    let subscriber = tracing_subscriber::registry().with(log.layer());
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!(target: "shop::orders", order = 7, "order placed");
    });
    pump.drain();
    assert!(page.text().contains("order placed"), "{:?}", page.text());
}

// A crate whose name begins like ours is not ours.
#[test]
fn rev2_a_crate_with_a_name_like_ours_is_foreign() {
    let page = Page::default();
    let (log, mut pump) = Log::new(LogSettings::new(Arc::new(SystemClock::new())), page.clone());
    let subscriber = tracing_subscriber::registry().with(log.layer());
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!(target: "outflowing::wire", header = "authorization: secret", "frame");
    });
    pump.drain();
    assert_eq!(page.text(), "");
}

struct Clumsy;
impl Observer for Clumsy {
    fn observe(&self, event: &Event) {
        if matches!(event.what, outflow::event::What::Finished(_)) {
            panic!("clumsy");
        }
    }
}

#[tokio::test]
async fn rev2_an_observer_that_panics_takes_no_call_down() {
    let (_api, server) = kept().await;
    let dir = tempfile::tempdir().unwrap();
    let client = Outflow::init(configured(&server.url(), dir.path(), "")).unwrap();
    client.events().subscribe(Arc::new(Clumsy));
    let other = client.clone();
    let ended =
        tokio::spawn(async move { other.get("strict", "/a").send().await.map(|a| a.status()) })
            .await;
    assert!(ended.is_ok(), "the caller's task died: {ended:?}");
}

/// Everything under a directory, names and contents.
fn all_files(dir: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for found in std::fs::read_dir(dir).unwrap().flatten() {
        let path = found.path();
        if path.is_dir() {
            all.extend(all_files(&path));
        } else {
            all.push((
                path.display().to_string(),
                String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
            ));
        }
    }
    all
}

fn hits(text: &str) -> Vec<String> {
    let parts = ["CANARY", "7f3a", "canary", "Q0FOQVJZ"];
    let mut found = Vec::new();
    for part in parts {
        for (at, _) in text.match_indices(part).take(3) {
            let from = text.floor_char_boundary(at.saturating_sub(120));
            let to = text.ceil_char_boundary((at + 60).min(text.len()));
            found.push(text[from..to].to_owned());
        }
    }
    found
}

// A whole configured client; the key in each place, the canary in the caller's headers, query,
// cookie, body, path; every kind of end; and everything that any crate tells at TRACE.
#[tokio::test]
async fn rev2_a_canary_is_in_no_file_and_no_trace_of_a_whole_client() {
    let page = Page::default();
    let writer = page.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let echo = format!("{{\"you said\": {CANARY:?}");
    let mut acts: Vec<Act> = [200, 204, 302, 401, 404, 429, 500]
        .into_iter()
        .map(|status| {
            Answer::status(status)
                .header("x-echo", CANARY)
                .header(
                    "location",
                    format!("/x/{}?k={}", "CANARY-7f3a", "CANARY-7f3a"),
                )
                .header("ratelimit", CANARY)
                .header("retry-after", CANARY)
                .header("cache-control", "max-age=60")
                .content(Content::Whole(echo.clone().into()))
                .into()
        })
        .collect();
    acts.extend(
        [
            Fault::ResetBeforeHead,
            Fault::CutBody,
            Fault::Garbage,
            Fault::Bytes(format!("HTTP/1.1 200 OK\r\n{CANARY}\r\n\r\n").into()),
        ]
        .map(Act::from),
    );
    let dir = tempfile::tempdir().unwrap();
    let mut texts = String::new();
    for place in [
        "\"bearer\"",
        "{ header = \"x-api-key\" }",
        "{ query = \"key\" }",
    ] {
        for act in &acts {
            let api = scripted(Script::new().rule(When::always(), act.clone()));
            let server = api.listen().await.unwrap();
            let more = format!("api_key_env = \"STRICT_KEY\"\nkey = {place}\nretry_count = 0");
            let config = configured(&server.url(), dir.path(), &more);
            texts += &format!("{config:?}");
            let client = Outflow::init(config).unwrap();
            texts += &format!("{client:?} {:?} {:?}", client.api("strict"), client.tasks());
            for path in [
                "/a",
                "/user:CANARY-7f3a@host/b",
                "//u:CANARY-7f3a@host/",
                "/a;token=CANARY-7f3a",
                "/p?sig=CANARY-7f3a#CANARY",
            ] {
                let call = || {
                    client
                        .get("strict", path)
                        .query([("q", CANARY)])
                        .header("authorization", "Bearer CANARY-7f3a")
                        .header("cookie", "s=CANARY-7f3a")
                        .header("traceparent", "00-CANARY7f3a-CANARY-01")
                        .header("x-request-id", "CANARY-7f3a")
                        .within(Duration::from_secs(1))
                };

                for ended in [
                    call().send().await,
                    call().body(CANARY).send().await,
                    call().send_streaming().await,
                ] {
                    match ended {
                        Ok(answer) => {
                            texts += &format!("{answer:?}");
                            if let Err(error) = answer.json::<u8>().await {
                                texts += &format!("{error} {error:?}");
                            }
                        }
                        Err(error) => texts += &format!("{error} {error:?}"),
                    }
                }
            }
            texts += &client.metrics().unwrap().render();
            client.close(PATIENCE).await;
        }
    }
    let mut found = Vec::new();
    for (name, text) in all_files(dir.path()) {
        let what = hits(&text);
        if !what.is_empty() {
            found.push(format!("{name}: {:?}", &what[..what.len().min(3)]));
        }
    }
    for (name, text) in [("printed", texts), ("tracing", page.text())] {
        let what = hits(&text);
        if !what.is_empty() {
            found.push(format!("{name}: {what:?}"));
        }
    }
    println!("{} bytes of tracing", page.text().len());
    assert!(found.is_empty(), "{found:#?}");
}

// What promtool says of the page, and the page itself for it.
#[tokio::test]
async fn rev2_promtool_accepts_the_page() {
    let (_api, server) = kept().await;
    let dir = tempfile::tempdir().unwrap();
    let client = Outflow::init(configured(&server.url(), dir.path(), "")).unwrap();
    for n in 0..20 {
        client
            .get("strict", &format!("/{}", n % 3))
            .send()
            .await
            .unwrap();
    }
    let page = client.metrics().unwrap().render();
    std::fs::write("/tmp/rev2_page.txt", &page).unwrap();
    let log = || std::fs::read_to_string(dir.path().join("logs/outflow.log")).unwrap_or_default();
    assert!(client.close(PATIENCE).await);
    std::fs::write("/tmp/rev2_log.txt", log()).unwrap();
}

// Three refusals: the line of the third must say that there were three.
#[tokio::test]
async fn rev2_the_line_of_a_refusal_counts_that_refusal() {
    let api = scripted(Script::new().rule(When::always(), Answer::status(429)));
    let server = api.listen().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let client = Outflow::init(configured(&server.url(), dir.path(), "retry_count = 0")).unwrap();
    for _ in 0..2 {
        let _ = client.get("strict", "/a").send().await;
    }
    client.close(PATIENCE).await;
    let log = std::fs::read_to_string(dir.path().join("logs/outflow.log")).unwrap();
    let lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("event=429"))
        .collect();
    assert!(
        lines[0].contains("consec429=1") && lines[0].contains("err_rate_30s=1"),
        "{lines:#?}"
    );
}

// What is told to `tracing` by a client of `init` knows the configured key.
#[tokio::test]
async fn rev2_the_closing_of_a_client_is_true_only_when_its_calls_are_over() {
    let api = scripted(Script::new().rule(When::always(), Answer::status(503)));
    let server = api.listen().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let client = Outflow::init(configured(&server.url(), dir.path(), "")).unwrap();
    let over = std::cell::Cell::new(false);
    let call = async {
        let _ = client.get("strict", "/a").send().await;
        over.set(true);
    };
    let closing = async {
        while api.audit().count() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        (client.close(PATIENCE).await, over.get())
    };
    let (_, (clean, over)) = tokio::join!(call, closing);
    assert!(!clean || over, "closed as clean while a call was under way");
}

// A client whose cache cannot be kept on disk says so somewhere.
#[tokio::test]
async fn rev2_a_cache_without_its_directory_is_told() {
    let (_api, server) = kept().await;
    let dir = tempfile::tempdir().unwrap();
    let one = Outflow::init(configured(&server.url(), dir.path(), "")).unwrap();
    let two = Outflow::init(configured(&server.url(), dir.path(), "")).unwrap();
    two.get("strict", "/a").send().await.unwrap();
    let page = two.metrics().unwrap().render();
    two.close(PATIENCE).await;
    let log = std::fs::read_to_string(dir.path().join("logs/outflow.log")).unwrap();
    drop(one);
    assert!(
        log.contains("elsewhere") || log.contains("cache_d") || page.contains("cache_disk"),
        "told nowhere"
    );
}

// The seed's own line: `event=429 sleep=1.8s … retry_after=2s`.
#[tokio::test]
async fn rev2_the_line_of_a_refusal_says_what_the_server_asked_for() {
    let api = scripted(Script::new().rule(
        When::always(),
        Answer::status(429).header("retry-after", "2"),
    ));
    let server = api.listen().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let client = Outflow::init(configured(&server.url(), dir.path(), "retry_count = 0")).unwrap();
    let _ = client.get("strict", "/a").send().await;
    client.close(PATIENCE).await;
    let log = std::fs::read_to_string(dir.path().join("logs/outflow.log")).unwrap();
    let line = log.lines().find(|line| line.contains("event=429")).unwrap();
    assert!(line.contains("retry_after=2s"), "{log}");
}
