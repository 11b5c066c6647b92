//! `outflow upstream`: the strict API as a program, to try anything against.
//!
//! It counts each request as it arrives and shares no meter with what it judges. What it saw is told at
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
use outflow_mock::{
    Dialect, Latency, MockApi, MockResponse, Quota, Script, ScriptMatch, Server, Tls,
};
use tokio::net::TcpListener;

use self::summary::MockSummary;
use crate::exit::Exit;
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, answer_json, say, show};

/// Runs a strict API that enforces limits to the letter and counts what it saw.
#[derive(Args)]
#[command(after_help = flags::FORMS)]
pub(crate) struct MockCommand {
    /// A limit; may be given several times.
    #[arg(long, value_name = "LIMIT", default_value = "10/s", value_parser = flags::quota)]
    limit: Vec<Quota>,
    /// How long a request takes to it, and an answer back.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = read_duration)]
    latency: Duration,
    /// How much longer either may take, evenly spread.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = read_duration)]
    jitter: Duration,
    /// How many answers are failures, such as 5%.
    #[arg(long, value_name = "SHARE", value_parser = read_share)]
    fail: Option<Share>,
    /// The status of those failures.
    #[arg(long, value_name = "STATUS", default_value_t = 503, value_parser = clap::value_parser!(u16).range(400..600))]
    fail_status: u16,
    /// Tell how the limits stand in these headers; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = flags::dialect)]
    dialect: Vec<Dialect>,
    /// Answer questions at `/chat/completions` as a language model does.
    #[arg(long)]
    chat: bool,
    /// Where it listens on this machine; 0 is any free port.
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    port: u16,
    /// Serve behind TLS, and write the certificate of its authority to this file.
    #[arg(long, value_name = "FILE")]
    tls: Option<PathBuf>,
    /// Where the dice begin, for delays and failures.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Say at the end what was seen.
    #[arg(long)]
    audit: bool,
    /// Say it as one JSON document.
    #[arg(long)]
    json: bool,
}

impl MockCommand {
    /// Serves until it is told to stop.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let runtime = tokio::runtime::Runtime::new().context("no runtime can be started")?;
        runtime.block_on(async {
            let mut interrupt = ShutdownSignals::listen()?;
            let server = self.serve().await?;
            let limits: Vec<_> = self.limit.iter().map(flags::named).collect();
            say!(
                "{} at {} allows {}",
                terminal.strong("strict API"),
                server.url(),
                limits.join(" and ")
            );
            interrupt.wait().await;
            self.conclude(server.api())
        })
    }

    async fn serve(&self) -> anyhow::Result<Server> {
        let api = self.api()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await;
        let listener = listener.with_context(|| {
            format!(
                "port {} cannot be listened on: name another with `--port`",
                self.port
            )
        })?;
        let Some(file) = &self.tls else {
            return Ok(api.serve(listener)?);
        };
        let server = api.serve_tls(listener, Tls::Good)?;
        let written = std::fs::write(file, server.ca_pem().unwrap_or_default());
        written.with_context(|| format!("`{}` cannot be written", file.display()))?;
        Ok(server)
    }

    fn api(&self) -> anyhow::Result<MockApi> {
        let way = if self.jitter.is_zero() {
            Latency::Fixed(self.latency)
        } else {
            Latency::Uniform(self.latency, self.latency + self.jitter)
        };
        let mut builder = MockApi::builder()
            .delay(way, way)
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
        builder.build().context("the API cannot be built")
    }

    fn conclude(&self, api: &MockApi) -> anyhow::Result<Exit> {
        let seen = MockSummary::new(api, &self.limit);
        if self.json {
            answer_json(&seen.json())?;
        } else if self.audit {
            show(&seen);
        }
        Ok(Exit::Done)
    }
}

/// Below a version, or not: libraries are told either as their base.
const CHAT: [&str; 2] = ["/chat/completions", "/v1/chat/completions"];

/// Enough for an hour of a thousand a minute; totals are never forgotten.
const REMEMBERED: usize = 100_000;
