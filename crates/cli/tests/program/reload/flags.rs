//! Command line flags apply to every configuration that is read later.

use std::time::Duration;

use outflow::config::Environment;
use outflow_cli::{ConfigSources, ConfigWatch, Program, ReloadError};

use super::support::{ConfigFile, slow_server};

fn sources(file: &ConfigFile) -> ConfigSources {
    ConfigSources::new(vec![file.path()]).in_environment(Environment::empty())
}

async fn program(sources: ConfigSources) -> Program {
    Program::start_watching(sources, ConfigWatch::Nothing)
        .await
        .expect("it starts")
}

const OTHER: &str = "[apis.other]\nbase_url = \"http://127.0.0.1:9\"\n";

// One period applies to all APIs, also after a reload removes one and adds another.
#[tokio::test]
async fn auto_recover_applies_to_reloaded_apis() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    file.write(OTHER);
    let program = program(sources(&file).with_auto_recover(Duration::from_mins(5))).await;
    let state = program.state();
    let has_it = |api: &str| {
        let key = format!("apis.{api}.health.auto_recover");
        let origin = state.config().client.origins.get(&key).expect("it has an origin");
        origin.to_string().contains("--auto-recover")
    };
    assert!(has_it("strict") && has_it("other"));
    file.write("");
    let changes = state.reload().expect("an API may go");
    assert_eq!(changes.to_string(), "removed other");
    file.write(&OTHER.replace("other", "third"));
    let changes = state.reload().expect("another may come");
    assert_eq!(changes.to_string(), "added third");
    assert!(has_it("strict") && has_it("third"));
    assert!(program.stop().await);
}

// The offline flag holds configured and reloaded APIs until an operator releases them.
#[tokio::test]
async fn offline_applies_to_reloaded_apis() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let program = program(sources(&file).offline()).await;
    let state = program.state();
    let client = state.client();
    client.get("strict", "/a").send().await.expect_err("held");
    let second = format!("[apis.second]\nbase_url = \"{}\"\n", server.url());
    file.write(&second);
    assert_eq!(state.reload().expect("valid").to_string(), "added second");
    client.get("second", "/a").send().await.expect_err("held");
    assert_eq!(server.api().totals().seen, 0);
    client.upstream("second").expect("there").release_health(None);
    client.get("second", "/a").send().await.expect("let go");
    assert!(program.stop().await);
}

// The address of the start stays open, so a reload that removes both address and token must keep the token.
#[tokio::test]
async fn a_reload_keeps_the_token_of_a_public_port() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let inside = file.text("");
    let outside = inside.replacen(
        "listen = \"127.0.0.1:0\"",
        "listen = \"0.0.0.0:0\"\ntoken_env = \"TOKEN\"",
        1,
    );
    std::fs::write(file.path(), outside).expect("written");
    let environment = [("TOKEN", "a-token-for-callers")].into_iter().collect();
    let sources = ConfigSources::new(vec![file.path()]).in_environment(environment);
    let program = program(sources).await;
    let state = program.state();
    std::fs::write(file.path(), inside).expect("written");
    let refused = state.reload().expect_err("the port is still public");
    assert!(matches!(refused, ReloadError::Unguarded("server")), "{refused}");
    assert!(state.config().server.token.is_some());
    assert!(program.stop().await);
}
