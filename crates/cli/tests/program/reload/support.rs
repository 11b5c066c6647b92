//! A program in its own process, its configuration file, and a client that calls through it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use outflow::core::{HealthConfig, HealthSettings};
use outflow::{Api, Outflow, Rules};
use outflow_mock::{Latency, MockApi, MockResponse, Server};
use outflow_testkit::Process;
use tempfile::TempDir;

use crate::support::PATIENCE;

pub(crate) async fn slow_server(delay: Duration) -> Server {
    let api = MockApi::builder()
        .answer("/**", MockResponse::ok("{}"))
        .delay(Latency::Fixed(delay), Latency::None)
        .build()
        .expect("valid");
    api.listen().await.expect("a port")
}

/// A directory with a configuration file.
pub(crate) struct ConfigFile {
    pub(crate) dir: TempDir,
    base_url: String,
}

impl ConfigFile {
    pub(crate) fn for_server(server: &Server) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let base_url = server.url();
        let file = Self { dir, base_url };
        file.write("");
        file
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("outflow.toml")
    }

    /// Renders a configuration that ends in these lines about the API.
    pub(crate) fn text(&self, more: &str) -> String {
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\ngrace = \"20s\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [apis.strict]\nbase_url = \"{}\"\nconcurrency = 1000\nlimits = [\"100000/s\"]\n{more}\n",
            self.base_url
        )
    }

    /// Replaces the file atomically, as editors and deployments do.
    pub(crate) fn write(&self, more: &str) {
        let new = self.dir.path().join("outflow.toml.new");
        std::fs::write(&new, self.text(more)).expect("written");
        std::fs::rename(new, self.path()).expect("renamed");
    }
}

/// A running program.
pub(crate) struct ReloadProcess {
    pub(crate) process: Process,
    pub(crate) calls: String,
    pub(crate) admin: String,
}

impl ReloadProcess {
    pub(crate) fn start(file: &ConfigFile) -> Self {
        let process = Process::start(command(file)).expect("the program starts");
        Self::announced(process)
    }

    fn announced(mut process: Process) -> Self {
        let mut announced = |word: &str| {
            let line = process.wait_for_line(word, PATIENCE).expect("announced");
            let url = line.split_whitespace().find(|part| part.starts_with("http"));
            url.expect("a URL").to_owned()
        };
        let calls = announced("calls").replace("/NAME/PATH", "");
        let admin = announced("operation");
        Self {
            process,
            calls,
            admin: admin.trim_end_matches('/').to_owned(),
        }
    }

    /// Waits for a line that contains this text.
    pub(crate) fn says(&mut self, text: &str) -> String {
        self.process.wait_for_line(text, PATIENCE).expect(text)
    }

    /// Builds a client that calls through the program without retries.
    pub(crate) fn caller(&self) -> Outflow {
        caller(&format!("{}/strict", self.calls))
    }

    pub(crate) async fn metrics(&self) -> String {
        let client = caller(&self.admin);
        let page = client.get(NAME, "/metrics").send().await.expect("a page");
        page.text().await.expect("text")
    }
}

pub(crate) fn command(file: &ConfigFile) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outflow"));
    command.arg("serve").arg("--config").arg(file.path());
    command
}

/// Builds a client of one API without limits and retries.
pub(crate) fn caller(base_url: &str) -> Outflow {
    let mut api = Api::new(NAME, base_url.parse().expect("a URL"));
    let settings = HealthSettings {
        concurrency: Some(10_000),
        ..HealthSettings::ADAPTIVE
    };
    api.rules = Rules {
        health: HealthConfig::new(settings).expect("they fit"),
        ..Rules::unlimited()
    };
    api.retry.count = 0;
    api.timeouts.attempt = PATIENCE;
    api.timeouts.read = PATIENCE;
    Outflow::builder().api(api).build().expect("valid")
}

pub(crate) const NAME: &str = "program";
