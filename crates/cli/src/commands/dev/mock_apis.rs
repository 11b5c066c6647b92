//! Mock APIs of `dev`.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context;
use http::header::AUTHORIZATION;
use outflow::Outflow;
use outflow::config::{Environment, Source};
use outflow_core::{Rate, Share};
use outflow_mock::{Builder, Dialect, Latency, MockApi, MockResponse, Quota, Script, ScriptMatch, Server, TokenCount};

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
        let all = [
            NamedApi::start("demo", DEMO_RATE, demo()?).await?,
            NamedApi::start("flaky", FLAKY_RATE, flaky()?).await?,
            NamedApi::start("chat", CHAT_RATE, chat()?).await?,
        ];
        Ok(Self { all })
    }

    /// Returns the environment of that configuration: the key of the chat API.
    pub(super) fn environment() -> Environment {
        Environment::from_iter([(CHAT_VARIABLE, CHAT_KEY)])
    }

    /// Returns a configuration as a user would write it for these APIs.
    pub(super) fn config(&self, port: u16, admin_port: u16) -> Source {
        let urls = self.all.each_ref().map(|api| api.server.url());
        config(&urls, port, admin_port)
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
    async fn start(name: &'static str, rate: &'static str, builder: Builder) -> anyhow::Result<Self> {
        let server = builder.build().context("the routes are constants")?.listen().await;
        let server = server.context("no port is free")?;
        Ok(Self { name, rate, server })
    }
}

/// Writes the configuration of the APIs at these addresses.
fn config(urls: &[String; 3], port: u16, admin_port: u16) -> Source {
    let [demo, flaky, chat] = urls;
    // Safe accounting: on a busy machine, one throttled call would spoil the demonstration.
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:{port}\"\ngrace = \"500ms\"\n\n\
         [admin]\nlisten = \"127.0.0.1:{admin_port}\"\n\n[shared]\nlimits = \"off\"\n\n\
         [log]\nlevel = \"off\"\n\n\
         [apis.demo]\nbase_url = \"{demo}\"\n\
         limits = [{{ rate = \"{DEMO_RATE}\", accounting = \"safe\" }}]\n\
         groups.bulk.limits = [{{ rate = \"{BULK_RATE}\", accounting = \"safe\" }}]\n\n\
         [apis.flaky]\nbase_url = \"{flaky}\"\n\
         limits = [{{ rate = \"{FLAKY_RATE}\", accounting = \"safe\" }}]\n\n\
         [apis.chat]\nbase_url = \"{chat}\"\napi_key_env = \"{CHAT_VARIABLE}\"\n\
         limits = [\n\
         \x20   {{ rate = \"{CHAT_RATE}\", counts = \"calls\", accounting = \"safe\" }},\n\
         \x20   {{ rate = \"{CHAT_TOKENS}\", counts = \"tokens\" }},\n]\n\
         routes = [{{ path = \"/chat/completions\", group = \"default\", cost = {CHAT_COST} }}]\n"
    );
    Source::new("dev", text)
}

/// Builds an API that allows a rate and nothing above.
fn demo() -> anyhow::Result<Builder> {
    Ok(common(page(DEMO_RATE)).limit(quota(DEMO_RATE)?).dialect(Dialect::Ietf))
}

/// Builds an API that fails at random.
fn flaky() -> anyhow::Result<Builder> {
    let failing = ScriptMatch::always().by_chance(Share::percent(FAILING), SEED);
    let failure = MockResponse::status(503).header("retry-after", "1");
    let script = Script::new().rule(failing, failure);
    let api = common(page(FLAKY_RATE)).limit(quota(FLAKY_RATE)?);
    Ok(api.dialect(Dialect::Ietf).script(script))
}

/// Builds an API that counts calls and the tokens that it used, and knows one key. What a call asks for is in its body,
/// which Outflow does not read: the longest completion would be throttled, or never fit.
fn chat() -> anyhow::Result<Builder> {
    let api = common(MockResponse::chat())
        .limit(quota(CHAT_RATE)?.counting_calls())
        .limit(quota(CHAT_TOKENS)?.named("tokens"))
        .counting_tokens(TokenCount::Used)
        .requiring(AUTHORIZATION, &format!("Bearer {CHAT_KEY}"));
    Ok(api.dialect(Dialect::OpenAi))
}

fn common(page: MockResponse) -> Builder {
    let way = Latency::Fixed(Duration::from_millis(ONE_WAY));
    let api = MockApi::builder().delay(way, way).answer("/**", page);
    api.remembering(REMEMBERED)
}

fn page(rate: &str) -> MockResponse {
    MockResponse::ok(format!("{{\"ok\":true,\"allowed\":\"{rate}\"}}\n"))
}

fn quota(rate: &str) -> anyhow::Result<Quota> {
    let rate: Rate = rate.parse().context("the rate is a constant")?;
    Ok(Quota::sliding(rate))
}

/// Thirty manual calls exceed it.
const DEMO_RATE: &str = "10/s";

/// Rate of the group `bulk`; the rest stays for other calls.
const BULK_RATE: &str = "5/s";

const FLAKY_RATE: &str = "5/s";

const CHAT_RATE: &str = "10/s";

/// More than a short question and its completion use, so that a call without `Outflow-Cost` is never throttled.
const CHAT_COST: u32 = 100;

/// Two prompts of 400 tokens, as in the recipes; the third call waits, but not for long.
const CHAT_TOKENS: &str = "1000/10s";

/// Variable of the key that only Outflow has: a call past it gets 401.
const CHAT_VARIABLE: &str = "CHAT_API_KEY";

const CHAT_KEY: &str = "key-of-outflow-dev";

/// Percent: health changes and recovers within a minute.
const FAILING: u32 = 25;

/// Every run has the same failures.
const SEED: u64 = 7;

/// Milliseconds, as to a server in the same country.
const ONE_WAY: u64 = 15;

/// One hour of both at full rate.
const REMEMBERED: usize = 50_000;

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
