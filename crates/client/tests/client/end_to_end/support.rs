//! A mock API, an in-memory network and clients that run in virtual time.

use std::sync::Arc;
use std::time::Duration;

use outflow::core::{HealthConfig, HealthSettings};
use outflow::{Api, IoStream, Outflow, OutflowBuilder, Response, Rules, UpstreamReport};
use outflow_mock::{Latency, MockApi, Server};
use outflow_testkit::{Background, LinkLatency, VirtualNet, VirtualTime};
use tokio::time::Instant;

/// A server at the other end of a network.
pub(crate) struct TestBed {
    pub(crate) mock: MockApi,
    pub(crate) net: VirtualNet,
    server: Arc<Server>,
    _accepting: Background<()>,
}

impl TestBed {
    /// Connects a server over a network with this latency.
    pub(crate) fn new(mock: MockApi, latency: Duration) -> Self {
        let net = VirtualNet::new(1, LinkLatency::from_delay(latency));
        let server = Arc::new(mock.in_memory());
        let (listener, serving) = (net.clone(), Arc::clone(&server));
        let accepting = Background::start(async move {
            loop {
                serving.serve_stream(listener.accept().await);
            }
        });
        Self {
            mock,
            net,
            server,
            _accepting: accepting,
        }
    }

    /// Connects a server five milliseconds away each way. The latency is the server's own, so that
    /// its audit knows the crossing requests.
    pub(crate) fn near(mock: outflow_mock::Builder) -> Self {
        let way = Latency::Fixed(Duration::from_millis(5));
        let mock = mock.delay(way, way).build().expect("valid");
        Self::new(mock, Duration::ZERO)
    }

    /// Returns the API as this client knows it: without limits, adapted by the test.
    pub(crate) fn api(&self, adapt: impl FnOnce(&mut Api)) -> Api {
        let mut api = Api::new("strict", self.server.url().parse().expect("a URL"));
        api.rules = Rules::unlimited();
        adapt(&mut api);
        api
    }

    /// Builds a client that reaches the server only over this network.
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

/// Adapts the default health machine.
pub(crate) fn health(adapt: impl FnOnce(&mut HealthSettings)) -> HealthConfig {
    let mut settings = HealthSettings::ADAPTIVE;
    adapt(&mut settings);
    HealthConfig::new(settings).expect("valid")
}

/// Returns the report of a client's only API.
pub(crate) fn report(client: &Outflow) -> UpstreamReport {
    client.upstream("strict").expect("there").report()
}

pub(crate) fn in_flight(client: &Outflow) -> u32 {
    let report = report(client);
    report.health.iter().map(|health| health.in_flight).sum()
}

/// A finished call, with the instants of its start and end.
#[derive(Debug)]
pub(crate) struct EndedCall {
    pub(crate) began: Duration,
    pub(crate) over: Duration,
    pub(crate) result: Result<Response, outflow::Error>,
}

impl EndedCall {
    pub(crate) fn is_good(&self) -> bool {
        matches!(&self.result, Ok(response) if response.status().is_success())
    }

    pub(crate) fn took(&self) -> Duration {
        self.over.saturating_sub(self.began)
    }
}

/// Calls that start at an even pace, independent of earlier results.
pub(crate) struct CallLoad {
    client: Outflow,
    origin: Instant,
    calls: Vec<Background<EndedCall>>,
}

impl CallLoad {
    pub(crate) fn on(client: &Outflow) -> Self {
        Self {
            client: client.clone(),
            origin: Instant::now(),
            calls: Vec::new(),
        }
    }

    /// Starts this many calls a second for a span, and returns their number.
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

    /// Starts one call now.
    pub(crate) fn start(&mut self, path: &str) {
        let call = self.client.get("strict", path);
        let origin = self.origin;
        self.calls.push(Background::start(async move {
            let began = origin.elapsed();
            let result = call.send().await;
            let over = origin.elapsed();
            EndedCall { began, over, result }
        }));
    }

    /// Returns all results, in the order of their starts.
    pub(crate) async fn ended(self) -> Vec<EndedCall> {
        let mut ended = Vec::with_capacity(self.calls.len());
        for call in self.calls {
            ended.push(call.join().await);
        }
        ended
    }
}
