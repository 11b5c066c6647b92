//! What was said on the command line holds for every configuration that is read later.

use std::time::Duration;

use outflow::config::Environment;
use outflow_cli::{ConfigSources, ConfigWatch, Program, ReloadError};

use super::support::{File, slow_server};

fn sources(file: &File) -> ConfigSources {
    ConfigSources::new(vec![file.path()]).in_environment(Environment::empty())
}

async fn program(sources: ConfigSources) -> Program {
    Program::start_watching(sources, ConfigWatch::Nothing)
        .await
        .expect("it starts")
}

const OTHER: &str = "[apis.other]\nbase_url = \"http://127.0.0.1:9\"\n";

// One period for all: an API that goes takes its own with it, and one that comes has it.
#[tokio::test]
async fn a_recovery_for_every_api_stands_in_no_reloads_way() {
    let server = slow_server(Duration::ZERO).await;
    let file = File::for_server(&server);
    file.write(OTHER);
    let program = program(sources(&file).with_auto_recover(Duration::from_mins(5))).await;
    let station = program.state();
    let has_it = |api: &str| {
        let key = format!("apis.{api}.health.auto_recover");
        let origin = station
            .config()
            .client
            .origins
            .get(&key)
            .expect("it has an origin");
        origin.to_string().contains("--auto-recover")
    };
    assert!(has_it("strict") && has_it("other"));
    file.write("");
    let changes = station.reload().expect("an API may go");
    assert_eq!(changes.to_string(), "removed other");
    file.write(&OTHER.replace("other", "third"));
    let changes = station.reload().expect("another may come");
    assert_eq!(changes.to_string(), "added third");
    assert!(has_it("strict") && has_it("third"));
    assert!(program.stop().await);
}

// Nothing is called: neither what was there nor what came by a reload, until an operator lets it go.
#[tokio::test]
async fn offline_is_meant_for_what_a_reload_adds_too() {
    let server = slow_server(Duration::ZERO).await;
    let file = File::for_server(&server);
    let program = program(sources(&file).offline()).await;
    let station = program.state();
    let client = station.client();
    client.get("strict", "/a").send().await.expect_err("held");
    let second = format!("[apis.second]\nbase_url = \"{}\"\n", server.url());
    file.write(&second);
    assert_eq!(station.reload().expect("valid").to_string(), "added second");
    client.get("second", "/a").send().await.expect_err("held");
    assert_eq!(server.api().totals().seen, 0);
    client
        .upstream("second")
        .expect("there")
        .release_health(None);
    client.get("second", "/a").send().await.expect("let go");
    assert!(program.stop().await);
}

// The door of the start stays where it is, so what was open to others for a token stays so: a file that
// takes both back at once takes only the token back.
#[tokio::test]
async fn a_reload_takes_no_token_from_a_door_that_others_reach() {
    let server = slow_server(Duration::ZERO).await;
    let file = File::for_server(&server);
    let inside = file.text("");
    let outside = inside.replacen(
        "listen = \"127.0.0.1:0\"",
        "listen = \"0.0.0.0:0\"\ntoken_env = \"TOKEN\"",
        1,
    );
    std::fs::write(file.path(), outside).expect("written");
    let environment = [("TOKEN", "for-callers")].into_iter().collect();
    let sources = ConfigSources::new(vec![file.path()]).in_environment(environment);
    let program = program(sources).await;
    let station = program.state();
    std::fs::write(file.path(), inside).expect("written");
    let refused = station.reload().expect_err("the door is still open");
    assert!(
        matches!(refused, ReloadError::Unguarded("server")),
        "{refused}"
    );
    assert!(station.config().server.token.is_some());
    assert!(program.stop().await);
}
