//! Several engines on one Redis keep to what their API allows, together.

use std::sync::Arc;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::{Config, Outflow};
use outflow_bulk::{
    Engine, EngineSettings, HttpCall, JobSpec, JobSubmission, SchedulerKind, SharedLimitSettings,
};
use outflow_core::{CongestionRule, Cost};
use outflow_mock::{MockApi, Quota};
use outflow_store::{
    BatchPosition, JobQueue, RedisOptions as StoreOptions, RedisStore, StoreControl,
};
use outflow_testkit::{RedisOptions, RedisServer};
use tokio::time::{Instant, timeout};

use super::worker_processes::{Field, PATIENCE};

/// An API that takes ten calls a second, by a sliding window, and two engines that know it.
struct House {
    field: Field,
    _redis: RedisServer,
    engines: Vec<Engine<RedisStore>>,
}

impl House {
    /// What the engines know of the API, and how they are set.
    async fn of(rules: &str, change: impl Fn(&mut EngineSettings)) -> Self {
        let strict =
            MockApi::builder().limit(Quota::sliding("10/s".parse().expect("a rate")).shared());
        let field = Field::of(strict.build().expect("valid")).await;
        let redis = RedisServer::start(RedisOptions::default()).expect("a server");
        let text = format!(
            "[apis.shop]\nbase_url = \"{}\"\naddresses = \"any\"\n{rules}",
            field.url()
        );
        let mut engines = Vec::new();
        for _ in 0..2 {
            engines.push(engine(&redis.url(), &text, &change).await);
        }
        Self {
            field,
            _redis: redis,
            engines,
        }
    }

    /// All of these, and how long it took.
    async fn done(&self, orders: Vec<JobSpec>) -> Duration {
        let begun = Instant::now();
        let submission = JobSubmission {
            action: None,
            rest: BatchPosition::More,
            jobs: orders,
        };
        self.engines[0].submit(submission).await.expect("taken");
        let over = async {
            while self.engines[0]
                .store()
                .job_counts()
                .await
                .expect("tally")
                .open()
                > 0
            {
                let changed = self.engines[0].store().changed();
                let _again = timeout(Duration::from_millis(50), changed).await;
            }
        };
        timeout(PATIENCE, over).await.expect("over");
        begun.elapsed()
    }

    fn kept_to_the_limit(&self, calls: usize) {
        let audit = self.field.strict.audit();
        let most = audit.most_in_any_window(Duration::from_secs(1));
        assert_eq!(
            (audit.refused(), audit.count()),
            (0, calls),
            "{most} in a second"
        );
    }
}

async fn engine(
    url: &str,
    text: &str,
    change: &impl Fn(&mut EngineSettings),
) -> Engine<RedisStore> {
    let source = [Source::new("test", text)];
    let config = Config::read(&source, &Environment::empty()).expect("a configuration");
    let store = RedisStore::connect(StoreOptions::new(url)).await;
    let mut settings = EngineSettings {
        shared: Some(SharedLimitSettings {
            // A busy machine is later than the usual five milliseconds.
            guard: Duration::from_millis(50),
            ..SharedLimitSettings::default()
        }),
        ..EngineSettings::default()
    };
    change(&mut settings);
    let client = Outflow::init(config.apis).expect("a client");
    Engine::builder(client, Arc::new(store.expect("connected")))
        .settings(settings)
        .start()
        .await
        .expect("started")
}

fn get(path: &str) -> JobSpec {
    let call = HttpCall::new("shop", http::Method::GET, path);
    JobSpec::call("t".parse().expect("a name"), call)
}

// Thirty calls of three groups that have no limit of their own: two seconds at least, and not a third of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_share_what_their_api_allows() {
    let rules = "limits = [\"10/s\"]\ngroups.a.limits = []\ngroups.b.limits = []\n\
                 routes = [{ path = \"/a/**\", group = \"a\" }, { path = \"/b/**\", group = \"b\" }]\n";
    let house = House::of(rules, |_| {}).await;
    let orders = (0..30).map(|n| get(&format!("/{}/{n}", ["a", "b", "c"][n % 3])));
    let took = house.done(orders.collect()).await;
    house.kept_to_the_limit(30);
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

// The one that tries first asks the store, too: two engines, twenty calls, two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schedulers_that_try_first_share_limits_as_well() {
    let house = House::of("limits = [\"10/s\"]\n", |settings| {
        settings.scheduler = SchedulerKind::Fixed;
        let wait = Duration::from_millis(200);
        settings.congestion = CongestionRule::new(wait, wait).expect("valid");
    })
    .await;
    house
        .done((0..20).map(|n| get(&format!("/{n}"))).collect())
        .await;
    house.kept_to_the_limit(20);
}

// Ten calls a second and ten thousand tokens: five calls of a thousand tokens each take less than a second,
// and would take minutes if each of them counted as a thousand calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_counts_calls_is_not_charged_what_they_cost() {
    let rules = "limits = [{ rate = \"10/s\", counts = \"calls\" }, { rate = \"10000/s\" }]\n";
    let house = House::of(rules, |_| {}).await;
    let orders = (0..5).map(|n| {
        let mut order = get(&format!("/{n}"));
        order.cost = Some(Cost::new(1_000));
        order
    });
    let took = house.done(orders.collect()).await;
    house.kept_to_the_limit(5);
    assert!(took <= Duration::from_secs(10), "{took:?}");
}
