//! Several engines on one Redis keep the limits of their API together.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::{Config, Outflow, OutflowBuilder, SystemClock};
use outflow_bulk::{Engine, EngineSettings, HttpCall, JobSpec, JobSubmission, SchedulerKind};
use outflow_core::{CongestionRule, Cost, QuotaLedger};
use outflow_ledger::{HostLedger, LedgerDir};
use outflow_mock::{MockApi, Quota};
use outflow_store::{BatchPosition, JobQueue, RedisOptions as StoreOptions, RedisStore, StoreControl};
use outflow_testkit::{Background, RedisOptions, RedisServer};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::worker_processes::{TestApi, WAIT_LIMIT};

/// An API that accepts ten calls a second, by a sliding window, and three engines that know this limit.
struct SharedFleet {
    api: TestApi,
    _redis: RedisServer,
    accounts: TempDir,
    text: String,
    engines: Vec<Engine<RedisStore>>,
}

impl SharedFleet {
    /// Starts the engines with these rules for the API and these changes of their settings.
    async fn start(rules: &str, change: impl Fn(&mut EngineSettings)) -> Self {
        let mock = MockApi::builder().limit(Quota::sliding("10/s".parse().expect("a rate")).shared());
        let api = TestApi::start(mock.build().expect("valid")).await;
        let redis = RedisServer::start(RedisOptions::default()).expect("a server");
        let text = format!(
            "[apis.shop]\nbase_url = \"{}\"\naddresses = \"any\"\n{rules}",
            api.url()
        );
        let accounts = tempfile::tempdir().expect("a directory");
        let mut engines = Vec::new();
        for _ in 0..3 {
            engines.push(engine(&redis.url(), accounts.path(), &text, &change).await);
        }
        Self {
            api,
            _redis: redis,
            accounts,
            text,
            engines,
        }
    }

    /// Runs all of these and returns the time that it took.
    async fn run(&self, jobs: Vec<JobSpec>) -> Duration {
        let begun = Instant::now();
        let submission = JobSubmission {
            action: None,
            rest: BatchPosition::More,
            jobs,
        };
        self.engines[0].submit(submission).await.expect("accepted");
        let over = async {
            while self.engines[0].store().job_counts().await.expect("counts").open() > 0 {
                let changed = self.engines[0].store().changed();
                let _again = timeout(Duration::from_millis(50), changed).await;
            }
        };
        timeout(WAIT_LIMIT, over).await.expect("over");
        begun.elapsed()
    }

    fn assert_limit_kept(&self, calls: usize) {
        let audit = self.api.mock.audit();
        let max_calls = audit.most_in_any_window(Duration::from_secs(1));
        assert_eq!((audit.refused(), audit.count()), (0, calls), "{max_calls} in a second");
    }
}

/// Builds a client of a process of its own: it has nothing in common with others but the accounts.
fn client(accounts: &Path, text: &str) -> Outflow {
    let source = [Source::new("test", text)];
    let config = Config::read(&source, &Environment::empty()).expect("a configuration");
    let accounts = LedgerDir::open(accounts).expect("a directory");
    let ledger = HostLedger::open(accounts, Arc::new(SystemClock::new())).expect("a ledger");
    let apis = config.apis.into_iter().fold(Outflow::builder(), OutflowBuilder::api);
    let ledger: Arc<dyn QuotaLedger> = Arc::new(ledger);
    apis.ledger(ledger).build().expect("a client")
}

async fn engine(url: &str, accounts: &Path, text: &str, change: &impl Fn(&mut EngineSettings)) -> Engine<RedisStore> {
    let store = RedisStore::connect(StoreOptions::new(url)).await;
    let mut settings = EngineSettings {
        shared: true,
        ..EngineSettings::default()
    };
    change(&mut settings);
    Engine::builder(client(accounts, text), Arc::new(store.expect("connected")))
        .settings(settings)
        .start()
        .await
        .expect("started")
}

fn get(path: &str) -> JobSpec {
    let call = HttpCall::new("shop", http::Method::GET, path);
    JobSpec::call("t".parse().expect("a name"), call)
}

