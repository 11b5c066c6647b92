//! A worker: runs the jobs of a store until none is left, in a process of its own.
//!
//! `worker API_URL STORE [WORD]…`, where the store is a directory, or the URL of a Redis that several
//! workers share. The words:
//!
//! - `submit=COUNT`: first hands in that many calls of ten tenants, or of `tenants=COUNT`, and says how
//!   many were acknowledged as they are;
//! - `from=COUNT`: leaves out as many of them, because they were handed in before;
//! - `poison`: there is a task among them that takes the whole process down whenever it is tried;
//! - `company=COUNT`: hands in that many tasks of one lane, and such a task in the middle of them;
//! - `child`: has first started another program, which lives on for a minute, and says its number;
//! - `day`: lives through a day in which everything happens once, instead (see `day.rs`);
//! - `crew=COUNT`: how many jobs are under way at once;
//! - `limit=RATE`, `tenant-limit=RATE`: what the API allows, as far as the worker knows, and what it
//!   allows each tenant;
//! - `lease-ms=COUNT`: how long it is believed to live without a word;
//! - `horizon-ms=COUNT`, `guard-ms=COUNT`: how far ahead it claims from a store that it shares, and what
//!   its windows are widened by there;
//! - `recoveries=COUNT`: how often a job may lose its worker;
//! - `replicas=COUNT`: how many copies of what was submitted or settled are waited for;
//! - `books`: says at its end how often each of those calls was tried.
//!
//! It prints what it does, a line each, with the time where that matters, and at its end how many jobs are
//! where.

mod company;
mod day;
mod peril;

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
use outflow_bulk::{
    BulkEvent, Engine, EngineSettings, HandlerTask, HttpCall, JobSpec, JobSubmission,
    SharedLimitSettings, WorkerSettings,
};
use outflow_store::{
    ActionSpec, BatchPosition, EmbeddedStore, JobOutcome, JobStore, Name, RedisOptions, RedisStore,
    ReplicaWait, SettleResult, TenantRule,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use self::peril::Peril;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("begins {}", now());
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, store, rest @ ..] = words.as_slice() else {
        return Err("usage: worker API_URL STORE [WORD]…".into());
    };
    let wish = Wish::read(url, rest)?;
    if store.starts_with("redis") {
        let mut options = RedisOptions::new(store);
        options.wait_replicas = wish.replicas.map(|count| ReplicaWait {
            count,
            timeout: Duration::from_secs(1),
        });
        let redis = RedisStore::connect(options).await?;
        return wish.work(redis, Some(SharedLimitSettings::default())).await;
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
    wish.work(embedded, None).await
}

/// What is to be done.
struct Wish {
    url: String,
    rules: Rules,
    tenant: TenantRule,
    submit: Range<usize>,
    company: Option<usize>,
    tenants: usize,
    crew: usize,
    lease: Duration,
    horizon: Option<Duration>,
    guard: Option<Duration>,
    recoveries: u32,
    replicas: Option<u32>,
    words: Vec<String>,
}

impl Wish {
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
            rules: crowded(rate("limit")?.map_or_else(Rules::unlimited, Rules::with_limit))?,
            tenant,
            submit: value("from").map_or(Ok(0), str::parse)?
                ..value("submit").map_or(Ok(0), str::parse)?,
            company: value("company").map(str::parse).transpose()?,
            tenants: value("tenants").map_or(Ok(10), str::parse)?,
            crew: value("crew").map_or(Ok(CREW), str::parse)?,
            lease: span("lease-ms")?.unwrap_or(LEASE),
            horizon: span("horizon-ms")?,
            guard: span("guard-ms")?,
            recoveries: value("recoveries").map_or(Ok(2), str::parse)?,
            replicas: value("replicas").map(str::parse).transpose()?,
            words: words.to_vec(),
        })
    }

    fn says(&self, word: &str) -> bool {
        self.words.iter().any(|said| said == word)
    }

    fn settings(
        &self,
        shared: Option<SharedLimitSettings>,
    ) -> Result<EngineSettings, Box<dyn Error>> {
        let shared = shared.map(|usual| SharedLimitSettings {
            guard: self.guard.unwrap_or(usual.guard),
            horizon: self.horizon.unwrap_or(usual.horizon),
        });
        let usual = EngineSettings {
            workers: WorkerSettings {
                min: self.crew,
                max: self.crew,
                depth: 1_000,
            },
            lease: self.lease,
            heartbeat: self.lease / 4,
            recoveries: self.recoveries,
            tenant: self.tenant.clone(),
            shared,
            ..EngineSettings::default()
        };
        if self.says("day") {
            return day::settings(usual);
        }
        Ok(usual)
    }

    async fn work<S: JobStore>(
        self,
        store: S,
        shared: Option<SharedLimitSettings>,
    ) -> Result<(), Box<dyn Error>> {
        let store = Arc::new(Peril::new(store));
        let mut api = Api::new("api", self.url.parse()?);
        api.rules = self.rules.clone();
        if self.says("day") {
            day::dawn(&store).await?;
        }
        let builder = Engine::builder(Outflow::init([api])?, Arc::clone(&store))
            .settings(self.settings(shared)?)
            .handler("poison", |_: HandlerTask| async { std::process::abort() });
        let engine = company::staffed(day::staffed(builder)).start().await?;
        // On this one thread nothing has happened yet that could be missed.
        let mut news = engine.events();
        if self.says("child") {
            println!("child {}", child()?);
        }
        println!("ready");
        tokio::select! {
            worked = self.work_off(&engine) => worked?,
            () = pass_on(&mut news) => {}
        }
        while let Ok(one) = news.try_recv() {
            say(&one);
        }
        if self.says("books") {
            let say = |(), one: JobOutcome| println!("outcome {} {}", one.id, one.attempts);
            engine.fold_outcomes(&ACTION.parse()?, (), say).await?;
        }
        report(store.calm()).await
    }

    /// Asks for work, waits until nobody has any, and stops.
    async fn work_off<S: JobStore>(&self, engine: &Engine<Peril<S>>) -> Result<(), Box<dyn Error>> {
        self.ask_for_work(engine).await?;
        while open_jobs(engine.store().calm()).await? > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        engine.stop().await;
        Ok(())
    }

    async fn ask_for_work<S: JobStore>(
        &self,
        engine: &Engine<Peril<S>>,
    ) -> Result<(), Box<dyn Error>> {
        if self.says("day") {
            return day::day(engine).await;
        }
        if let Some(count) = self.company {
            return company::hand_in(engine, count).await;
        }
        let Range { start, end } = self.submit;
        let middle = start.midpoint(end);
        hand_in(engine, start..middle, self.tenants).await?;
        if self.says("poison") {
            let mut order = JobSpec::task("t0".parse()?, "poison", Bytes::new());
            order.id = Some(POISON.parse()?);
            engine.submit(submission(vec![order])?).await?;
        }
        hand_in(engine, middle..end, self.tenants).await
    }
}

