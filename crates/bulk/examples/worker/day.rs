//! A day in which everything happens once: jobs that are done, retried, refused, buried, revived, purged
//! and cancelled, tenants that are paused and resumed, an action that completes, a session that dies,
//! another that gives back what it took, and a third that never heard of it.
//!
//! Whoever is killed in the middle of it begins it again: each step can be asked for a second time and
//! changes nothing that it changed already. It says which jobs were taken (`took`), so that whoever
//! listens knows that none is taken twice, and what its handlers do (`did`).

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use outflow::SystemClock;
use outflow::core::{Backoff, Clock as _, Cost, CountBy, WallTime, Weight};
use outflow_bulk::{
    Engine, EngineBuilder, EngineSettings, HandlerError, HandlerTask, HttpCall, JobDestination,
    JobSpec, JobSubmission,
};
use outflow_store::{
    ActionSpec, ActionStore, AllowAll, BatchPosition, ClaimRequest, ControlScope, DeadLetterFilter,
    DeadLetterStore, JobEnd, JobQueue, JobStore, Name, NewJob, PageRequest, Settlement,
    SharedLimit, SharedLimits, StartDebit, StoreControl, SubmitBatch, SubmitReceipt, TenantRule,
    TenantStore,
};

use super::peril::Peril;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How the engine of such a day works: a lease that a test waits for, and retries that it need not.
pub(crate) fn settings(usual: EngineSettings) -> Outcome<EngineSettings> {
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
        ..usual
    })
}

/// Those who do the tasks of such a day.
pub(crate) fn staffed<S: JobStore>(builder: EngineBuilder<S>) -> EngineBuilder<S> {
    builder
        .handler("spare", |task: HandlerTask| async move {
            did(&task);
            Ok(Bytes::new())
        })
        .handler("flaky", |task: HandlerTask| async move {
            did(&task);
            match task.attempt {
                ..=2 => Err(HandlerError::Passing("not yet".to_owned())),
                _ => Ok(Bytes::new()),
            }
        })
        .handler("busy", |task: HandlerTask| async move {
            did(&task);
            match task.attempt {
                1 => Err(HandlerError::Busy(Duration::from_millis(10))),
                _ => Ok(Bytes::new()),
            }
        })
        .handler("fatal", |task: HandlerTask| async move {
            did(&task);
            Err(HandlerError::Final("never".to_owned()))
        })
}

fn did(task: &HandlerTask) {
    println!("did {} {}", task.id, task.attempt);
}

/// Before anybody works: jobs of which one session gives two back, another never heard of one, and a third
/// dies over three.
pub(crate) async fn dawn<S: JobStore>(store: &Peril<S>) -> Outcome<()> {
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
    let ask = |session: &str, most| {
        Ok::<_, Box<dyn Error>>(ClaimRequest {
            lane: lane.clone(),
            session: name(&format!("{session}-{}", std::process::id()))?,
            most,
            lease: GHOSTS,
            recoveries: 2,
            plan: None,
        })
    };
    let giver = ask("giver", 2)?;
    let session = giver.session.clone();
    let held = store.claim(giver, &mut AllowAll).await?;
    let back = held.jobs.iter().map(|job| Settlement {
        token: job.token,
        end: JobEnd::Returned,
    });
    store.settle(&session, back.collect()).await?;
    let deaf = ask("deaf", 1)?;
    let session = deaf.session.clone();
    store.claim(deaf, &mut AllowAll).await?;
    // A day may be shorter than what the engine waits before its first.
    store.heartbeat(&session, Duration::from_secs(1)).await?;
    store.release_unknown(&session, &[]).await?;
    let ghost = store.claim(ask("ghost", 3)?, &mut AllowAll).await?;
    println!("ghost {}", ghost.jobs.len());
    Ok(())
}

/// The day itself.
pub(crate) async fn day<S: JobStore>(engine: &Engine<Peril<S>>) -> Outcome<()> {
    let store = engine.store();
    let (paused, late) = (
        ControlScope::Tenant(name("t2")?),
        ControlScope::Tenant(name("late")?),
    );
    store.pause(&paused).await?;
    submit_main(engine).await?;
    tasks(engine).await?;
    store.resume(&paused).await?;
    store.pause(&late).await?;
    cancel_late(engine).await?;
    println!("waits for those that are hopeless");
    until(async || is_idle(store.calm(), "fatal").await).await?;
    store
        .purge(&DeadLetterFilter::Jobs(vec![name("fatal-0")?]))
        .await?;
    store
        .requeue(&DeadLetterFilter::Jobs(vec![name("fatal-1")?]))
        .await?;
    store.release_deferred(&name("t0")?, 10).await?;
    store.reset_congestion(&name("t0")?).await?;
    store.remove_rule(&name("late")?).await?;
    a_start_outside(store).await?;
    println!("waits for all");
    until(async || Ok(store.calm().job_counts().await?.open() == 0)).await?;
    println!("waits for the action");
    until(async || is_over(store.calm(), "main").await).await?;
    look_around(store).await?;
    store
        .collect_garbage(WallTime::since_epoch(Duration::ZERO))
        .await?;
    store.audit().await?;
    for outcome in store.outcomes(&name("main")?, 0, 100).await? {
        println!("outcome {} {}", outcome.id, outcome.attempts);
    }
    Ok(())
}

