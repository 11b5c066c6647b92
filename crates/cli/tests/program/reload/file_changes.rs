//! Files that change while the program serves calls.

use std::time::Duration;

use outflow_mock::{MockApi, MockResponse};
use outflow_testkit::Background;

use super::support::{ConfigFile, NAME, ReloadProcess, slow_server};

// Ten workers make 500 calls a second, 20 every 40 ms, each of which takes 10 ms at the server. Meanwhile the
// file is replaced a hundred times, with other limits, retries, groups and a second API.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_reloads_fail_no_call() {
    let server = slow_server(Duration::from_millis(10)).await;
    let file = ConfigFile::for_server(&server);
    let mut running = ReloadProcess::start(&file);
    let client = running.caller();
    let load = Background::start(async move {
        let mut failed = Vec::new();
        let mut ticks = tokio::time::interval(Duration::from_millis(40));
        for _ in 0..150 {
            ticks.tick().await;
            let calls: Vec<_> = (0..20)
                .map(|_| {
                    let client = client.clone();
                    Background::start(async move { client.get(NAME, "/orders/1").send().await })
                })
                .collect();
            for call in calls {
                match call.join().await {
                    Ok(answer) if answer.status() == 200 => {}
                    Ok(answer) => failed.push(answer.status().to_string()),
                    Err(error) => failed.push(error.to_string()),
                }
            }
        }
        failed
    });
    for turn in 0..100 {
        file.write(&variant(turn));
        running.process.hang_up().expect("sent");
        running.says("configuration reloaded");
    }
    assert!(!load.is_over(), "all reloads came while calls were made");
    let failed = load.join().await;
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(server.api().totals().seen, 3_000);
    let page = running.metrics().await;
    assert!(page.contains("outflow_reload_ok 1.0\n"), "{page}");
    assert!(page.contains("outflow_in_flight{api=\"strict\"} 0"), "{page}");
}

/// Renders a configuration that differs from the one before.
fn variant(turn: u32) -> String {
    let retries = turn % 4;
    let group = "routes = [{ path = \"/orders/**\", group = \"orders\" }]\n\
                 [apis.strict.groups.orders]\nlimits = [\"5000/s\"]\n";
    let other = "[apis.other]\nbase_url = \"http://127.0.0.1:9\"\n";
    match turn % 3 {
        0 => format!("retry_count = {retries}\n{group}"),
        1 => format!("retry_count = {retries}\n{other}"),
        _ => format!("retry_count = {retries}\nmax_wait = \"{turn}s\"\n"),
    }
}

// Half of a file, an empty file and a file with an unknown key: the program reports each, and calls continue.
// The watch alone must notice the valid file that follows.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_keeps_the_previous_configuration() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let mut running = ReloadProcess::start(&file);
    let client = running.caller();
    let whole = file.text("");
    for (text, message) in [
        (&whole[..whole.len() / 2], "error"),
        ("", "names no API"),
        ("[apis.strict]\nbase_url = \"http://127.0.0.1:9\"\nlimit = 5\n", "limit"),
    ] {
        std::fs::write(file.path(), text).expect("written");
        running.says("the previous configuration stays in effect");
        running.says(message);
        let answer = client.get(NAME, "/a").send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
    }
    let page = running.metrics().await;
    assert!(page.contains("outflow_reload_ok 0.0\n"), "{page}");
    file.write("retry_count = 1");
    running.says("configuration reloaded: changed strict");
    assert!(running.metrics().await.contains("outflow_reload_ok 1.0\n"));
}

// The file is truncated and written in two parts with a pause between, as by a slow copy. The last state of
// the file becomes the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn the_watch_applies_a_slowly_written_file_once_it_is_complete() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let mut running = ReloadProcess::start(&file);
    let whole = file.text("retry_count = 3");
    std::fs::write(file.path(), &whole[..whole.len() / 3]).expect("written");
    tokio::time::sleep(Duration::from_millis(250)).await;
    std::fs::write(file.path(), &whole).expect("written");
    running.says("configuration reloaded: changed strict");
}

// The API key is in its own file, and another program replaces it: the watch alone must notice that.
#[tokio::test(flavor = "multi_thread")]
async fn the_watch_applies_a_replaced_key_file() {
    let api = MockApi::builder().answer("/**", MockResponse::echo()).build();
    let server = api.expect("valid").listen().await.expect("a port");
    let file = ConfigFile::for_server(&server);
    let (key, secrets) = (file.dir.path().join("keys/key"), file.dir.path().join("keys"));
    std::fs::create_dir(&secrets).expect("a directory");
    std::fs::write(&key, "first").expect("written");
    file.write(&format!("api_key_file = {key:?}"));
    let mut running = ReloadProcess::start(&file);
    let client = running.caller();
    let shown = async || {
        let answer = client.get(NAME, "/a").send().await.expect("an answer");
        answer.text().await.expect("text")
    };
    assert!(shown().await.contains("Bearer first"));
    std::fs::write(secrets.join("new"), "second").expect("written");
    std::fs::rename(secrets.join("new"), &key).expect("renamed");
    running.says("configuration reloaded: changed strict");
    assert!(shown().await.contains("Bearer second"));
}
