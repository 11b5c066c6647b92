//! Files that change under a program that is in use.

use std::time::Duration;

use outflow_mock::{MockApi, MockResponse};
use outflow_testkit::Background;

use super::support::{File, NAME, Running, slow_server};

// Two callers in ten workers make 500 calls a second, as 20 every 40 milliseconds, each of which takes
// 10 ms at the server. Meanwhile the file is replaced a hundred times, with other limits, retries,
// groups and a second API that comes and goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_reloads_fail_no_call() {
    let server = slow_server(Duration::from_millis(10)).await;
    let file = File::for_server(&server);
    let mut running = Running::start(&file);
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
    assert!(
        page.contains("outflow_in_flight{api=\"strict\"} 0"),
        "{page}"
    );
}

/// Every turn differs from the one before.
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

// Half of a file, then nothing at all, then one with a wrong key: each is told with what is wrong, and
// calls go on as before. Then a good one, which the watch alone has to notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_or_empty_file_keeps_the_configuration_before() {
    let server = slow_server(Duration::ZERO).await;
    let file = File::for_server(&server);
    let mut running = Running::start(&file);
    let client = running.caller();
    let whole = file.text("");
    for (text, told) in [
        (&whole[..whole.len() / 2], "error"),
        ("", "names no API"),
        (
            "[apis.strict]\nbase_url = \"http://127.0.0.1:9\"\nlimit = 5\n",
            "limit",
        ),
    ] {
        std::fs::write(file.path(), text).expect("written");
        running.says("the previous configuration stays in effect");
        running.says(told);
        let answer = client.get(NAME, "/a").send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
    }
    let page = running.metrics().await;
    assert!(page.contains("outflow_reload_ok 0.0\n"), "{page}");
    file.write("retry_count = 1");
    running.says("configuration reloaded: changed strict");
    assert!(running.metrics().await.contains("outflow_reload_ok 1.0\n"));
}

// The file is truncated and written in two parts with a pause between, as by a slow copy: whatever the
// watch saw of it, the end is the new configuration.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_slowly_is_in_effect_when_it_is_whole() {
    let server = slow_server(Duration::ZERO).await;
    let file = File::for_server(&server);
    let mut running = Running::start(&file);
    let whole = file.text("retry_count = 3");
    std::fs::write(file.path(), &whole[..whole.len() / 3]).expect("written");
    tokio::time::sleep(Duration::from_millis(250)).await;
    std::fs::write(file.path(), &whole).expect("written");
    running.says("configuration reloaded: changed strict");
}

// The key of the API and the token of the callers are in files of their own, and both are replaced by
// somebody who knows nothing of us: the watch alone has to notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_replaced_in_its_file_is_used_without_being_asked() {
    let api = MockApi::builder()
        .answer("/**", MockResponse::echo())
        .build();
    let server = api.expect("valid").listen().await.expect("a port");
    let file = File::for_server(&server);
    let (key, secrets) = (
        file.dir.path().join("keys/key"),
        file.dir.path().join("keys"),
    );
    std::fs::create_dir(&secrets).expect("a directory");
    std::fs::write(&key, "first").expect("written");
    file.write(&format!("api_key_file = {key:?}"));
    let mut running = Running::start(&file);
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