/// A start that is debited outside of a claim, and given back.
async fn a_start_outside<S: JobStore>(store: &Peril<S>) -> Outcome<()> {
    let limit = SharedLimit {
        name: "P0 day".to_owned(),
        rate: "100/min".parse()?,
        measure: CountBy::Cost,
    };
    let start = StartDebit {
        tenant: name("t0")?,
        cost: Cost::ONE,
        plan: SharedLimits {
            limits: vec![limit],
            guard: Duration::ZERO,
            horizon: Duration::ZERO,
        },
    };
    store.debit(&start).await?;
    let now = SystemClock::new().wall().since(WallTime::EPOCH);
    store.refund(&start, now).await?;
    Ok(())
}

/// Everything that can be looked at and was not yet.
async fn look_around<S: JobStore>(store: &Peril<S>) -> Outcome<()> {
    let (main, tenant) = (name("main")?, name("t0")?);
    store.action(&main).await?;
    store.remaining(&main).await?;
    store.actions(PageRequest::default()).await?;
    store.tenant(&tenant).await?;
    store.sample_congestion(Duration::from_hours(1)).await?;
    store.congestion_history(&tenant, 10).await?;
    store.dead_letters(0, 10).await?;
    Ok(())
}

async fn submit_main<S: JobStore>(engine: &Engine<Peril<S>>) -> Outcome<()> {
    let known = engine.store().calm().action(&name("main")?).await?;
    // Once all are there it may be over at any moment: opened again it would be another action.
    let missing = known.is_none_or(|report| report.tally.submitted() < 40);
    if missing {
        let spec = ActionSpec::new(name("main")?);
        engine.store().open(spec).await?;
    }
    for begin in [0, 10, 20, 30].into_iter().filter(|_| missing) {
        let orders = (begin..begin + 10).map(|number| call("main", number, 3));
        let orders = orders.collect::<Outcome<Vec<_>>>()?;
        hand_in(engine, Some("main"), BatchPosition::More, orders).await?;
    }
    engine.store().close(&name("main")?).await?;
    Ok(())
}

async fn tasks<S: JobStore>(engine: &Engine<Peril<S>>) -> Outcome<()> {
    for (handler, count) in [("flaky", 4), ("busy", 2), ("fatal", 2)] {
        let orders = (0..count).map(|number| {
            let mut order = JobSpec::task(name(handler)?, handler, Bytes::new());
            order.id = Some(name(&format!("{handler}-{number}"))?);
            Ok(order)
        });
        let orders = orders.collect::<Outcome<Vec<_>>>()?;
        hand_in(engine, None, BatchPosition::More, orders).await?;
    }
    Ok(())
}

async fn cancel_late<S: JobStore>(engine: &Engine<Peril<S>>) -> Outcome<()> {
    if is_over(engine.store().calm(), "late").await? {
        return Ok(());
    }
    let orders = (0..6).map(|number| {
        let mut order = call("late", number, 1)?;
        order.tenant = name("late")?;
        Ok(order)
    });
    let orders = orders.collect::<Outcome<Vec<_>>>()?;
    hand_in(engine, Some("late"), BatchPosition::Last, orders).await?;
    engine
        .store()
        .cancel(&ControlScope::Action(name("late")?))
        .await?;
    Ok(())
}

async fn hand_in<S: JobStore>(
    engine: &Engine<Peril<S>>,
    action: Option<&str>,
    rest: BatchPosition,
    orders: Vec<JobSpec>,
) -> Outcome<()> {
    let action = action.map(name).transpose()?.map(ActionSpec::new);
    let submission = JobSubmission {
        action,
        rest,
        jobs: orders,
    };
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
    let mut order = JobSpec::call(tenant, HttpCall::new("api", http::Method::POST, &path));
    order.id = Some(name(&format!("{kind}-{number}"))?);
    Ok(order)
}

async fn is_over<S: JobStore>(store: &S, action: &str) -> Outcome<bool> {
    let report = store.action(&name(action)?).await?;
    Ok(report.is_some_and(|report| report.stage.is_over()))
}

async fn is_idle<S: JobStore>(store: &S, tenant: &str) -> Outcome<bool> {
    let report = store.tenant(&name(tenant)?).await?;
    Ok(report.is_none_or(|report| report.tally.open() == 0))
}

/// Looks again and again, because nothing tells it: it stands for a user who looks at a page.
async fn until(mut holds: impl AsyncFnMut() -> Outcome<bool>) -> Outcome<()> {
    while !holds().await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn name(text: &str) -> Outcome<Name> {
    Ok(text.parse()?)
}

/// Long enough to be claimed under, and short enough to wait for.
const GHOSTS: Duration = Duration::from_millis(200);
