//! A worker that runs the jobs of a store until none is left, in a process of its own.
//!
//! `worker API_URL STORE [WORD]…`, where the store is a directory, or the URL of a Redis that several workers
//! share. The words:
//!
//! - `submit=COUNT`: first submits this many calls of ten tenants, or of `tenants=COUNT`, and prints the number
//!   of acknowledged ones;
//! - `from=COUNT`: skips the first ones, because they were submitted before;
//! - `poison`: adds a task that kills the whole process whenever it runs;
//! - `poison-lane=COUNT`: submits this many tasks of one lane, and a poison task in the middle of them;
//! - `child`: first starts another program, which lives for a minute, and prints its process id;
//! - `scenario`: runs a scenario in which everything happens once, instead (see `scenario.rs`);
//! - `workers=COUNT`: jobs in flight at once;
//! - `limit=RATE`, `tenant-limit=RATE`: configured limits of the API and of each tenant;
//! - `ledger=DIRECTORY`: shares the limits of the API with the other workers;
//! - `lease-ms=COUNT`: lease of the session;
//! - `recoveries=COUNT`: how often a job may lose its worker;
//! - `replicas=COUNT`: copies to wait for after each submission and settlement;
//! - `outcomes`: prints the attempts of each call at the end.
//!
//! It prints one line for each step, with the time where that matters, and the job counts at its end.

mod failpoint_store;
mod poison_lane;
mod scenario;

use std::error::Error;
use std::io;
use std::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outflow::core::{Clock as _, HealthConfig, HealthSettings};
use outflow::{Api, Events, Outflow, Rules, SystemClock, Tasks};
use outflow_bulk::{BulkEvent, Engine, EngineSettings, HandlerTask, HttpCall, JobSpec, JobSubmission, WorkerSettings};
use outflow_core::QuotaLedger;
use outflow_ledger::{HostLedger, LedgerDir};
use outflow_store::{
    ActionSpec, BatchPosition, EmbeddedStore, JobOutcome, JobStore, Name, RedisOptions, RedisStore, ReplicaWait,
    SettleResult, TenantRule,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use self::failpoint_store::FailpointStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("begins {}", now());
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, store, rest @ ..] = words.as_slice() else {
        return Err("usage: worker API_URL STORE [WORD]…".into());
    };
    let args = WorkerArgs::read(url, rest)?;
    if store.starts_with("redis") {
        let mut options = RedisOptions::new(store);
        options.wait_replicas = args.replicas.map(|count| ReplicaWait {
            count,
            timeout: Duration::from_secs(1),
        });
        let redis = RedisStore::connect(options).await?;
        return args.work(redis, true).await;
    }
    let clock = Arc::new(SystemClock::new());
    let (embedded, writer) = EmbeddedStore::open(Path::new(store), clock)?;
    let tasks = Tasks::new("worker", Events::new(), Arc::new(SystemClock::new()));
    let writer = std::sync::Mutex::new(Some(writer));
    tasks.spawn_thread("writer", move |_| {
        let writer = writer.lock().ok().and_then(|mut writer| writer.take());
        if let Some(writer) = writer {
            writer.run();
        }
    })?;
    args.work(embedded, false).await
}

/// Parsed command line.
struct WorkerArgs {
    url: String,
    rules: Rules,
    tenant: TenantRule,
    submit: Range<usize>,
    poison_lane: Option<usize>,
    tenants: usize,
    workers: usize,
    lease: Duration,
    recoveries: u32,
    replicas: Option<u32>,
    words: Vec<String>,
}

