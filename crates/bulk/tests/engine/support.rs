//! A mock API, a client that calls it over pipes, a store in a directory, and an engine between them.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::AUTHORIZATION;
use outflow::core::{Clock, HealthConfig, HealthSettings, Nanos};
use outflow::metrics::Metrics;
use outflow::{Api, IoStream, Outflow, Rules};
use outflow_bulk::{Engine, EngineBuilder, EngineSettings, HttpCall, JobSpec, JobSubmission};
use outflow_mock::{CallerKey, Dialect, Latency, MockApi, Quota, Script};
use outflow_store::{
    ActionReport, ActionSpec, BatchPosition, EmbeddedStore, JobCounts, Name, StoreControl, TenantRule,
};
use outflow_testkit::{Background, VirtualTime};
use tempfile::TempDir;

/// Everything that a test needs.
pub(crate) struct World {
    pub(crate) mock: MockApi,
    pub(crate) time: VirtualTime,
    pub(crate) engine: Engine<EmbeddedStore>,
    pub(crate) metrics: Metrics,
    pub(crate) client: Outflow,
    _writer: Background<()>,
    _dir: TempDir,
}

/// Configuration of a test world.
pub(crate) struct Plan {
    pub(crate) mock: MockApi,
    pub(crate) rules: Rules,
    pub(crate) settings: EngineSettings,
    /// Further APIs of the client on the same server.
    pub(crate) others: Vec<(&'static str, Rules)>,
}

impl Plan {
    /// Returns a plan with an API that follows a script and limits nothing, and a client that knows this.
    pub(crate) fn scripted(script: Script) -> Self {
        let mock = MockApi::builder().script(script);
        Self {
            mock: by_caller(mock),
            rules: Rules::unlimited(),
            settings: EngineSettings::default(),
            others: Vec::new(),
        }
    }

    /// Returns a plan with an API that allows this rate, and a client that knows it.
    pub(crate) fn limited(rate: &str) -> Self {
        let mut plan = Self::scripted(Script::new());
        plan.mock.limit_to(shared(rate));
        plan.rules = Rules::with_limit(rate.parse().expect("a rate"));
        plan
    }

    /// Returns a plan with an API that allows this rate after a delay, and the defaults of a user who states the
    /// rate and nothing else.
    pub(crate) fn with_user_defaults(rate: &str, latency: Duration) -> Self {
        let mut plan = Self::limited(rate);
        plan.mock.delay(Latency::Fixed(latency), Latency::None);
        plan.rules = Rules::with_limit(rate.parse().expect("a rate"));
        plan
    }

    /// Returns a limited plan whose API also states its limit with every response.
    pub(crate) fn advertised(rate: &str) -> Self {
        let mut plan = Self::limited(rate);
        plan.mock = by_caller(MockApi::builder().dialect(Dialect::Ietf));
        plan.mock.limit_to(shared(rate));
        plan
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut EngineSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    pub(crate) async fn start(self) -> World {
        self.start_with(|builder| builder).await
    }

    pub(crate) async fn start_with(
        self,
        adapt: impl FnOnce(EngineBuilder<EmbeddedStore>) -> EngineBuilder<EmbeddedStore>,
    ) -> World {
        let time = VirtualTime::new();
        let client = client(&self.mock, (self.rules, self.others), &time);
        let dir = tempfile::tempdir().expect("a directory");
        let opened = EmbeddedStore::open(dir.path(), Arc::new(time.clone()));
        let (store, writer) = opened.expect("a store");
        let writer = Background::start(writer.run_here());
        let builder = Engine::builder(client.clone(), Arc::new(store))
            .settings(self.settings)
            .clock(Arc::new(time.clone()));
        let engine = adapt(builder).start().await.expect("it starts");
        let metrics = Metrics::new([]);
        metrics.append(engine.metrics());
        World {
            engine,
            metrics,
            mock: self.mock,
            time,
            client,
            _writer: writer,
            _dir: dir,
        }
    }
}

/// Builds an API that counts each caller separately.
pub(crate) fn by_caller(api: outflow_mock::Builder) -> MockApi {
    api.key(CallerKey::Header(AUTHORIZATION)).build().expect("valid")
}

/// Returns one quota for all callers together.
pub(crate) fn shared(rate: &str) -> Vec<Quota> {
    vec![Quota::sliding(rate.parse().expect("a rate")).shared()]
}

/// Sets the number of attempts in flight, where a test is about it.
pub(crate) fn in_flight(concurrency: u32, rules: Rules) -> Rules {
    let settings = HealthSettings {
        concurrency: Some(concurrency),
        ..HealthSettings::default()
    };
    Rules {
        health: HealthConfig::new(settings).expect("valid"),
        ..rules
    }
}

/// Builds a client of another process for the API.
pub(crate) fn client_of(mock: &MockApi, rules: Rules, time: &VirtualTime) -> Outflow {
    client(mock, (rules, Vec::new()), time)
}

fn client(mock: &MockApi, (rules, others): (Rules, Vec<(&str, Rules)>), time: &VirtualTime) -> Outflow {
    let server = Arc::new(mock.in_memory());
    let api = |name: &str, rules| {
        let mut api = Api::new(name, server.url().parse().expect("a URL"));
        api.rules = rules;
        api
    };
    let others = others.into_iter().map(|(name, rules)| api(name, rules));
    let apis = others.fold(Outflow::builder().api(api("mock", rules)), outflow::OutflowBuilder::api);
    apis.timer(Arc::new(time.clone()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let pipe: Box<dyn IoStream> = Box::new(server.connect());
            Box::pin(async move { Ok(pipe) })
        }))
        .build()
        .expect("valid")
}

impl World {
    /// Starts another engine on the same store.
    pub(crate) async fn another(&self) -> Engine<EmbeddedStore> {
        let store = Arc::clone(self.engine.store());
        let builder = Engine::builder(self.client.clone(), store)
            .settings(self.engine.settings().as_ref().clone())
            .clock(Arc::new(self.time.clone()));
        builder.start().await.expect("it starts")
    }

