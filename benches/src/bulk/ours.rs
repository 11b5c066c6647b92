//! Ours: the engine on an embedded store, with each of its schedulers.
//!
//! Each run has its own directory, client and runtime on its own thread, as a program would.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use outflow::{Api, Outflow, Rules, SystemClock};
use outflow_bulk::{Engine, EngineSettings, HttpCall, JobSpec, JobSubmission, SchedulerKind, WorkerSettings};
use outflow_core::{CongestionRule, Rate, Weight};
use outflow_store::{ActionSpec, BatchPosition, EmbeddedStore, Name, StoreControl, TenantRule};
use tokio::time::sleep;

use super::contender::{Contender, Run, SelfReport, TENANT};
use super::scenario::{HEADLINE, Limit, LimitScope, Scenario, THOUSAND, Wave};
use crate::clock;
use crate::tasks::{self, Flavour};

/// Ours with one scheduler.
pub(super) struct Ours {
    name: &'static str,
    scheduler: SchedulerKind,
    longest: Duration,
}

impl Ours {
    /// Returns one contender for each scheduler, the default first.
    pub(super) fn all() -> [Self; 4] {
        let two_minutes = Duration::from_mins(2);
        let of = |name, scheduler, longest| Self {
            name,
            scheduler,
            longest,
        };
        [
            of("Outflow", SchedulerKind::Permit, two_minutes),
            of("Outflow, backoff", SchedulerKind::Backoff, two_minutes),
            of(
                "Outflow, backoff without clamp",
                SchedulerKind::Backoff,
                Duration::from_hours(24),
            ),
            of("Outflow, fixed", SchedulerKind::Fixed, two_minutes),
        ]
    }

    fn settings(&self, scenario: &Scenario) -> io::Result<EngineSettings> {
        let each = (scenario.limit.whose == LimitScope::EachTenant).then_some(scenario.limit);
        let rule = |wave: &Wave| -> io::Result<TenantRule> {
            let cap = wave.cap.map(Rate::per_second).transpose();
            let weight = u32::try_from(wave.weight).map_err(io::Error::other)?;
            Ok(TenantRule {
                weight: Weight::new(weight).map_err(io::Error::other)?,
                rate: cap.map_err(io::Error::other)?,
                ..TenantRule::default()
            })
        };
        let waves = scenario
            .waves
            .iter()
            .filter(|wave| wave.weight > 1 || wave.cap.is_some());
        let tenants = waves.map(|wave| Ok((name(&wave.tenant)?, rule(wave)?)));
        Ok(EngineSettings {
            scheduler: self.scheduler,
            workers: WORKERS,
            global_rate: scenario.calls_per_second(),
            congestion: CongestionRule::new(Duration::from_secs(1), self.longest).map_err(io::Error::other)?,
            tenant: TenantRule {
                rate: each.map(rate).transpose()?,
                ..TenantRule::default()
            },
            tenants: tenants.collect::<io::Result<_>>()?,
            ..EngineSettings::default()
        })
    }
}

impl Contender for Ours {
    fn name(&self) -> &'static str {
        self.name
    }

    fn takes(&self, scenario: &Scenario) -> bool {
        self.scheduler == SchedulerKind::Permit || [HEADLINE, THOUSAND].contains(&scenario.name)
    }

    fn begin(&self, scenario: &Scenario, url: &str) -> io::Result<Box<dyn Run>> {
        let (settings, scenario, url) = (self.settings(scenario)?, scenario.clone(), url.to_owned());
        let (sender, receiver) = channel();
        let (ready, begun) = channel();
        tasks::spawn_thread("ours", move || {
            let runtime = Flavour::Current.runtime();
            let ran = runtime.and_then(|runtime| {
                runtime.block_on(async {
                    let engine = engine(&scenario, &url, settings).await?;
                    let _here = ready.send(());
                    run(&engine.1, &scenario).await
                })
            });
            let _sent = sender.send(ran);
        })?;
        let _failed_then = begun.recv();
        Ok(Box::new(Running(receiver)))
    }
}

struct Running(Receiver<io::Result<SelfReport>>);

impl Run for Running {
    fn finish(self: Box<Self>) -> io::Result<SelfReport> {
        self.0.recv().map_err(io::Error::other)?
    }
}

