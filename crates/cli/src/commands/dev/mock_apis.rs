//! The APIs that `dev` calls: ours, strict, and counting.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context;
use outflow::Outflow;
use outflow::config::Source;
use outflow_core::{Rate, Share};
use outflow_mock::{Dialect, Latency, MockApi, MockResponse, Quota, Script, ScriptMatch, Server};

/// Three providers: one that is strict, one that is strict and fails now and then, and one that talks.
pub(super) struct MockApis {
    demo: Server,
    flaky: Server,
    chat: Server,
}

impl MockApis {
    /// Starts all of them on free ports.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let page = |rate| MockResponse::ok(format!("{{\"ok\":true,\"allowed\":\"{rate}\"}}\n"));
        let demo = provider(DEMO_RATE, page(DEMO_RATE), Script::new())?;
        let failing = ScriptMatch::always().by_chance(Share::percent(FAILING), SEED);
        let unwell = MockResponse::status(503).header("retry-after", "1");
        let unwell = Script::new().rule(failing, unwell);
        let flaky = provider(FLAKY_RATE, page(FLAKY_RATE), unwell)?;
        let chat = provider(CHAT_RATE, MockResponse::chat(), Script::new())?;
        Ok(Self {
            demo: demo.listen().await.context("no port is free")?,
            flaky: flaky.listen().await.context("no port is free")?,
            chat: chat.listen().await.context("no port is free")?,
        })
    }

    /// The configuration that a user would write for them.
    pub(super) fn config(&self, port: u16, admin_port: u16) -> Source {
        let [demo, flaky, chat] = self.all().map(|(_, server)| server.url());
        // Counted safely: the machine may be busy with other things, and a demonstration that is refused
        // once has shown the opposite.
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

    /// How it goes, on one line.
    pub(super) fn glance(&self, client: &Outflow) -> String {
        let mut line = String::new();
        for (name, server) in self.all() {
            let totals = server.api().totals();
            let door = client.upstream(name);
            let state = door.as_ref().map_or("gone", |door| {
                let target = door.route(&http::Method::GET, "/");
                door.state(target).name()
            });
            let waiting = door.map_or(0, |door| door.report().waiting);
            let (seen, refused) = (totals.seen, totals.refused);
            // Writing to a string cannot fail.
            let _whole = write!(
                line,
                "{name}: {state}, {seen} sent, {waiting} waiting, {refused} refused   "
            );
        }
        line
    }

    /// What each of them saw, from its side.
    pub(super) fn summary(&self) -> String {
        let mut text = String::new();
        for (name, server) in self.all() {
            let totals = server.api().totals();
            let most = server.api().audit().most_in_any_window(SECOND);
            let rate = match name {
                "flaky" => FLAKY_RATE,
                "chat" => CHAT_RATE,
                _ => DEMO_RATE,
            };
            // Writing to a string cannot fail.
            let _whole = writeln!(
                text,
                "{name} allows {rate}: it saw {} calls, at most {most} in any second, and refused {}",
                totals.seen, totals.refused
            );
        }
        text
    }

    /// All of them, by name.
    pub(super) fn all(&self) -> [(&'static str, &Server); 3] {
        [
            ("demo", &self.demo),
            ("flaky", &self.flaky),
            ("chat", &self.chat),
        ]
    }
}

fn provider(rate: &str, page: MockResponse, script: Script) -> anyhow::Result<MockApi> {
    let rate: Rate = rate.parse().context("the rate is one of ours")?;
    let way = Latency::Fixed(Duration::from_millis(ONE_WAY));
    let api = MockApi::builder()
        .limit(Quota::sliding(rate))
        .dialect(Dialect::Ietf)
        .delay(way, way)
        .answer("/**", page)
        .script(script)
        .remembering(REMEMBERED)
        .build();
    api.context("the API has no routes that could be missing")
}

/// Little enough that thirty calls by hand are already too many.
const DEMO_RATE: &str = "10/s";

/// Of the above, for whoever names this group: the rest stays for the others.
const BULK_RATE: &str = "5/s";

const FLAKY_RATE: &str = "5/s";

const CHAT_RATE: &str = "10/s";

/// Two questions of four hundred, as the recipes ask them; the third is told to come back, and that soon.
const CHAT_TOKENS: &str = "1000/10s";

/// Percent: enough to see the state change within a minute, and to see it come back.
const FAILING: u32 = 25;

/// The same failures in each run.
const SEED: u64 = 7;

/// Milliseconds, as to a server in the same country.
const ONE_WAY: u64 = 15;

/// An hour of both at full speed.
const REMEMBERED: usize = 50_000;

const SECOND: Duration = Duration::from_secs(1);
