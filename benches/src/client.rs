//! `client`: overhead of a governed request, over a bare client on the same sockets.
//!
//! The server is bare hyper on its own thread. All clients run on one runtime on the measuring thread, a few
//! calls at once over pooled connections. They are measured by the processor time of that thread, which
//! excludes the server and other programs. The overhead of a client is its time less that of bare hyper in the
//! same round.
//!
//! Ours is the client with limit, health, retries and timeouts and without observers, as the peers have none.
//! `client_overhead_init` is the client of `Outflow::init`, which keeps metrics. `upstream_overhead` is bare
//! hyper with `Upstream` called by hand.

mod bare;
mod callers;
pub(crate) mod peers;
pub(crate) mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, Series, approx};
use crate::tasks::{self, Flavour};
use callers::{Caller, Entrant};

/// Measures all figures of the client.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    // The budget starts here.
    clock::since_begin();
    let ready = Flavour::Current
        .runtime()
        .and_then(|runtime| Ok((runtime, server::start()?)));
    let Ok((runtime, address)) = ready else {
        return vec![Figure::missing("client_overhead", "", "missing: no socket")];
    };
    // The whole client runs its services in the runtime that creates it.
    let inside = runtime.enter();
    let (entrants, missing) = callers::all(address);
    drop(inside);
    let series = contest(plan, &runtime, &entrants);
    let mut figures = compare(&series);
    figures.extend(
        missing
            .iter()
            .map(|name| Figure::missing("client_overhead", name, "missing: it refused its configuration")),
    );
    figures
}

/// Returns the microseconds per call of each contender, round by round.
fn contest(plan: Plan, runtime: &Runtime, entrants: &[Entrant]) -> Vec<Series> {
    let mut all: Vec<Series> = entrants
        .iter()
        .map(|entrant| Series {
            name: entrant.name,
            nanos: Vec::new(),
            strays: 0.0,
        })
        .collect();
    let calls = if plan.is_thorough() { 12_000 } else { 6_000 };
    for entrant in entrants {
        // Opens connections and warms caches before the measurement.
        (entrant.turn)(runtime, calls / 4);
    }
    for round in plan.turns() {
        for turn in 0..entrants.len() {
            let index = (round + turn) % entrants.len();
            if let (Some(entrant), Some(series)) = (entrants.get(index), all.get_mut(index)) {
                let seen = (entrant.turn)(runtime, calls);
                series.nanos.push(seen.micros);
                series.strays = series.strays.max(seen.strays);
            }
        }
    }
    all
}

/// Processor time of one turn, and its failed calls.
pub(crate) struct Turn {
    micros: f64,
    strays: f64,
}

/// Makes calls, a few at once.
pub(crate) fn turn<C: Caller>(runtime: &Runtime, caller: &C, calls: u32) -> Turn {
    let group = Arc::new(CallGroup {
        left: AtomicU32::new(CONCURRENCY),
        failed: AtomicU32::new(0),
        over: Notify::new(),
    });
    let each = calls / CONCURRENCY;
    let start = clock::processor_time();
    let here = LocalSet::new();
    for _ in 0..CONCURRENCY {
        tasks::start_here(&here, calling(caller.clone(), each, Arc::clone(&group)));
    }
    runtime.block_on(here.run_until(group.over.notified()));
    let time = clock::processor_time().saturating_sub(start);
    let made = approx(each * CONCURRENCY);
    Turn {
        micros: time.as_secs_f64() * 1e6 / made,
        strays: approx(group.failed.load(Ordering::Relaxed)) / made,
    }
}

async fn calling<C: Caller>(caller: C, calls: u32, group: Arc<CallGroup>) {
    for _ in 0..calls {
        let well = caller.call().await;
        group.failed.fetch_add(u32::from(!well), Ordering::Relaxed);
    }
    if group.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        group.over.notify_one();
    }
}

struct CallGroup {
    left: AtomicU32,
    failed: AtomicU32,
    over: Notify,
}

fn compare(series: &[Series]) -> Vec<Figure> {
    let named = |name| series.iter().find(|series| series.name == name);
    let Some(bare) = named(callers::BARE) else {
        return Vec::new();
    };
    let peers: Vec<&Series> = callers::PEERS.into_iter().filter_map(named).collect();
    let mut figures = Vec::new();
    for (name, mine) in OVERHEADS {
        let Some(mine) = named(mine).map(|mine| over(bare, mine)) else {
            continue;
        };
        for (place, peer) in peers.iter().enumerate() {
            // The goal applies to the first peer; the others are for comparison.
            let goal = if place == 0 { Goal::Ratio(0.5) } else { Goal::Shown };
            figures.push(Figure::against(name, goal, &mine, &over(bare, peer)));
        }
    }
    if let Some(ours) = named(callers::OURS) {
        let all_peers = std::iter::once(bare).chain(peers);
        let name = "client_cpu_us";
        figures.extend(all_peers.map(|peer| Figure::against(name, Goal::Shown, ours, peer)));
    }
    figures
}

fn over(bare: &Series, other: &Series) -> Series {
    let rounds = other.nanos.iter().zip(&bare.nanos);
    Series {
        nanos: rounds.map(|(other, bare)| other - bare).collect(),
        ..other.clone()
    }
}

/// The figures, and the contender of each.
const OVERHEADS: [(&str, &str); 3] = [
    ("client_overhead", callers::OURS),
    ("client_overhead_init", callers::OURS_WITH_METRICS),
    ("upstream_overhead", callers::UPSTREAM),
];

/// Few enough that no call waits for a connection, and enough that no core sleeps between calls.
const CONCURRENCY: u32 = 8;
