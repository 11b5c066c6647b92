//! `client`: what governing a request costs, over a bare client on the same sockets.
//!
//! The server is bare hyper on a thread of its own. All clients run on one runtime on the thread that
//! measures, a few calls at once over connections that are kept, and are timed by the processor time
//! of that thread, so neither the server nor other programs are in it. The overhead of a client is its
//! time less that of bare hyper in the same round.
//!
//! Ours is the client with limit, health, retries and timeouts and with nobody who listens, as the
//! peers have nobody. `client_overhead_init` is the client as `Outflow::init` makes it, which keeps
//! metrics. `door_overhead` is bare hyper with the door around it by hand.

mod bare;
mod callers;
mod peers;
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

/// Everything that the client promises.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    // The budget runs from here.
    clock::since_begin();
    let ready = Flavour::Current
        .runtime()
        .and_then(|runtime| Ok((runtime, server::start()?)));
    let Ok((runtime, address)) = ready else {
        return vec![Figure::missing("client_overhead", "", "missing: no socket")];
    };
    // The whole client keeps house in the runtime that it is made in.
    let inside = runtime.enter();
    let (entrants, missing) = callers::all(address);
    drop(inside);
    let series = contest(plan, &runtime, &entrants);
    let mut figures = compare(&series);
    figures.extend(missing.iter().map(|name| {
        Figure::missing(
            "client_overhead",
            name,
            "missing: it refused its configuration",
        )
    }));
    figures
}

/// Microseconds per call of each, round by round.
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
        // Connections are made and caches warmed before anybody looks.
        (entrant.turn)(runtime, calls / 4);
    }
    for round in plan.turns() {
        for turn in 0..entrants.len() {
            let seat = (round + turn) % entrants.len();
            if let (Some(entrant), Some(series)) = (entrants.get(seat), all.get_mut(seat)) {
                let seen = (entrant.turn)(runtime, calls);
                series.nanos.push(seen.micros);
                series.strays = series.strays.max(seen.strays);
            }
        }
    }
    all
}

/// What one turn took of the processor, and how much of it failed.
pub(crate) struct Turn {
    micros: f64,
    strays: f64,
}

/// So many calls, a few at once.
pub(crate) fn turn<C: Caller>(runtime: &Runtime, caller: &C, calls: u32) -> Turn {
    let crowd = Arc::new(Crowd {
        left: AtomicU32::new(AT_ONCE),
        failed: AtomicU32::new(0),
        over: Notify::new(),
    });
    let each = calls / AT_ONCE;
    let start = clock::processor_time();
    let here = LocalSet::new();
    for _ in 0..AT_ONCE {
        tasks::start_here(&here, calling(caller.clone(), each, Arc::clone(&crowd)));
    }
    runtime.block_on(here.run_until(crowd.over.notified()));
    let time = clock::processor_time().saturating_sub(start);
    let made = approx(each * AT_ONCE);
    Turn {
        micros: time.as_secs_f64() * 1e6 / made,
        strays: approx(crowd.failed.load(Ordering::Relaxed)) / made,
    }
}

async fn calling<C: Caller>(caller: C, calls: u32, crowd: Arc<Crowd>) {
    for _ in 0..calls {
        let well = caller.call().await;
        crowd.failed.fetch_add(u32::from(!well), Ordering::Relaxed);
    }
    if crowd.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        crowd.over.notify_one();
    }
}

struct Crowd {
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
            // The goal is about the first of them; the others complete the picture.
            let goal = if place == 0 {
                Goal::Ratio(0.5)
            } else {
                Goal::Shown
            };
            figures.push(Figure::against(name, goal, &mine, &over(bare, peer)));
        }
    }
    if let Some(ours) = named(callers::OURS) {
        let beside = std::iter::once(bare).chain(peers);
        let name = "client_cpu_us";
        figures.extend(beside.map(|peer| Figure::against(name, Goal::Shown, ours, peer)));
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

/// The figures, and whose overhead each of them is.
const OVERHEADS: [(&str, &str); 3] = [
    ("client_overhead", callers::OURS),
    ("client_overhead_init", callers::OURS_KEPT),
    ("door_overhead", callers::DOOR),
];

/// Few enough that no contender has to wait for a place, enough that no core sleeps for each call.
const AT_ONCE: u32 = 8;
