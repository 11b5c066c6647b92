//! Calls through the accounts of a directory, against calls of a process alone.

use std::io;
use std::sync::Arc;
use std::thread;

use outflow::{AttemptResult, Events, LimitSharing, Rules, SharedTimer, SystemClock, Upstream};
use outflow_core::Limit;
use outflow_ledger::{HostLedger, LedgerDir};

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx};

/// Measures calls through a directory: processor time of callers and of the ledger's threads.
pub(super) fn figures(plan: Plan) -> Vec<Figure> {
    let (rounds, calls) = if plan.is_thorough() { (7, 100_000) } else { (3, 20_000) };
    let measured = |sharers: usize| -> io::Result<(Vec<f64>, Vec<f64>)> {
        let (mut shared, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            shared.push(nanos_per_call(sharers, calls, true)?);
            alone.push(nanos_per_call(sharers, calls, false)?);
        }
        Ok((shared, alone))
    };
    let row = |sharers: usize| {
        let name = format!("host_acquire_ns_{sharers}");
        match measured(sharers) {
            Ok((shared, alone)) => Figure::with_peers(&name, Goal::Own(500.0), &shared, &[("without a ledger", &alone)]),
            Err(why) => vec![Figure::missing(&name, "", &format!("missing: {why}"))],
        }
    };
    [1, 4].into_iter().flat_map(row).collect()
}

/// Returns the processor time of one call, acquired and settled. Each sharer has its own ledger, as a process
/// has; locks of files are between open files, so threads meet them as processes do.
fn nanos_per_call(sharers: usize, calls: u64, is_shared: bool) -> io::Result<f64> {
    let folder = tempfile::tempdir()?;
    let upstreams: Vec<Upstream> = (0..sharers)
        .map(|_| {
            let upstream = upstream()?;
            if is_shared {
                let dir = LedgerDir::open(folder.path()).map_err(io::Error::other)?;
                let ledger = HostLedger::open(dir, Arc::new(SystemClock::new())).map_err(io::Error::other)?;
                upstream.share(LimitSharing::new(Arc::new(ledger), "bench".into()));
            }
            Ok(upstream)
        })
        .collect::<io::Result<_>>()?;
    // Leases grow to the use of the process first.
    run(&upstreams, calls / 4);
    let before = clock::process_time();
    run(&upstreams, calls);
    let spent = clock::process_time().saturating_sub(before);
    let all = calls.saturating_mul(u64::try_from(sharers).unwrap_or(1));
    Ok(spent.as_secs_f64() * 1e9 / approx(all))
}

fn run(upstreams: &[Upstream], calls: u64) {
    thread::scope(|scope| {
        for upstream in upstreams {
            scope.spawn(move || call(upstream, calls));
        }
    });
}

fn call(upstream: &Upstream, calls: u64) {
    let target = upstream.route(&http::Method::GET, "/");
    let mut made = 0;
    while made < calls {
        match upstream.try_acquire(target) {
            Ok(mut permit) => {
                permit.sending();
                permit.settle(AttemptResult::status(200));
                made += 1;
            }
            // The ledger's thread answers within microseconds.
            Err(_) => clock::nap(),
        }
    }
}

fn upstream() -> io::Result<Upstream> {
    let limit = Limit::sliding("1000000/s".parse().map_err(io::Error::other)?);
    let rules = Rules {
        limits: vec![limit],
        ..Rules::unlimited()
    };
    let timer: SharedTimer = Arc::new(SystemClock::new());
    Upstream::new("bench", rules, timer, Events::new()).map_err(io::Error::other)
}
