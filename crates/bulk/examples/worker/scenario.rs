//! A run in which everything happens once. Jobs are done, retried, deferred, dead-lettered, requeued, purged
//! and cancelled; tenants are paused and resumed; an action completes. One session dies, another returns its
//! claims, and a third never learns of its claim.
//!
//! A process that replaces a killed one repeats the run: every step is idempotent. It prints accepted jobs
//! (`took`), so that a test knows that none is accepted twice, and every run of a handler (`did`).

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use outflow::core::{Backoff, WallTime, Weight};
use outflow_bulk::{
    Engine, EngineBuilder, EngineSettings, HandlerError, HandlerTask, HttpCall, JobDestination, JobSpec, JobSubmission,
};
use outflow_store::{
    ActionSpec, ActionStore, AllowAll, BatchPosition, ClaimRequest, CongestionRecord, ControlScope, DeadLetterFilter,
    DeadLetterStore, JobEnd, JobQueue, JobStore, Name, NewJob, PageRequest, Settlement, StoreControl, StoreLimits,
    SubmitBatch, SubmitReceipt, TenantRule, TenantStore,
};

use super::failpoint_store::FailpointStore;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Returns the settings of such a run: a lease short enough for a test to wait for, and quick retries.
pub(crate) fn settings(default: EngineSettings) -> Outcome<EngineSettings> {
    let heavy = TenantRule {
        weight: Weight::new(2)?,
        ..TenantRule::default()
    };
    let narrow = TenantRule {
        in_flight: Some(3),
        ..TenantRule::default()
    };
    Ok(EngineSettings {
        recoveries: 20,
        heartbeat: Duration::from_millis(50),
        backoff: Backoff::full_jitter(Duration::from_millis(5), Duration::from_millis(20))?,
        snapshot_every: Duration::from_millis(100),
        tenants: [(name("t0")?, heavy), (name("t1")?, narrow)].into(),
        ..default
    })
}

/// Registers the handlers of such a run.
pub(crate) fn with_handlers<S: JobStore>(builder: EngineBuilder<S>) -> EngineBuilder<S> {
    builder
        .handler("spare", |task: HandlerTask| async move {
            print_run(&task);
            Ok(Bytes::new())
        })
        .handler("flaky", |task: HandlerTask| async move {
            print_run(&task);
            match task.attempt {
                ..=2 => Err(HandlerError::Passing("not yet".to_owned())),
                _ => Ok(Bytes::new()),
            }
        })
        .handler("busy", |task: HandlerTask| async move {
            print_run(&task);
            match task.attempt {
                1 => Err(HandlerError::Busy(Duration::from_millis(10))),
                _ => Ok(Bytes::new()),
            }
        })
        .handler("fatal", |task: HandlerTask| async move {
            print_run(&task);
            Err(HandlerError::Final("never".to_owned()))
        })
}

fn print_run(task: &HandlerTask) {
    println!("did {} {}", task.id, task.attempt);
}

/// Runs before the engine starts. Of these jobs one session returns two, another never learns of one, and a
/// third dies with three.
pub(crate) async fn prepare<S: JobStore>(store: &FailpointStore<S>) -> Outcome<()> {
    let lane = name("@spare")?;
    let job = |number| {
        let mut job = NewJob::new(name("t0")?, lane.clone(), Bytes::new());
        job.id = Some(name(&format!("spare-{number}"))?);
        Ok(job)
    };
    let jobs = (0..6).map(job).collect::<Outcome<Vec<_>>>()?;
    let submitted = store.submit(SubmitBatch::from_jobs(jobs)).await?;
    for receipt in submitted.receipts {
        if let SubmitReceipt::Accepted { id, .. } = receipt {
            println!("took {id}");
        }
    }
    let request = |session: &str, limit| {
        Ok::<_, Box<dyn Error>>(ClaimRequest {
            lane: lane.clone(),
            session: name(&format!("{session}-{}", std::process::id()))?,
            max: limit,
            lease: ABANDONED_LEASE,
            recoveries: 2,
            limits: None,
            cost: None,
        })
    };
    let giver = request("giver", 2)?;
    let session = giver.session.clone();
    let held = store.claim(giver, &mut AllowAll).await?;
    let back = held.jobs.iter().map(|job| Settlement {
        token: job.token,
        end: JobEnd::Returned,
        arrived: None,
    });
    store.settle(&session, back.collect()).await?;
    let third = request("third", 1)?;
    let session = third.session.clone();
    for job in store.claim(third, &mut AllowAll).await?.jobs {
        store.count_start(&session, job.token, StoreLimits::default()).await?;
        let (token, end) = (job.token, JobEnd::Returned);
        let back = Settlement {
            token,
            end,
            arrived: None,
        };
        store.settle(&session, vec![back]).await?;
    }
    let deaf = request("deaf", 1)?;
    let session = deaf.session.clone();
    store.claim(deaf, &mut AllowAll).await?;
    // A run may end before the engine sends its first heartbeat.
    store.heartbeat(&session, Duration::from_secs(1)).await?;
    store.release_unknown(&session, &[]).await?;
    let ghost = store.claim(request("ghost", 3)?, &mut AllowAll).await?;
    println!("ghost {}", ghost.jobs.len());
    Ok(())
}

