//! A server in virtual time, and the client that a user has built for it.

use std::sync::Arc;
use std::time::Duration;

use outflow::event::EventKind;
use outflow::{Event, Events, IoStream, Observer, Outflow};
use outflow_core::{Nanos, Rate, Share};
use outflow_mock::{Dialect, Latency, MockApi, Quota, RetryAfterForm, Server};
use outflow_sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::call_log::{CallLog, RunRecord};
use super::load;
use super::plan::RecoveryPlan;
use super::scenario::RecoveryScenario;
use super::user_config::UserConfig;
use crate::{Background, LinkLatency, NetConditions, VirtualNet, VirtualTime};

/// Client and server of one run. Its time begins when it is built.
pub struct RecoveryBed {
    /// The server.
    pub mock: MockApi,
    /// The client, which knows the address and the limits.
    pub client: Outflow,
    pub(super) net: VirtualNet,
    pub(super) log: Arc<Mutex<CallLog>>,
    pub(super) origin: Instant,
    pub(super) server_origin: Nanos,
    _accepting: Background<()>,
    _trouble: Background<()>,
}

impl RecoveryBed {
    /// Builds client and server, and lets the scenario begin.
    ///
    /// # Panics
    /// If the configuration is not valid.
    #[expect(clippy::expect_used, reason = "a scenario that cannot be built must end at once")]
    pub fn start(plan: &RecoveryPlan) -> Self {
        fastrand::seed(plan.seed);
        let origin = Instant::now();
        let world = ServerWorld::build(plan);
        let server = Arc::new(world.mock.in_memory());
        let log = Arc::new(Mutex::new(CallLog::default()));
        let builder = user_client(&plan.config, &server.url(), &world.net, &log, origin);
        let (mock, net) = (world.mock.clone(), world.net.clone());
        Self {
            client: builder.expect("a client"),
            server_origin: mock.now(),
            _accepting: accept(&net, server),
            _trouble: world.live_through(plan.scenario.clone(), origin),
            mock,
            net,
            log,
            origin,
        }
    }

    /// Starts so many workers, which call again and again.
    pub fn start_workers(&self, count: usize) -> Vec<Background<()>> {
        load::workers(self, count)
    }

    /// Returns what happened so far.
    pub fn record(&self) -> RunRecord {
        RunRecord::collect(self)
    }

    /// Waits until so much time has passed since the beginning.
    pub async fn reaches(&self, at: Duration) {
        sleep_until(self.origin + at).await;
    }
}

fn accept(net: &VirtualNet, server: Arc<Server>) -> Background<()> {
    let listener = net.clone();
    Background::start(async move {
        loop {
            server.serve_stream(listener.accept().await);
        }
    })
}

/// Builds the client from the text of its configuration.
fn user_client(
    config: &UserConfig,
    url: &str,
    net: &VirtualNet,
    log: &Arc<Mutex<CallLog>>,
    origin: Instant,
) -> Result<Outflow, outflow::InvalidClient> {
    let events = Events::new();
    let watched = Arc::clone(log);
    events.subscribe(Arc::new(HealthObserver { log: watched, origin }));
    let (net, log) = (net.clone(), Arc::clone(log));
    let connect = move |_: &str, _: u16| -> outflow::Connecting {
        let (net, log) = (net.clone(), Arc::clone(&log));
        Box::pin(async move {
            let connected = net.connect().await;
            if connected.is_err() {
                log.lock().unconnected.push(origin.elapsed());
            }
            let stream: Box<dyn IoStream> = Box::new(connected?);
            Ok(stream)
        })
    };
    let builder = Outflow::builder()
        .events(events)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(connect));
    let apis = config.read(url).into_iter();
    apis.fold(builder, outflow::OutflowBuilder::api).build()
}

/// Records changes of health and of limits.
struct HealthObserver {
    log: Arc<Mutex<CallLog>>,
    origin: Instant,
}

impl Observer for HealthObserver {
    fn observe(&self, event: &Event) {
        let at = self.origin.elapsed();
        match &event.what {
            EventKind::Moved { transition, .. } => self.log.lock().moves.push((at, *transition)),
            EventKind::Drifting { drift, .. } => self.log.lock().drifts.push((at, *drift)),
            _ => {}
        }
    }
}

/// The server's side: limits, latency and network.
struct ServerWorld {
    mock: MockApi,
    net: VirtualNet,
    rates: Vec<Rate>,
    latency: Duration,
    jitter: Duration,
}

impl ServerWorld {
    #[expect(clippy::expect_used, reason = "a server without routes is always valid")]
    fn build(plan: &RecoveryPlan) -> Self {
        let rates = plan.server_rates();
        let mut builder = MockApi::builder()
            .refusing(429, RetryAfterForm::Nothing)
            .script(plan.scenario.script(plan.seed))
            .seed(plan.seed);
        if plan.scenario.sends_headers {
            builder = builder.dialect(Dialect::Ietf);
        }
        let world = Self {
            mock: builder.build().expect("valid"),
            net: VirtualNet::new(plan.seed, LinkLatency::default()),
            rates,
            latency: plan.latency,
            jitter: plan.jitter,
        };
        world.apply(&plan.scenario, Duration::ZERO);
        world.allow(plan.scenario.capacity(Duration::ZERO));
        world
    }

    /// Changes limits, latency and network at their instants.
    fn live_through(self, scenario: RecoveryScenario, origin: Instant) -> Background<()> {
        Background::start(async move {
            let mut allowed = scenario.capacity(Duration::ZERO);
            for at in scenario.changes() {
                sleep_until(origin + at).await;
                self.apply(&scenario, at);
                // Other limits begin unused, so equal ones are left alone.
                if scenario.capacity(at) != allowed {
                    allowed = scenario.capacity(at);
                    self.allow(allowed);
                }
            }
        })
    }

    fn apply(&self, scenario: &RecoveryScenario, at: Duration) {
        let longest = MAX_ANSWER.max(self.latency);
        let way = (self.latency * scenario.slowness(at)).min(longest) / 2;
        let way = Latency::Uniform(way, way + self.jitter);
        self.mock.delay(way, way);
        if scenario.is_refusing(at) {
            self.net.set_conditions(NetConditions::Refusing);
            self.net.reset_all();
        } else {
            self.net.set_conditions(NetConditions::Clear);
        }
    }

    /// Allows this share of the limits, rounded down to whole calls.
    fn allow(&self, share: Share) {
        let part = u64::from(share.as_parts_per_million());
        let quotas = self.rates.iter().enumerate().filter_map(|(index, rate)| {
            let quantity = (rate.quantity() * part / MILLION).max(1);
            let rate = Rate::new(quantity, rate.per()).ok()?;
            Some(Quota::sliding(rate).named(&format!("limit{index}")))
        });
        self.mock.limit_to(quotas.collect());
    }
}

/// An answer that takes longer than an attempt is a hang, which is another scenario.
const MAX_ANSWER: Duration = Duration::from_secs(8);

/// Random addition to each way.
pub(super) const JITTER: Duration = Duration::from_millis(5);

const MILLION: u64 = 1_000_000;