/// Says what happens, until there are no more news.
async fn pass_on(news: &mut Receiver<BulkEvent>) {
    loop {
        match news.recv().await {
            Ok(one) => say(&one),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Says what was taken back from the dead and when, and which ends came too late to count.
fn say(news: &BulkEvent) {
    match news {
        BulkEvent::Reaped { returned, buried } => println!("reaped {returned} {buried} {}", now()),
        BulkEvent::Settled {
            id,
            how: SettleResult::Fenced,
            ..
        } => println!("fenced {id}"),
        _ => {}
    }
}

/// Starts another program, in a group of its own so that it outlives this one. It has what it inherits
/// without being asked. Answers its number.
fn child() -> io::Result<u32> {
    let mut command = Command::new("sleep");
    let command = command.arg("60").process_group(0);
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(silent.stderr(Stdio::null()).spawn()?.id())
}

/// In milliseconds, by the clock that all processes of a machine share.
fn now() -> u128 {
    SystemClock::new().wall().as_duration().as_millis()
}

/// Says how many jobs are where.
async fn report<S: JobStore>(store: &S) -> Result<(), Box<dyn Error>> {
    let tally = store.job_counts().await?;
    let drift = store.audit().await?;
    println!(
        "end submitted={} done={} dead={} failed={} cancelled={} open={} drift={drift}",
        tally.submitted(),
        tally.done,
        tally.dead,
        tally.failed,
        tally.cancelled,
        tally.open(),
    );
    Ok(())
}

/// How many jobs are not over. A store that does not answer now is asked again.
async fn open_jobs<S: JobStore>(store: &S) -> Result<u64, Box<dyn Error>> {
    match store.job_counts().await {
        Ok(tally) => Ok(tally.open()),
        Err(error) if error.is_passing() => Ok(1),
        Err(error) => Err(error.into()),
    }
}

/// Hands jobs in, ten at a time, and says after each ten how many were taken in all. Their names are
/// their numbers, so handing them in again changes nothing.
async fn hand_in<S: JobStore>(
    engine: &Engine<S>,
    numbers: Range<usize>,
    tenants: usize,
) -> Result<(), Box<dyn Error>> {
    for begin in numbers.clone().step_by(10) {
        let end = numbers.end.min(begin + 10);
        let orders = (begin..end).map(|number| order(number, tenants));
        let orders = orders.collect::<Result<Vec<_>, _>>()?;
        engine.submit(submission(orders)?).await?;
        println!("acked {end}");
    }
    Ok(())
}

fn order(number: usize, tenants: usize) -> Result<JobSpec, Box<dyn Error>> {
    let tenant: Name = format!("t{}", number % tenants).parse()?;
    let path = format!("/job/{number}");
    let mut order = JobSpec::call(tenant, HttpCall::new("api", http::Method::POST, &path));
    order.id = Some(format!("job-{number}").parse()?);
    Ok(order)
}

fn submission(orders: Vec<JobSpec>) -> Result<JobSubmission, Box<dyn Error>> {
    Ok(JobSubmission {
        action: Some(ActionSpec::new(ACTION.parse()?)),
        rest: BatchPosition::More,
        jobs: orders,
    })
}

/// The same rules, for more calls at once than a door takes as a rule.
fn crowded(rules: Rules) -> Result<Rules, Box<dyn Error>> {
    let settings = HealthSettings {
        concurrency: 2_000,
        ..HealthSettings::default()
    };
    Ok(Rules {
        health: HealthConfig::new(settings)?,
        ..rules
    })
}

/// The task that nobody survives.
const POISON: &str = "poison";

/// What all calls that are handed in belong to.
const ACTION: &str = "chaos";

/// What a test waits for; as a rule it is five times as long.
const LEASE: Duration = Duration::from_secs(2);

/// As many as are lost with a process at most, unless it is said otherwise.
const CREW: usize = 8;