// Thirty calls of three groups without limits of their own: at least two seconds, and not a third of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_share_the_limit_of_their_api() {
    let rules = "limits = [\"10/s\"]\ngroups.a.limits = []\ngroups.b.limits = []\n\
                 routes = [{ path = \"/a/**\", group = \"a\" }, { path = \"/b/**\", group = \"b\" }]\n";
    let fleet = SharedFleet::start(rules, |_| {}).await;
    let jobs = (0..30).map(|n| get(&format!("/{}/{n}", ["a", "b", "c"][n % 3])));
    let took = fleet.run(jobs.collect()).await;
    fleet.assert_limit_kept(30);
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

// The schedulers that try first debit the shared limits as well: two engines, twenty calls, two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedulers_that_try_first_also_share_limits() {
    let fleet = SharedFleet::start("limits = [\"10/s\"]\n", |settings| {
        settings.scheduler = SchedulerKind::Fixed;
        let wait = Duration::from_millis(200);
        settings.congestion = CongestionRule::new(wait, wait).expect("valid");
    })
    .await;
    fleet.run((0..20).map(|n| get(&format!("/{n}"))).collect()).await;
    fleet.assert_limit_kept(20);
}

// Ten calls a second and ten thousand tokens: five calls of a thousand tokens each take less than a second.
// They would take minutes if each counted as a thousand calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_on_calls_ignores_their_cost() {
    let rules = "limits = [{ rate = \"10/s\", counts = \"calls\" }, { rate = \"10000/s\" }]\n";
    let fleet = SharedFleet::start(rules, |_| {}).await;
    let jobs = (0..5).map(|n| {
        let mut order = get(&format!("/{n}"));
        order.cost = Some(Cost::new(1_000));
        order
    });
    let took = fleet.run(jobs.collect()).await;
    fleet.assert_limit_kept(5);
    assert!(took <= Duration::from_secs(10), "{took:?}");
}

// Thirty jobs of three engines and two callers beside them, at ten a second: the API throttles nothing, and all get
// their share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beside_the_jobs_of_three_engines_are_not_throttled() {
    let fleet = SharedFleet::start("limits = [\"10/s\"]\n", |_| {}).await;
    let caller = client(fleet.accounts.path(), &fleet.text);
    let call = |_| {
        let caller = caller.clone();
        Background::start(async move { while caller.get("shop", "/live").send().await.is_ok() {} })
    };
    let callers: Vec<_> = (0..2).map(call).collect();
    let took = fleet.run((0..30).map(|n| get(&format!("/{n}"))).collect()).await;
    drop(callers);
    let audit = fleet.api.mock.audit();
    let most = audit.most_in_any_window(Duration::from_secs(1));
    assert_eq!(audit.refused(), 0, "{most} in a second");
    assert!(most <= 10, "{most}");
    assert!(
        audit.attempts("/live") >= 5,
        "{} calls in {took:?}",
        audit.attempts("/live")
    );
}

// Ten a second for each of three tenants, and no limit of the API: each tenant's calls arrive within its rate, and
// the three do not wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_keep_their_own_rates_over_three_engines() {
    let fleet = SharedFleet::start("", |settings| {
        settings.tenant.rate = Some("10/s".parse().expect("a rate"));
    })
    .await;
    fleet.api.mock.limit_to(Vec::new());
    let of = |tenant: &str, n: usize| {
        let call = HttpCall::new("shop", http::Method::GET, &format!("/{tenant}/{n}"));
        JobSpec::call(tenant.parse().expect("a name"), call)
    };
    let jobs = (0..90).map(|n| of(["a", "b", "c"][n % 3], n));
    fleet.run(jobs.collect()).await;
    let audit = fleet.api.mock.audit();
    assert_eq!(audit.count(), 90);
    for tenant in ["/a/", "/b/", "/c/"] {
        let arrivals = audit.arrivals().iter().filter(|one| one.path.starts_with(tenant));
        let at: Vec<_> = arrivals.map(|one| one.at).collect();
        assert_eq!(at.len(), 30);
        for eleven in at.windows(11) {
            let span = eleven[10].since(eleven[0]);
            assert!(span >= Duration::from_secs(1), "eleven of {tenant} in {span:?}");
        }
    }
}
