//! Server cost of a job. The figures are printed; the bounds are loose enough for a busy machine.

use std::io::{Read, Write};
use std::ops::Range;

use outflow_store::{JobQueue, StoreControl, SubmitBatch};

use super::*;

/// Cost of a run, for each job.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
struct JobFigures {
    cpu_us: f64,
    submit_us: f64,
    script_us: f64,
    commands: f64,
    round_trips: f64,
}

struct ServerMeter {
    cpu: f64,
    script: f64,
    commands: f64,
    round_trips: f64,
}

fn field(info: &str, name: &str) -> f64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0.0, |value| value.trim().parse().unwrap_or(0.0))
}

fn meter(server: &RedisServer) -> ServerMeter {
    let info = server.command(&["INFO", "all"]).expect("info");
    let stats = |line: &str| {
        let calls = line.split("calls=").nth(1)?.split(',').next()?.parse::<f64>().ok()?;
        Some(calls)
    };
    let lines = info.lines().filter(|line| line.starts_with("cmdstat_"));
    let script = info
        .lines()
        .find(|line| line.starts_with("cmdstat_fcall:"))
        .unwrap_or_default();
    let usec = script.split("usec=").nth(1).and_then(|rest| rest.split(',').next());
    ServerMeter {
        cpu: (field(&info, "used_cpu_user:") + field(&info, "used_cpu_sys:")) * 1e6,
        script: usec.map_or(0.0, |usec| usec.parse().expect("a number")),
        commands: lines.filter_map(stats).sum(),
        round_trips: stats(script).unwrap_or(0.0),
    }
}

/// Submits jobs of several tenants, claims and finishes them, in batches.
async fn run_jobs(fixture: &RedisFixture, jobs: usize, tenants: usize, batch: usize) -> JobFigures {
    let before = meter(&fixture.server);
    let mut queued = 0.0;
    for from in (0..jobs).step_by(batch) {
        submit_some(fixture, from..from + batch, tenants).await;
        if from == 0 {
            queued = memory(&fixture.server);
        }
    }
    let bytes = (memory(&fixture.server) - queued) / to_float(jobs - batch);
    let between = meter(&fixture.server);
    let mut left = jobs;
    while left > 0 {
        let claimed = fixture.claim(batch).await.jobs;
        fixture.finish(&claimed).await;
        left -= claimed.len();
    }
    let after = meter(&fixture.server);
    let each = |after: f64, before: f64| (after - before) / to_float(jobs);
    let figures = JobFigures {
        cpu_us: each(after.cpu, before.cpu),
        submit_us: each(between.cpu, before.cpu),
        script_us: each(after.script, before.script),
        commands: each(after.commands, before.commands),
        round_trips: each(after.round_trips, before.round_trips),
    };
    println!("{jobs} jobs, {tenants} tenants, batch {batch}: {figures:?}, {bytes:.0} B queued");
    figures
}

async fn submit_some(fixture: &RedisFixture, numbers: Range<usize>, tenants: usize) {
    let some = numbers.map(|n| NewJob {
        payload: Bytes::from_static(&[b'x'; 86]),
        ..job(&format!("tenant-{}", n % tenants), 0)
    });
    let submitted = fixture.store.submit(SubmitBatch::from_jobs(some.collect())).await;
    submitted.expect("submitted");
}

/// Converts a count; exact for every number of jobs that fits a test.
fn to_float(jobs: usize) -> f64 {
    u32::try_from(jobs).map(f64::from).expect("fewer")
}

fn memory(server: &RedisServer) -> f64 {
    field(&server.command(&["INFO", "memory"]).expect("info"), "used_memory:")
}

#[tokio::test]
#[ignore = "measures for minutes"]
async fn stress_cost_of_a_job() {
    let fixture = RedisFixture::new().await;
    run_jobs(&fixture, 10_000, 10, 100).await;
    let usual = run_jobs(&fixture, 100_000, 10, 100).await;
    assert!(usual.commands <= 0.5 && usual.round_trips <= 0.031, "{usual:?}");
    run_jobs(&fixture, 100_000, 1_000, 100).await;
    run_jobs(&fixture, 5_000, 10, 1).await;
    run_jobs(&fixture, 100_000, 10, 1_000).await;
}

// Claims all before it settles any, so that each step is measured alone.
#[tokio::test]
#[ignore = "measures for seconds"]
async fn stress_cost_of_each_step() {
    let fixture = RedisFixture::new().await;
    for (jobs, tenants, batch) in [(20_000, 10, 100), (20_000, 1_000, 100), (5_000, 10, 1)] {
        let ping = ping_cost(&fixture.server);
        let mut at = vec![meter(&fixture.server)];
        for from in (0..jobs).step_by(batch) {
            submit_some(&fixture, from..from + batch, tenants).await;
        }
        at.push(meter(&fixture.server));
        let mut claimed = Vec::new();
        while claimed.len() < jobs {
            claimed.extend(fixture.claim(batch).await.jobs);
        }
        at.push(meter(&fixture.server));
        for some in claimed.chunks(batch) {
            fixture.finish(some).await;
        }
        at.push(meter(&fixture.server));
        let each = at.windows(2).map(|two| (two[1].cpu - two[0].cpu) / to_float(jobs));
        let each: Vec<String> = each.map(|cpu| format!("{cpu:.2}")).collect();
        println!("{jobs} jobs, {tenants} tenants, batch {batch}: {each:?} us, ping {ping:.2} us");
    }
}

/// Measures the cheapest command: most of its cost is the network.
fn ping_cost(server: &RedisServer) -> f64 {
    let before = meter(server).cpu;
    let mut wire = std::net::TcpStream::connect(server.address().expect("a port")).expect("a wire");
    let mut answer = [0; 7];
    for _ in 0..PINGS {
        wire.write_all(b"PING\r\n").expect("sent");
        wire.read_exact(&mut answer).expect("answered");
    }
    (meter(server).cpu - before) / f64::from(PINGS)
}

const PINGS: u32 = 5_000;

#[tokio::test]
#[ignore = "a million jobs"]
async fn stress_memory_growth() {
    let fixture = RedisFixture::new().await;
    run_jobs(&fixture, 10_000, 10, 100).await;
    run_jobs(&fixture, 1_000_000, 10, 100).await;
    run_jobs(&fixture, 200_000, 100_000, 100).await;
    fixture.assert_balanced().await;
    while fixture
        .store
        .collect_garbage(outflow_core::WallTime::EPOCH)
        .await
        .expect("tidied")
        > 0
    {}
    let keys = fixture.server.command(&["DBSIZE"]).expect("size");
    assert!(keys.trim().parse::<u64>().expect("a number") < 10, "{keys}");
}
