//! `ledger`: cost of limits that processes share.
//!
//! On one Redis and one Valkey, ours and other limiters take turns, with a hundred calls in flight: the server's
//! own processor time counts, which is stable where wall time is not. On this host, calls through a shared
//! directory are compared with calls of a process alone.

mod host;
mod node_limiters;
mod on_server;
mod scripts;

use std::io;

use outflow_testkit::{RedisOptions, RedisServer, ServerFlavor};

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::Plan;
use crate::throughput::account::Account;
use node_limiters::NodeLimiter;
use on_server::OnServer;
use scripts::{LimiterScript, ScriptLimiter};

/// A limiter on a server.
trait Limiter {
    fn name(&self) -> &'static str;

    /// Acquires about so many permits, and returns their exact number.
    ///
    /// # Errors
    /// If the server does not answer.
    fn acquire(&mut self, permits: u64) -> io::Result<u64>;
}

/// Server time per permit of one limiter, round by round.
struct ServerCosts {
    name: &'static str,
    micros: Vec<f64>,
}

/// Measures the cost of shared limits.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    clock::since_begin();
    let mut figures = Vec::new();
    for (flavor, suffix) in [(ServerFlavor::Redis, ""), (ServerFlavor::Valkey, "_valkey")] {
        let measured = on_one_server(flavor, suffix, plan);
        figures.extend(measured.unwrap_or_else(|why| {
            let name = format!("redis_us_per_acquire{suffix}");
            vec![Figure::missing(&name, "", &format!("missing: {why}"))]
        }));
    }
    figures.extend(host::figures(plan));
    figures
}

fn on_one_server(flavor: ServerFlavor, suffix: &str, plan: Plan) -> io::Result<Vec<Figure>> {
    let options = RedisOptions {
        flavor,
        ..RedisOptions::default()
    };
    let server = RedisServer::start(options)?;
    let mut limiters: Vec<Box<dyn Limiter>> = vec![
        Box::new(OnServer::new(&server, DEFAULT_LEASE)?),
        Box::new(OnServer::new(&server, 1)?),
    ];
    for script in LimiterScript::ALL {
        limiters.push(Box::new(ScriptLimiter::new(&server, script)?));
    }
    for limiter in NodeLimiter::ALL {
        match limiter.start(&server) {
            Ok(started) => limiters.push(Box::new(started)),
            Err(why) => eprintln!("SKIPPED without {}: {why}", limiter.name()),
        }
    }
    let (rounds, permits) = if plan.is_thorough() { (7, 50_000) } else { (3, 10_000) };
    let mut costs = Vec::new();
    for limiter in &mut limiters {
        // Scripts are loaded and connections opened before the measurement.
        limiter.acquire(permits / 10)?;
        costs.push(ServerCosts {
            name: limiter.name(),
            micros: Vec::new(),
        });
    }
    for _ in 0..rounds {
        for (limiter, costs) in limiters.iter_mut().zip(&mut costs) {
            let before = Account::read(&server)?.processor;
            let acquired = limiter.acquire(permits)?;
            let spent = Account::read(&server)?.processor.saturating_sub(before);
            costs.micros.push(spent.as_secs_f64() * 1e6 / crate::measure::approx(acquired));
        }
    }
    let mut figures = rows(suffix, &costs);
    figures.push(memory(&server, suffix)?);
    Ok(figures)
}

fn rows(suffix: &str, costs: &[ServerCosts]) -> Vec<Figure> {
    let [leased, exact, peers @ ..] = costs else {
        return Vec::new();
    };
    let peers: Vec<(&str, &[f64])> = peers.iter().map(|peer| (peer.name, peer.micros.as_slice())).collect();
    let name = |figure: &str| format!("{figure}{suffix}");
    let mut figures = Figure::with_peers(&name("redis_us_per_acquire"), Goal::Own(0.1), &leased.micros, &peers);
    figures.extend(Figure::with_peers(
        &name("exact_us_per_acquire"),
        Goal::Own(9.0),
        &exact.micros,
        &peers,
    ));
    figures
}

/// Compares the memory of an account with that of a log in a sorted set, for a thousand calls in a window.
fn memory(server: &RedisServer, suffix: &str) -> io::Result<Figure> {
    let mut log = ScriptLimiter::new(server, LimiterScript::SortedSetLog)?;
    let before = Account::read(server)?.memory;
    log.acquire_one_key(1_000)?;
    let theirs = Account::read(server)?.memory.saturating_sub(before);
    let mut ours = OnServer::with_accounts(server, 1, 1)?;
    let before = Account::read(server)?.memory;
    ours.acquire(1_000)?;
    let own = Account::read(server)?.memory.saturating_sub(before);
    let share = crate::measure::approx(own) / crate::measure::approx(theirs.max(1));
    Ok(Figure::alone(&format!("account_bytes_of_zset_log{suffix}"), Goal::Own(0.1), &[share]))
}

/// Units of a lease of a busy process.
const DEFAULT_LEASE: u64 = 100;

/// Calls in flight at once.
const IN_FLIGHT: usize = 100;
