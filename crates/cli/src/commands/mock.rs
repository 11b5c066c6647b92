//! `outflow mock`: the mock API as a program.
//!
//! It counts each request on arrival and shares no meter with the program under test. The audit is printed at
//! its end.

mod flags;
mod summary;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use outflow::config::{read_duration, read_share};
use outflow_core::Share;
use outflow_mock::{Dialect, Latency, MockApi, MockResponse, Quota, Script, ScriptMatch, Server, Tls};
use tokio::net::TcpListener;

use self::summary::MockSummary;
use crate::exit::Exit;
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, answer_json, say, show};

/// Run a mock API that enforces limits exactly and counts all requests.
#[derive(Args)]
#[command(after_help = flags::FORMS)]
pub(crate) struct MockCommand {
    /// Enforce this limit; repeat for several.
    #[arg(long, value_name = "LIMIT", default_value = "10/s", value_parser = flags::quota)]
    limit: Vec<Quota>,
    /// Delay each request and each response by this time.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = read_duration)]
    latency: Duration,
    /// Add a random delay up to this time to both.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = read_duration)]
    jitter: Duration,
    /// Answer this share of requests with a failure, such as 5%.
    #[arg(long, value_name = "SHARE", value_parser = read_share)]
    fail: Option<Share>,
    /// Use this status for failures.
    #[arg(long, value_name = "STATUS", default_value_t = 503, value_parser = clap::value_parser!(u16).range(400..600))]
    fail_status: u16,
    /// Report the limits in headers of this dialect; repeat for several.
    #[arg(long, value_name = "NAME", value_parser = flags::dialect)]
    dialect: Vec<Dialect>,
    /// Answer `/chat/completions` as a language model does.
    #[arg(long)]
    chat: bool,
    /// Listen on this port of this machine; 0 picks a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    port: u16,
    /// Serve TLS, and write the CA certificate to this file.
    #[arg(long, value_name = "FILE")]
    tls: Option<PathBuf>,
    /// Seed the random delays and failures.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the audit at the end.
    #[arg(long)]
    audit: bool,
    /// Print the audit as one JSON document.
    #[arg(long)]
    json: bool,
}

impl MockCommand {
    /// Serves until a shutdown signal.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        runtime.block_on(async {
            let mut signals = ShutdownSignals::listen()?;
            let server = self.serve().await?;
            let limits: Vec<_> = self.limit.iter().map(flags::format_limit).collect();
            say!(
                "{} at {} allows {}",
                terminal.strong("mock API"),
                server.url(),
                limits.join(" and ")
            );
            signals.wait().await;
            self.print_audit(server.api())
        })
    }

    async fn serve(&self) -> anyhow::Result<Server> {
        let api = self.api()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await;
        let listener =
            listener.with_context(|| format!("cannot listen on port {}: choose another with `--port`", self.port))?;
        let Some(file) = &self.tls else {
            return Ok(api.serve(listener)?);
        };
        let server = api.serve_tls(listener, Tls::Good)?;
        let written = std::fs::write(file, server.ca_pem().unwrap_or_default());
        written.with_context(|| format!("cannot write `{}`", file.display()))?;
        Ok(server)
    }

    fn api(&self) -> anyhow::Result<MockApi> {
        let delay = if self.jitter.is_zero() {
            Latency::Fixed(self.latency)
        } else {
            Latency::Uniform(self.latency, self.latency + self.jitter)
        };
        let mut builder = MockApi::builder()
            .delay(delay, delay)
            .seed(self.seed)
            .remembering(REMEMBERED);
        if self.chat {
            for path in CHAT {
                builder = builder.answer(path, MockResponse::chat());
            }
        }
        for quota in &self.limit {
            builder = builder.limit(quota.clone());
        }
        for dialect in &self.dialect {
            builder = builder.dialect(*dialect);
        }
        if let Some(share) = self.fail {
            let when = ScriptMatch::always().by_chance(share, self.seed);
            let rule = Script::new().rule(when, MockResponse::status(self.fail_status));
            builder = builder.script(rule);
        }
        builder.build().context("cannot build the API")
    }

    fn print_audit(&self, api: &MockApi) -> anyhow::Result<Exit> {
        let summary = MockSummary::new(api, &self.limit);
        if self.json {
            answer_json(&summary.json())?;
        } else if self.audit {
            show(&summary);
        }
        Ok(Exit::Done)
    }
}

/// With and without a version: client libraries use either as their base URL.
const CHAT: [&str; 2] = ["/chat/completions", "/v1/chat/completions"];

/// One hour of a thousand requests a minute. Totals are never dropped.
const REMEMBERED: usize = 100_000;