/// Runs the main part, with the engine.
pub(crate) async fn run<S: JobStore>(engine: &Engine<FailpointStore<S>>) -> Outcome<()> {
    let store = engine.store();
    let (paused, late) = (ControlScope::Tenant(name("t2")?), ControlScope::Tenant(name("late")?));
    store.pause(&paused).await?;
    submit_main(engine).await?;
    tasks(engine).await?;
    store.resume(&paused).await?;
    store.pause(&late).await?;
    cancel_late(engine).await?;
    println!("waits for the fatal tasks");
    until(async || is_idle(store.inner(), "fatal").await).await?;
    store.purge(&DeadLetterFilter::Jobs(vec![name("fatal-0")?])).await?;
    store.requeue(&DeadLetterFilter::Jobs(vec![name("fatal-1")?])).await?;
    store.release_deferred(&name("t0")?, 10).await?;
    store.reset_congestion(&name("t0")?).await?;
    store.remove_rule(&name("late")?).await?;
    println!("waits for all");
    until(async || Ok(store.inner().job_counts().await?.open() == 0)).await?;
    println!("waits for the action");
    until(async || is_over(store.inner(), "main").await).await?;
    query_all(store).await?;
    store.collect_garbage(WallTime::since_epoch(Duration::ZERO)).await?;
    store.audit().await?;
    for outcome in store.outcomes(&name("main")?, 0, 100).await? {
        println!("outcome {} {}", outcome.id, outcome.attempts);
    }
    Ok(())
}

/// Makes every query that the run has not made yet.
async fn query_all<S: JobStore>(store: &FailpointStore<S>) -> Outcome<()> {
    let (main, tenant) = (name("main")?, name("t0")?);
    store.action(&main).await?;
    store.remaining(&main).await?;
    store.actions(PageRequest::default()).await?;
    store.tenant(&tenant).await?;
    store.lane_loads().await?;
    store.begin_sampling(Duration::from_hours(1)).await?;
    let sample = CongestionRecord {
        tenant: tenant.clone(),
        non_ready: 1,
        speed: 1,
        backoff: Duration::from_secs(1),
    };
    store.record_congestion(vec![sample], Duration::from_hours(1)).await?;
    store.congestion_history(&tenant, 10).await?;
    store.dead_letters(0, 10).await?;
    Ok(())
}

async fn submit_main<S: JobStore>(engine: &Engine<FailpointStore<S>>) -> Outcome<()> {
    let known = engine.store().inner().action(&name("main")?).await?;
    // Once all jobs are stored the action may end at any moment: opening it again would create another action.
    let missing = known.is_none_or(|report| report.counts.submitted() < 40);
    if missing {
        let spec = ActionSpec::new(name("main")?);
        engine.store().open(spec).await?;
    }
    for begin in [0, 10, 20, 30].into_iter().filter(|_| missing) {
        let jobs = (begin..begin + 10).map(|number| call("main", number, 3));
        let jobs = jobs.collect::<Outcome<Vec<_>>>()?;
        submit_jobs(engine, Some("main"), BatchPosition::More, jobs).await?;
    }
    engine.store().close(&name("main")?).await?;
    Ok(())
}

async fn tasks<S: JobStore>(engine: &Engine<FailpointStore<S>>) -> Outcome<()> {
    for (handler, count) in [("flaky", 4), ("busy", 2), ("fatal", 2)] {
        let jobs = (0..count).map(|number| {
            let mut job = JobSpec::task(name(handler)?, handler, Bytes::new());
            job.id = Some(name(&format!("{handler}-{number}"))?);
            Ok(job)
        });
        let jobs = jobs.collect::<Outcome<Vec<_>>>()?;
        submit_jobs(engine, None, BatchPosition::More, jobs).await?;
    }
    Ok(())
}

async fn cancel_late<S: JobStore>(engine: &Engine<FailpointStore<S>>) -> Outcome<()> {
    if is_over(engine.store().inner(), "late").await? {
        return Ok(());
    }
    let jobs = (0..6).map(|number| {
        let mut job = call("late", number, 1)?;
        job.tenant = name("late")?;
        Ok(job)
    });
    let jobs = jobs.collect::<Outcome<Vec<_>>>()?;
    submit_jobs(engine, Some("late"), BatchPosition::Last, jobs).await?;
    engine.store().cancel(&ControlScope::Action(name("late")?)).await?;
    Ok(())
}

async fn submit_jobs<S: JobStore>(
    engine: &Engine<FailpointStore<S>>,
    action: Option<&str>,
    rest: BatchPosition,
    jobs: Vec<JobSpec>,
) -> Outcome<()> {
    let action = action.map(name).transpose()?.map(ActionSpec::new);
    let submission = JobSubmission { action, rest, jobs };
    for placed in engine.submit(submission).await? {
        let taken = matches!(
            placed.destination,
            JobDestination::Ready | JobDestination::NonReady { .. }
        );
        if let Some(id) = placed.id.filter(|_| taken) {
            println!("took {id}");
        }
    }
    Ok(())
}

fn call(kind: &str, number: usize, tenants: usize) -> Outcome<JobSpec> {
    let tenant = name(&format!("t{}", number % tenants))?;
    let path = format!("/{kind}-{number}");
    let mut job = JobSpec::call(tenant, HttpCall::new("api", http::Method::POST, &path));
    job.id = Some(name(&format!("{kind}-{number}"))?);
    Ok(job)
}

async fn is_over<S: JobStore>(store: &S, action: &str) -> Outcome<bool> {
    let report = store.action(&name(action)?).await?;
    Ok(report.is_some_and(|report| report.stage.is_over()))
}

async fn is_idle<S: JobStore>(store: &S, tenant: &str) -> Outcome<bool> {
    let report = store.tenant(&name(tenant)?).await?;
    Ok(report.is_none_or(|report| report.counts.open() == 0))
}

/// Polls, as a user does who refreshes a page.
async fn until(mut holds: impl AsyncFnMut() -> Outcome<bool>) -> Outcome<()> {
    while !holds().await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn name(text: &str) -> Outcome<Name> {
    Ok(text.parse()?)
}

/// Long enough for a claim, and short enough to wait for.
const ABANDONED_LEASE: Duration = Duration::from_millis(200);
