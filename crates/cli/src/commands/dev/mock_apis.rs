//! Mock APIs of `dev`.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context;
use outflow::Outflow;
use outflow::config::Source;
use outflow_core::{Rate, Share};
use outflow_mock::{Dialect, Latency, MockApi, MockResponse, Quota, Script, ScriptMatch, Server};

/// Three mock APIs: a strict one, a strict one with random failures, and a chat API.
pub(super) struct MockApis {
    pub(super) all: [NamedApi; 3],
}

/// One mock API.
pub(super) struct NamedApi {
    pub(super) name: &'static str,
    rate: &'static str,
    pub(super) server: Server,
}

impl MockApis {
    /// Starts all APIs on free ports.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let page = |rate| MockResponse::ok(format!("{{\"ok\":true,\"allowed\":\"{rate}\"}}\n"));
        let failing = ScriptMatch::always().by_chance(Share::percent(FAILING), SEED);
        let failure = MockResponse::status(503).header("retry-after", "1");
        let script = Script::new().rule(failing, failure);
        let all = [
            NamedApi::start("demo", DEMO_RATE, page(DEMO_RATE), Script::new()).await?,
            NamedApi::start("flaky", FLAKY_RATE, page(FLAKY_RATE), script).await?,
            NamedApi::start("chat", CHAT_RATE, MockResponse::chat(), Script::new()).await?,
        ];
        Ok(Self { all })
    }

    /// Returns a configuration as a user would write it for these APIs.
    pub(super) fn config(&self, port: u16, admin_port: u16) -> Source {
        let [demo, flaky, chat] = self.all.each_ref().map(|api| api.server.url());
        // Safe accounting: on a busy machine, one throttled call would spoil the demonstration.
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:{port}\"\ngrace = \"500ms\"\n\n\
             [admin]\nlisten = \"127.0.0.1:{admin_port}\"\n\n\
             [log]\nlevel = \"off\"\n\n\
             [apis.demo]\nbase_url = \"{demo}\"\n\
             limits = [{{ rate = \"{DEMO_RATE}\", accounting = \"safe\" }}]\n\
             groups.bulk.limits = [{{ rate = \"{BULK_RATE}\", accounting = \"safe\" }}]\n\n\
             [apis.flaky]\nbase_url = \"{flaky}\"\n\
             limits = [{{ rate = \"{FLAKY_RATE}\", accounting = \"safe\" }}]\n\n\
             [apis.chat]\nbase_url = \"{chat}\"\n\
             limits = [\n\
             \x20   {{ rate = \"{CHAT_RATE}\", counts = \"calls\", accounting = \"safe\" }},\n\
             \x20   {{ rate = \"{CHAT_TOKENS}\", counts = \"tokens\" }},\n]\n"
        );
        Source::new("dev", text)
    }

    /// Formats the state of all APIs as one line.
    pub(super) fn status_line(&self, client: &Outflow) -> String {
        let mut line = String::new();
        for NamedApi { name, server, .. } in &self.all {
            let totals = server.api().totals();
            let upstream = client.upstream(name);
            let state = upstream.as_ref().map_or("gone", |upstream| {
                let target = upstream.route(&http::Method::GET, "/");
                upstream.state(target).name()
            });
            let waiting = upstream.map_or(0, |upstream| upstream.report().waiting);
            let (seen, refused) = (totals.seen, totals.refused);
            // Writing to a string cannot fail.
            let _infallible = write!(
                line,
                "{name}: {state}, {seen} sent, {waiting} waiting, {refused} refused   "
            );
        }
        line
    }

    /// Formats the calls that each API counted.
    pub(super) fn summary(&self) -> String {
        let mut text = String::new();
        for NamedApi { name, rate, server } in &self.all {
            let totals = server.api().totals();
            let peak = server.api().audit().most_in_any_window(SECOND);
            // Writing to a string cannot fail.
            let _infallible = writeln!(
                text,
                "{name} allows {rate}: it saw {} calls, at most {peak} in any second, and throttled {}",
                totals.seen, totals.refused
            );
        }
        text
    }
}

impl NamedApi {
    async fn start(name: &'static str, rate: &'static str, page: MockResponse, script: Script) -> anyhow::Result<Self> {
        let limit: Rate = rate.parse().context("the rate is a constant")?;
        let way = Latency::Fixed(Duration::from_millis(ONE_WAY));
        let api = MockApi::builder()
            .limit(Quota::sliding(limit))
            .dialect(Dialect::Ietf)
            .delay(way, way)
            .answer("/**", page)
            .script(script)
            .remembering(REMEMBERED)
            .build();
        let server = api.context("the routes are constants")?.listen().await;
        let server = server.context("no port is free")?;
        Ok(Self { name, rate, server })
    }
}

/// Thirty manual calls exceed it.
const DEMO_RATE: &str = "10/s";

/// Rate of the group `bulk`; the rest stays for other calls.
const BULK_RATE: &str = "5/s";

const FLAKY_RATE: &str = "5/s";

const CHAT_RATE: &str = "10/s";

/// Two prompts of 400 tokens, as in the recipes; the third call waits, but not for long.
const CHAT_TOKENS: &str = "1000/10s";

/// Percent: health changes and recovers within a minute.
const FAILING: u32 = 25;

/// Every run has the same failures.
const SEED: u64 = 7;

/// Milliseconds, as to a server in the same country.
const ONE_WAY: u64 = 15;

/// One hour of both at full rate.
const REMEMBERED: usize = 50_000;

const SECOND: Duration = Duration::from_secs(1);
