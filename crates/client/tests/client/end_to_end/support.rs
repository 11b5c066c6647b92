//! A strict API, a network in memory and clients between which only virtual time passes.

use std::sync::Arc;
use std::time::Duration;

use outflow::core::{HealthConfig, HealthSettings};
use outflow::{Api, IoStream, Outflow, OutflowBuilder, Response, Rules, UpstreamReport};
use outflow_mock::{Latency, MockApi, Server};
use outflow_testkit::{Background, LinkLatency, VirtualNet, VirtualTime};
use tokio::time::Instant;

/// A server at the other end of a network.
pub(crate) struct World {
    pub(crate) strict: MockApi,
    pub(crate) net: VirtualNet,
    server: Arc<Server>,
    _accepting: Background<()>,
}

impl World {
    /// A network on which every byte takes so long.
    pub(crate) fn new(strict: MockApi, way: Duration) -> Self {
        let net = VirtualNet::new(1, LinkLatency::from_delay(way));
        let server = Arc::new(strict.in_memory());
        let (door, serving) = (net.clone(), Arc::clone(&server));
        let accepting = Background::start(async move {
            loop {
                serving.serve_stream(door.accept().await);
            }
        });
        Self {
            strict,
            net,
            server,
            _accepting: accepting,
        }
    }

    /// A server five milliseconds away each way. The way is the server's own, so that its audit knows
    /// what crossed what.
    pub(crate) fn near(strict: outflow_mock::Builder) -> Self {
        let way = Latency::Fixed(Duration::from_millis(5));
        let strict = strict.delay(way, way).build().expect("valid");
        Self::new(strict, Duration::ZERO)
    }

    /// The API as this client knows it: no limit, and whatever is changed.
    pub(crate) fn api(&self, adapt: impl FnOnce(&mut Api)) -> Api {
        let mut api = Api::new("strict", self.server.url().parse().expect("a URL"));
        api.rules = Rules::unlimited();
        adapt(&mut api);
        api
    }

    /// A client that reaches the server over the network and nothing else.
    pub(crate) fn builder(&self, adapt: impl FnOnce(&mut Api)) -> OutflowBuilder {
        let net = self.net.clone();
        Outflow::builder()
            .api(self.api(adapt))
            .timer(Arc::new(VirtualTime::new()))
            .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
                let net = net.clone();
                Box::pin(async move {
                    let stream: Box<dyn IoStream> = Box::new(net.connect().await?);
                    Ok(stream)
                })
            }))
    }

    pub(crate) fn client(&self, adapt: impl FnOnce(&mut Api)) -> Outflow {
        self.builder(adapt).build().expect("valid")
    }
}

/// The usual machine with something changed.
pub(crate) fn health(adapt: impl FnOnce(&mut HealthSettings)) -> HealthConfig {
    changed(HealthSettings::ADAPTIVE, adapt)
}

/// The plain circuit breaker with something changed.
pub(crate) fn breaker(adapt: impl FnOnce(&mut HealthSettings)) -> HealthConfig {
    changed(HealthSettings::BREAKER, adapt)
}

fn changed(mut settings: HealthSettings, adapt: impl FnOnce(&mut HealthSettings)) -> HealthConfig {
    adapt(&mut settings);
    HealthConfig::new(settings).expect("valid")
}

/// How the one API of a client stands.
pub(crate) fn report(client: &Outflow) -> UpstreamReport {
    client.upstream("strict").expect("there").report()
}

pub(crate) fn in_flight(client: &Outflow) -> u32 {
    let report = report(client);
    report.health.iter().map(|health| health.in_flight).sum()
}

/// A call that ended, by the instants at which it began and ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) began: Duration,
    pub(crate) over: Duration,
    pub(crate) result: Result<Response, outflow::Error>,
}

impl Ended {
    pub(crate) fn is_good(&self) -> bool {
        matches!(&self.result, Ok(answer) if answer.status().is_success())
    }

    pub(crate) fn took(&self) -> Duration {
        self.over.saturating_sub(self.began)
    }
}

/// Calls that begin at an even pace, whatever becomes of those before them.
pub(crate) struct Load {
    client: Outflow,
    origin: Instant,
    calls: Vec<Background<Ended>>,
}

impl Load {
    pub(crate) fn on(client: &Outflow) -> Self {
        Self {
            client: client.clone(),
            origin: Instant::now(),
            calls: Vec::new(),
        }
    }

    /// So many calls a second for so long.
    pub(crate) async fn run(&mut self, per_second: u32, span: Duration) -> u64 {
        let (began, gap) = (Instant::now(), Duration::from_secs(1) / per_second);
        let mut started = 0;
        while began.elapsed() < span {
            self.start("/");
            started += 1;
            tokio::time::sleep_until(began + gap * started).await;
        }
        u64::from(started)
    }

    /// One call, now.
    pub(crate) fn start(&mut self, path: &str) {
        let call = self.client.get("strict", path);
        let origin = self.origin;
        self.calls.push(Background::start(async move {
            let began = origin.elapsed();
            let result = call.send().await;
            let over = origin.elapsed();
            Ended {
                began,
                over,
                result,
            }
        }));
    }

    /// All of them, in the order in which they began.
    pub(crate) async fn ended(self) -> Vec<Ended> {
        let mut ended = Vec::with_capacity(self.calls.len());
        for call in self.calls {
            ended.push(call.join().await);
        }
        ended
    }
}
