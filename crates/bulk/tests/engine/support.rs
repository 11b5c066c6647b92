//! A strict API, a client that calls it over pipes, a store in a directory, and an engine between them.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::AUTHORIZATION;
use outflow::core::{Clock, HealthConfig, HealthSettings, Nanos};
use outflow::metrics::Metrics;
use outflow::{Api, IoStream, Outflow, Rules};
use outflow_bulk::{Engine, EngineBuilder, EngineSettings, HttpCall, JobSpec, JobSubmission};
use outflow_mock::{CallerKey, Dialect, MockApi, Quota, Script};
use outflow_store::{
    ActionReport, ActionSpec, BatchPosition, EmbeddedStore, JobCounts, Name, StoreControl,
    TenantRule,
};
use outflow_testkit::{Background, VirtualTime};
use tempfile::TempDir;

/// Everything that a test needs.
pub(crate) struct World {
    pub(crate) strict: MockApi,
    pub(crate) time: VirtualTime,
    pub(crate) engine: Engine<EmbeddedStore>,
    pub(crate) metrics: Metrics,
    pub(crate) client: Outflow,
    _writer: Background<()>,
    _dir: TempDir,
}

/// How a world is made.
pub(crate) struct Plan {
    pub(crate) strict: MockApi,
    pub(crate) rules: Rules,
    pub(crate) settings: EngineSettings,
    /// Names under which the client knows the same server besides, without any limit.
    pub(crate) also: Vec<&'static str>,
}

impl Plan {
    /// An API that follows a script and limits nothing, and a client that knows that.
    pub(crate) fn scripted(script: Script) -> Self {
        let strict = MockApi::builder().script(script);
        Self {
            strict: by_caller(strict),
            rules: crowded(Rules::unlimited()),
            settings: EngineSettings::default(),
            also: Vec::new(),
        }
    }

    /// An API that allows so much, and a client that knows it.
    pub(crate) fn limited(rate: &str) -> Self {
        let mut plan = Self::scripted(Script::new());
        plan.strict.limit_to(shared(rate));
        plan.rules = crowded(Rules::with_limit(rate.parse().expect("a rate")));
        plan
    }

    /// The same, and the API tells its limit with every answer.
    pub(crate) fn told(rate: &str) -> Self {
        let mut plan = Self::limited(rate);
        plan.strict = by_caller(MockApi::builder().dialect(Dialect::Ietf));
        plan.strict.limit_to(shared(rate));
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
        let client = client(&self.strict, (self.rules, &self.also), &time);
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
            strict: self.strict,
            time,
            client,
            _writer: writer,
            _dir: dir,
        }
    }
}

/// An API that tells its callers apart.
pub(crate) fn by_caller(api: outflow_mock::Builder) -> MockApi {
    api.key(CallerKey::Header(AUTHORIZATION))
        .build()
        .expect("valid")
}

/// So much for all callers together.
pub(crate) fn shared(rate: &str) -> Vec<Quota> {
    vec![Quota::sliding(rate.parse().expect("a rate")).shared()]
}

/// More in flight than any test needs: what is tested is the limit.
fn crowded(rules: Rules) -> Rules {
    in_flight(10_000, rules)
}

/// At most so many in flight.
pub(crate) fn in_flight(concurrency: u32, rules: Rules) -> Rules {
    let settings = HealthSettings {
        concurrency,
        ..HealthSettings::default()
    };
    Rules {
        health: HealthConfig::new(settings).expect("valid"),
        ..rules
    }
}

fn client(strict: &MockApi, (rules, also): (Rules, &[&str]), time: &VirtualTime) -> Outflow {
    let server = Arc::new(strict.in_memory());
    let api = |name: &str, rules| {
        let mut api = Api::new(name, server.url().parse().expect("a URL"));
        api.rules = rules;
        api
    };
    let others = also
        .iter()
        .map(|name| api(name, crowded(Rules::unlimited())));
    let apis = others.fold(
        Outflow::builder().api(api("strict", rules)),
        outflow::OutflowBuilder::api,
    );
    apis.timer(Arc::new(time.clone()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let pipe: Box<dyn IoStream> = Box::new(server.connect());
            Box::pin(async move { Ok(pipe) })
        }))
        .build()
        .expect("valid")
}

impl World {
    /// Another machine that works for the same store.
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

    pub(crate) async fn tally(&self) -> JobCounts {
        self.store().job_counts().await.expect("the store answers")
    }

    /// Submits calls of tenants as one action, which is closed with them.
    pub(crate) async fn submit(&self, action: &str, orders: Vec<JobSpec>) {
        let submission = JobSubmission {
            action: Some(ActionSpec {
                timeout: Duration::from_hours(10),
                ..ActionSpec::new(name(action))
            }),
            rest: BatchPosition::Last,
            jobs: orders,
        };
        self.engine.submit(submission).await.expect("taken");
    }

    /// Waits for the end of an action.
    pub(crate) async fn finished(&self, action: &str) -> ActionReport {
        let report = self.engine.wait_finished(&name(action)).await;
        report.expect("the store answers").expect("it is known")
    }

    /// What the store counted on the way is what it finds when it counts its jobs again.
    pub(crate) async fn books_balance(&self) {
        assert_eq!(self.store().audit().await.expect("counted"), 0);
    }
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// A GET for a tenant, whose name is in the path for the audit to tell.
pub(crate) fn get(tenant: &str, number: usize) -> JobSpec {
    let mut call = HttpCall::new("strict", Method::GET, &format!("/{tenant}/{number}"));
    let key = format!("Bearer {tenant}").parse().expect("a header");
    call.headers.insert(AUTHORIZATION, key);
    JobSpec::call(name(tenant), call)
}

/// So many of them.
pub(crate) fn gets(tenant: &str, count: usize) -> Vec<JobSpec> {
    (0..count).map(|number| get(tenant, number)).collect()
}

/// When each call of a tenant arrived that was let through, since the first of all.
pub(crate) fn arrivals(strict: &MockApi, tenant: &str) -> Vec<Duration> {
    let audit = strict.audit();
    let all = audit.arrivals();
    let first = all.first().map_or(Nanos::ZERO, |one| one.at);
    let path = format!("/{tenant}/");
    let own = all.iter().filter(|one| one.path.starts_with(&path));
    own.filter(|one| one.status == Some(200))
        .map(|one| one.at.since(first))
        .collect()
}

/// The value of a series on the page.
pub(crate) fn value(world: &World, series: &str) -> Option<f64> {
    let page = world.metrics.render();
    let line = page.lines().find(|line| {
        let rest = line.strip_prefix(series);
        rest.is_some_and(|rest| rest.starts_with(' '))
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
}

/// A tenant's rule with this rate.
pub(crate) fn limited_to(rate: &str) -> TenantRule {
    TenantRule {
        rate: Some(rate.parse().expect("a rate")),
        ..TenantRule::default()
    }
}