impl WorkerArgs {
    fn read(url: &str, words: &[String]) -> Result<Self, Box<dyn Error>> {
        let value = |name: &str| {
            let mut words = words.iter();
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let rate = |name| value(name).map(str::parse).transpose();
        let span = |name| {
            let millis = value(name).map(str::parse).transpose();
            millis.map(|millis| millis.map(Duration::from_millis))
        };
        let tenant = TenantRule {
            rate: rate("tenant-limit")?,
            ..TenantRule::default()
        };
        Ok(Self {
            url: url.to_owned(),
            rules: with_high_concurrency(rate("limit")?.map_or_else(Rules::unlimited, Rules::with_limit))?,
            tenant,
            submit: value("from").map_or(Ok(0), str::parse)?..value("submit").map_or(Ok(0), str::parse)?,
            poison_lane: value("poison-lane").map(str::parse).transpose()?,
            tenants: value("tenants").map_or(Ok(10), str::parse)?,
            workers: value("workers").map_or(Ok(WORKERS), str::parse)?,
            lease: span("lease-ms")?.unwrap_or(LEASE),
            recoveries: value("recoveries").map_or(Ok(2), str::parse)?,
            replicas: value("replicas").map(str::parse).transpose()?,
            words: words.to_vec(),
        })
    }

    fn client(&self) -> Result<Outflow, Box<dyn Error>> {
        let mut api = Api::new("api", self.url.parse()?);
        api.rules = self.rules.clone();
        let open = |path| HostLedger::open(LedgerDir::open(Path::new(path))?, Arc::new(SystemClock::new()));
        let path = self.words.iter().find_map(|word| word.strip_prefix("ledger="));
        let mut builder = Outflow::builder().api(api);
        if let Some(path) = path {
            let ledger: Arc<dyn QuotaLedger> = Arc::new(open(path)?);
            builder = builder.ledger(ledger);
        }
        Ok(builder.build()?)
    }

    fn has_word(&self, word: &str) -> bool {
        self.words.iter().any(|said| said == word)
    }

    fn settings(&self, shared: bool) -> Result<EngineSettings, Box<dyn Error>> {
        let default = EngineSettings {
            workers: WorkerSettings {
                min: Some(self.workers),
                max: Some(self.workers),
                depth: 1_000,
            },
            lease: self.lease,
            heartbeat: self.lease / 4,
            recoveries: self.recoveries,
            tenant: self.tenant,
            shared,
            ..EngineSettings::default()
        };
        if self.has_word("scenario") {
            return scenario::settings(default);
        }
        Ok(default)
    }

    async fn work<S: JobStore>(self, store: S, shared: bool) -> Result<(), Box<dyn Error>> {
        let store = Arc::new(FailpointStore::new(store));
        if self.has_word("scenario") {
            scenario::prepare(&store).await?;
        }
        let builder = Engine::builder(self.client()?, Arc::clone(&store))
            .settings(self.settings(shared)?)
            .handler("poison", |_: HandlerTask| async { std::process::abort() });
        let engine = poison_lane::with_handlers(scenario::with_handlers(builder))
            .start()
            .await?;
        // On this single thread no event can happen before the subscription.
        let mut events = engine.events();
        if self.has_word("child") {
            println!("child {}", start_child()?);
        }
        println!("ready");
        tokio::select! {
            worked = self.run_jobs(&engine) => worked?,
            () = print_events(&mut events) => {}
        }
        while let Ok(one) = events.try_recv() {
            print_event(&one);
        }
        if self.has_word("outcomes") {
            let print_outcome = |(), one: JobOutcome| println!("outcome {} {}", one.id, one.attempts);
            engine.fold_outcomes(&ACTION.parse()?, (), print_outcome).await?;
        }
        print_counts(store.inner()).await
    }

    /// Submits jobs, waits until none is open, and stops.
    async fn run_jobs<S: JobStore>(&self, engine: &Engine<FailpointStore<S>>) -> Result<(), Box<dyn Error>> {
        self.submit_work(engine).await?;
        while open_jobs(engine.store().inner()).await? > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        engine.stop().await;
        Ok(())
    }

    async fn submit_work<S: JobStore>(&self, engine: &Engine<FailpointStore<S>>) -> Result<(), Box<dyn Error>> {
        if self.has_word("scenario") {
            return scenario::run(engine).await;
        }
        if let Some(count) = self.poison_lane {
            return poison_lane::submit_jobs(engine, count).await;
        }
        let Range { start, end } = self.submit;
        let middle = start.midpoint(end);
        submit_jobs(engine, start..middle, self.tenants).await?;
        if self.has_word("poison") {
            let mut job = JobSpec::task("t0".parse()?, "poison", Bytes::new());
            job.id = Some(POISON.parse()?);
            engine.submit(submission(vec![job])?).await?;
        }
        submit_jobs(engine, middle..end, self.tenants).await
    }
}

/// Prints events until the channel closes.
async fn print_events(events: &mut Receiver<BulkEvent>) {
    loop {
        match events.recv().await {
            Ok(one) => print_event(&one),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Prints recoveries from dead workers with their time, and fenced results.
fn print_event(event: &BulkEvent) {
    match event {
        BulkEvent::Reaped {
            returned,
            dead_lettered,
        } => println!("reaped {returned} {dead_lettered} {}", now()),
        BulkEvent::Settled {
            id,
            how: SettleResult::Fenced,
            ..
        } => println!("fenced {id}"),
        _ => {}
    }
}

/// Starts another program, in a process group of its own so that it outlives this one. The program inherits
/// every descriptor that is not closed on exec. Returns its process id.
fn start_child() -> io::Result<u32> {
    let mut command = Command::new("sleep");
    let command = command.arg("60").process_group(0);
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(silent.stderr(Stdio::null()).spawn()?.id())
}

/// Returns the milliseconds of the clock that all processes of a machine share.
fn now() -> u128 {
    SystemClock::new().wall().as_duration().as_millis()
}

/// Prints the job counts.
async fn print_counts<S: JobStore>(store: &S) -> Result<(), Box<dyn Error>> {
    let counts = store.job_counts().await?;
    let drift = store.audit().await?;
    println!(
        "end submitted={} done={} dead={} failed={} cancelled={} open={} drift={drift}",
        counts.submitted(),
        counts.done,
        counts.dead,
        counts.failed,
        counts.cancelled,
        counts.open(),
    );
    Ok(())
}

/// Counts open jobs. Retries later if the store does not respond now.
async fn open_jobs<S: JobStore>(store: &S) -> Result<u64, Box<dyn Error>> {
    match store.job_counts().await {
        Ok(counts) => Ok(counts.open()),
        Err(error) if error.is_passing() => Ok(1),
        Err(error) => Err(error.into()),
    }
}

/// Submits jobs, ten at a time, and prints the total of accepted ones after each ten. Their names are their
/// numbers, so submitting them again changes nothing.
async fn submit_jobs<S: JobStore>(
    engine: &Engine<S>,
    numbers: Range<usize>,
    tenants: usize,
) -> Result<(), Box<dyn Error>> {
    for begin in numbers.clone().step_by(10) {
        let end = numbers.end.min(begin + 10);
        let jobs = (begin..end).map(|number| job_spec(number, tenants));
        let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        engine.submit(submission(jobs)?).await?;
        println!("acked {end}");
    }
    Ok(())
}

fn job_spec(number: usize, tenants: usize) -> Result<JobSpec, Box<dyn Error>> {
    let tenant: Name = format!("t{}", number % tenants).parse()?;
    let path = format!("/job/{number}");
    let mut job = JobSpec::call(tenant, HttpCall::new("api", http::Method::POST, &path));
    job.id = Some(format!("job-{number}").parse()?);
    Ok(job)
}

fn submission(jobs: Vec<JobSpec>) -> Result<JobSubmission, Box<dyn Error>> {
    Ok(JobSubmission {
        action: Some(ActionSpec::new(ACTION.parse()?)),
        rest: BatchPosition::More,
        jobs,
    })
}

/// Returns the rules with a higher concurrency than the default.
fn with_high_concurrency(rules: Rules) -> Result<Rules, Box<dyn Error>> {
    let settings = HealthSettings {
        concurrency: Some(2_000),
        ..HealthSettings::default()
    };
    Ok(Rules {
        health: HealthConfig::new(settings)?,
        ..rules
    })
}

/// The task that kills its process.
const POISON: &str = "poison";

/// Action of all submitted calls.
const ACTION: &str = "chaos";

/// Short enough for a test to wait for; the default is five times as long.
const LEASE: Duration = Duration::from_secs(2);

/// Default concurrency: the most jobs that a process loses when it dies.
const WORKERS: usize = 8;