type Ran = (tempfile::TempDir, Engine<EmbeddedStore>);

async fn engine(scenario: &Scenario, url: &str, settings: EngineSettings) -> io::Result<Ran> {
    let mut api = Api::new("api", url.parse().map_err(io::Error::other)?);
    api.rules = match scenario.limit.whose {
        LimitScope::Everyone => Rules::with_limit(rate(scenario.limit)?),
        LimitScope::EachTenant => Rules::unlimited(),
    };
    let client = Outflow::init([api]).map_err(io::Error::other)?;
    let dir = tempfile::tempdir()?;
    let clock = Arc::new(SystemClock::new());
    let (store, writer) = EmbeddedStore::open(dir.path(), clock).map_err(io::Error::other)?;
    tasks::spawn_thread("writer", move || writer.run())?;
    let engine = Engine::builder(client, Arc::new(store)).settings(settings);
    Ok((dir, engine.start().await.map_err(io::Error::other)?))
}

/// Submits each wave at its time, and waits for the end of all.
async fn run(engine: &Engine<EmbeddedStore>, scenario: &Scenario) -> io::Result<SelfReport> {
    let begun = clock::since_begin();
    let mut waves: Vec<_> = scenario.waves.iter().collect();
    waves.sort_by_key(|wave| wave.at);
    for together in waves.chunk_by(|one, next| one.at == next.at) {
        let at = together.first().map_or(Duration::ZERO, |wave| wave.at);
        sleep((begun + at).saturating_sub(clock::since_begin())).await;
        submit(engine, together).await?;
    }
    submit_interleaved(engine, BatchPosition::Last, Vec::new()).await?;
    let report = engine.wait_finished(&name(ACTION)?).await;
    let report = report.map_err(io::Error::other)?;
    let report = report.ok_or_else(|| io::Error::other("the action is unknown"))?;
    engine.store().audit().await.map_err(io::Error::other)?;
    Ok(SelfReport {
        makespan: clock::since_begin().saturating_sub(begun),
        throttles: report.counts.throttles,
    })
}

/// Submits waves that start together in turns, so that no tenant waits for all jobs of another.
async fn submit(engine: &Engine<EmbeddedStore>, waves: &[&Wave]) -> io::Result<()> {
    let each = (BATCH / u64::try_from(waves.len()).unwrap_or(u64::MAX)).max(1);
    let most = waves.iter().map(|wave| wave.jobs).max().unwrap_or(0);
    for part in 0..most.div_ceil(each) {
        let mut orders = Vec::new();
        for wave in waves {
            let numbers = part * each..wave.jobs.min((part + 1) * each);
            for number in numbers {
                orders.push(job(wave, number)?);
            }
        }
        submit_interleaved(engine, BatchPosition::More, orders).await?;
    }
    Ok(())
}

fn job(wave: &Wave, number: u64) -> io::Result<JobSpec> {
    let mut call = HttpCall::new("api", Method::GET, &format!("/{}/{number}", wave.tenant));
    let value = HeaderValue::from_str(&wave.tenant).map_err(io::Error::other)?;
    call.headers.insert(HeaderName::from_static(TENANT), value);
    Ok(JobSpec::call(name(&wave.tenant)?, call))
}

async fn submit_interleaved(
    engine: &Engine<EmbeddedStore>,
    rest: BatchPosition,
    orders: Vec<JobSpec>,
) -> io::Result<()> {
    let action = ActionSpec {
        timeout: Duration::from_hours(24),
        ..ActionSpec::new(name(ACTION)?)
    };
    let submission = JobSubmission {
        action: Some(action),
        rest,
        jobs: orders,
    };
    engine.submit(submission).await.map_err(io::Error::other)?;
    Ok(())
}

fn rate(limit: Limit) -> io::Result<Rate> {
    Rate::per_second(limit.quantity).map_err(io::Error::other)
}

fn name(text: &str) -> io::Result<Name> {
    Name::new(text).map_err(io::Error::other)
}

/// Jobs in one submission.
const BATCH: u64 = 1_000;

/// Action of all jobs of a run.
const ACTION: &str = "run";

/// Enough for the fastest scenario; autoscaling is not measured here.
const WORKERS: WorkerSettings = WorkerSettings {
    min: Some(256),
    max: Some(256),
    depth: 1_000,
};