    pub(crate) fn now(&self) -> Nanos {
        self.time.now()
    }

    pub(crate) fn store(&self) -> &EmbeddedStore {
        self.engine.store()
    }

    pub(crate) async fn counts(&self) -> JobCounts {
        self.store().job_counts().await.expect("the store answers")
    }

    /// Submits jobs as one action, which is closed with them.
    pub(crate) async fn submit(&self, action: &str, jobs: Vec<JobSpec>) {
        let submission = JobSubmission {
            action: Some(ActionSpec {
                timeout: Duration::from_hours(10),
                ..ActionSpec::new(name(action))
            }),
            rest: BatchPosition::Last,
            jobs,
        };
        self.engine.submit(submission).await.expect("accepted");
    }

    /// Waits for the end of an action.
    pub(crate) async fn finished(&self, action: &str) -> ActionReport {
        let report = self.engine.wait_finished(&name(action)).await;
        report.expect("the store answers").expect("it is known")
    }

    /// Checks that the store's running counts equal a fresh count of its jobs.
    pub(crate) async fn assert_counts_match(&self) {
        assert_eq!(self.store().audit().await.expect("counted"), 0);
    }
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Returns a GET of a tenant, with the tenant's name in the path for the audit.
pub(crate) fn get(tenant: &str, number: usize) -> JobSpec {
    let mut call = HttpCall::new("mock", Method::GET, &format!("/{tenant}/{number}"));
    let key = format!("Bearer {tenant}").parse().expect("a header");
    call.headers.insert(AUTHORIZATION, key);
    JobSpec::call(name(tenant), call)
}

/// Returns this many of them.
pub(crate) fn gets(tenant: &str, count: usize) -> Vec<JobSpec> {
    (0..count).map(|number| get(tenant, number)).collect()
}

/// Returns the arrival times of a tenant's successful calls, since the first arrival of all.
pub(crate) fn arrivals(mock: &MockApi, tenant: &str) -> Vec<Duration> {
    let audit = mock.audit();
    let all = audit.arrivals();
    let first = all.first().map_or(Nanos::ZERO, |one| one.at);
    let path = format!("/{tenant}/");
    let own = all.iter().filter(|one| one.path.starts_with(&path));
    own.filter(|one| one.status == Some(200))
        .map(|one| one.at.since(first))
        .collect()
}

/// Returns the value of a series on the metrics page.
pub(crate) fn value(world: &World, series: &str) -> Option<f64> {
    let page = world.metrics.render();
    let line = page.lines().find(|line| {
        let rest = line.strip_prefix(series);
        rest.is_some_and(|rest| rest.starts_with(' '))
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
}

/// Returns a tenant rule with this rate.
pub(crate) fn rate_rule(rate: &str) -> TenantRule {
    TenantRule {
        rate: Some(rate.parse().expect("a rate")),
        ..TenantRule::default()
    }
}
