//! Variables that an operator sets while the program runs.

use std::time::Duration;

use outflow::config::Environment;
use outflow_cli::{ConfigSources, ConfigWatch, Program, ReloadError};

use super::support::{File, slow_server};

async fn program(file: &File) -> Program {
    let sources = ConfigSources::new(vec![file.path()]).in_environment(Environment::empty());
    Program::start_watching(sources, ConfigWatch::Nothing)
        .await
        .expect("it starts")
}

// Set, kept over a reload of the file, and told apart by its origin; the door follows at once.
#[tokio::test]
async fn a_variable_that_is_set_holds_until_the_end() {
    let server = slow_server(Duration::ZERO).await;
    let file = File::for_server(&server);
    let program = program(&file).await;
    let station = program.state();
    let changes = station.set("strict", "concurrency", "7").expect("valid");
    assert_eq!(changes.to_string(), "changed strict");
    let origin = |key: &str| {
        station
            .config()
            .client
            .origins
            .get(key)
            .expect("there")
            .to_string()
    };
    assert_eq!(origin("apis.strict.concurrency"), "runtime");
    let most = || {
        let door = station.client().upstream("strict").expect("there");
        door.report().health[0].concurrency
    };
    assert_eq!(most(), 7);

    file.write("retry_count = 1");
    assert_eq!(
        station.reload().expect("valid").to_string(),
        "changed strict"
    );
    assert_eq!(
        (most(), origin("apis.strict.concurrency").as_str()),
        (7, "runtime")
    );
    assert!(station.last_reload().expect("two").result.is_ok());
    assert!(program.stop().await);
}

// A variable that there is not, a value that is none, one that contradicts another, an API that there is
// not: each is told, and nothing changes.
#[tokio::test]
async fn nonsense_is_refused_and_told() {
    let server = slow_server(Duration::ZERO).await;
    let file = File::for_server(&server);
    let program = program(&file).await;
    let station = program.state();
    for (variable, value) in [
        ("p_throtle", "0.2"),
        ("concurrency", "many"),
        ("sleep_min", "90h"),
        ("base_url", "ftp://elsewhere"),
    ] {
        let refused = station.set("strict", variable, value).expect_err(variable);
        assert!(matches!(refused, ReloadError::Config(_)), "{refused}");
    }
    let unknown = station
        .set("other", "concurrency", "7")
        .expect_err("unknown");
    assert!(unknown.to_string().contains("other"), "{unknown}");
    let runtime = station
        .config()
        .client
        .origins
        .iter()
        .any(|(_, origin)| origin.to_string() == "runtime");
    assert!(!runtime);
    let page = station.client().metrics().expect("metrics").render();
    assert!(
        page.contains("outflow_reloads_total{result=\"refused\"} 4\n"),
        "{page}"
    );
    assert!(station.last_reload().expect("four").result.is_err());
    assert!(station.reload().expect("the file is good").is_empty());
    assert!(program.stop().await);
}

// The API for which a variable was set goes and comes back: the variable is forgotten, and stands in the
// way of neither.
#[tokio::test]
async fn what_was_set_goes_with_its_api() {
    let server = slow_server(Duration::ZERO).await;
    let file = File::for_server(&server);
    let other = "[apis.other]\nbase_url = \"http://127.0.0.1:9\"\n";
    file.write(other);
    let program = program(&file).await;
    let station = program.state();
    station.set("other", "timeout", "3s").expect("valid");
    file.write("");
    assert_eq!(
        station.reload().expect("valid").to_string(),
        "removed other"
    );
    file.write(other);
    assert_eq!(station.reload().expect("valid").to_string(), "added other");
    let timeout = station
        .client()
        .api("other")
        .expect("there")
        .timeouts
        .attempt;
    assert_ne!(timeout, Duration::from_secs(3));
    assert!(program.stop().await);
}

// Eight threads reload and set at once: one after the other, and none fails.
#[tokio::test(flavor = "multi_thread")]
async fn reloads_at_the_same_time_are_one_after_the_other() {
    let server = slow_server(Duration::ZERO).await;
    let file = File::for_server(&server);
    let program = program(&file).await;
    let station = program.state();
    std::thread::scope(|threads| {
        for number in 1..=8_u32 {
            threads.spawn(move || {
                for turn in 0..10 {
                    let value = (number * 10 + turn).to_string();
                    station.set("strict", "concurrency", &value).expect("valid");
                    station.reload().expect("valid");
                }
            });
        }
    });
    let page = station.client().metrics().expect("metrics").render();
    assert!(
        page.contains("outflow_reloads_total{result=\"applied\"} 160\n"),
        "{page}"
    );
    assert!(program.stop().await);
}
