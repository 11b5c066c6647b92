//! Variables that an operator sets while the program runs.

use std::time::Duration;

use outflow::config::Environment;
use outflow_cli::{ConfigSources, ConfigWatch, Program, ReloadError};

use super::support::{ConfigFile, slow_server};

async fn program(file: &ConfigFile) -> Program {
    let sources = ConfigSources::new(vec![file.path()]).in_environment(Environment::empty());
    Program::start_watching(sources, ConfigWatch::Nothing)
        .await
        .expect("it starts")
}

// The value survives a reload, its origin is `runtime`, and the upstream applies it at once.
#[tokio::test]
async fn a_set_variable_survives_reloads() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let program = program(&file).await;
    let state = program.state();
    let changes = state.set("strict", "concurrency", "7").expect("valid");
    assert_eq!(changes.to_string(), "changed strict");
    let origin = |key: &str| state.config().client.origins.get(key).expect("there").to_string();
    assert_eq!(origin("apis.strict.concurrency"), "runtime");
    let most = || {
        let upstream = state.client().upstream("strict").expect("there");
        upstream.report().health[0].concurrency
    };
    assert_eq!(most(), 7);

    file.write("retry_count = 1");
    assert_eq!(state.reload().expect("valid").to_string(), "changed strict");
    assert_eq!((most(), origin("apis.strict.concurrency").as_str()), (7, "runtime"));
    assert!(state.last_reload().expect("two").result.is_ok());
    assert!(program.stop().await);
}

// An unknown variable, an invalid value, a contradiction and an unknown API are reported and change nothing.
#[tokio::test]
async fn invalid_variables_are_refused_and_reported() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let program = program(&file).await;
    let state = program.state();
    for (variable, value) in [
        ("p_throtle", "0.2"),
        ("concurrency", "many"),
        ("sleep_min", "90h"),
        ("base_url", "ftp://elsewhere"),
    ] {
        let refused = state.set("strict", variable, value).expect_err(variable);
        assert!(matches!(refused, ReloadError::Config(_)), "{refused}");
    }
    let unknown = state.set("other", "concurrency", "7").expect_err("unknown");
    assert!(unknown.to_string().contains("other"), "{unknown}");
    let runtime = state
        .config()
        .client
        .origins
        .iter()
        .any(|(_, origin)| origin.to_string() == "runtime");
    assert!(!runtime);
    let page = state.client().metrics().expect("metrics").render();
    assert!(page.contains("outflow_reloads_total{result=\"refused\"} 4\n"), "{page}");
    assert!(state.last_reload().expect("four").result.is_err());
    assert!(state.reload().expect("the file is good").is_empty());
    assert!(program.stop().await);
}

// The API is removed and added again. The program forgets the variable, which blocks neither reload.
#[tokio::test]
async fn a_set_variable_ends_with_its_api() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let other = "[apis.other]\nbase_url = \"http://127.0.0.1:9\"\n";
    file.write(other);
    let program = program(&file).await;
    let state = program.state();
    state.set("other", "timeout", "3s").expect("valid");
    file.write("");
    assert_eq!(state.reload().expect("valid").to_string(), "removed other");
    file.write(other);
    assert_eq!(state.reload().expect("valid").to_string(), "added other");
    let timeout = state.client().api("other").expect("there").timeouts.attempt;
    assert_ne!(timeout, Duration::from_secs(3));
    assert!(program.stop().await);
}

// Eight threads reload and set concurrently; the reloads are serialized and none fails.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reloads_are_serialized() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let program = program(&file).await;
    let state = program.state();
    std::thread::scope(|threads| {
        for number in 1..=8_u32 {
            threads.spawn(move || {
                for turn in 0..10 {
                    let value = (number * 10 + turn).to_string();
                    state.set("strict", "concurrency", &value).expect("valid");
                    state.reload().expect("valid");
                }
            });
        }
    });
    let page = state.client().metrics().expect("metrics").render();
    assert!(
        page.contains("outflow_reloads_total{result=\"applied\"} 160\n"),
        "{page}"
    );
    assert!(program.stop().await);
}
