//! The scripts against the core's account: every answer is equal, at the times that the server names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outflow_core::{
    Account, CallArrivals, Clock, ClockPair, CountBy, LeaseAnswer, LeaseRequest, LeaseUnits, LedgerError, Limit,
    MAX_LIMITS, Nanos, QuotaWant, WallTime,
};
use outflow_testkit::{RedisOptions as ServerOptions, RedisServer, ServerFlavor};

use super::ledger_runner::LedgerRunner;
use crate::redis::options::RedisOptions;
use crate::redis::server_locator::ServerLocator;

/// Numbers from a seed, the same in every run.
struct Draws(u64);

impl Draws {
    /// Draws a number below `most`.
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn span(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(most.as_micros()).expect("short")))
    }
}

/// A process as the account knows it.
#[derive(Default)]
struct Holder {
    number: u64,
    joined: u64,
    held: LeaseUnits,
    last: Option<LeaseRequest>,
}

/// A clock that stands still: the server's jumps are of no interest here.
#[derive(Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }

    fn wall(&self) -> WallTime {
        WallTime::EPOCH
    }
}

const TTL: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_millis(15);

/// Short windows, so that many of them pass in a short test: the server's time is real.
fn configurations() -> [Vec<Limit>; 3] {
    let rate = |quantity, ms| outflow_core::Rate::new(quantity, Duration::from_millis(ms)).expect("valid");
    [
        vec![
            Limit::sliding(rate(20, 40)).measured_in(CountBy::Calls),
            Limit::sliding(rate(90, 300)),
        ],
        vec![
            Limit::sliding(rate(15, 40)).measured_in(CountBy::Calls),
            Limit::aligned(rate(60, 1_000)).expect("a second"),
            Limit::bucket(rate(40, 50), 30).expect("a burst"),
        ],
        vec![
            Limit::sliding(rate(5, 10)),
            Limit::bucket(rate(20, 50), 30).expect("a burst"),
        ],
    ]
}

fn next_request(draws: &mut Draws, id: u64, holder: &mut Holder, generation: u64) -> LeaseRequest {
    let repeats = holder.last.clone().filter(|_| draws.below(12) == 0);
    if let Some(last) = repeats {
        return last;
    }
    if draws.below(40) == 0 {
        *holder = Holder::default();
    }
    let mut rest = holder.held;
    let arrived = (0..draws.below(3)).map(|_| {
        let calls = draws.below(rest.calls + 1);
        let units = LeaseUnits::new(calls, if calls == 0 { 0 } else { draws.below(rest.cost + 1) });
        rest = rest.minus(units);
        CallArrivals {
            units,
            ages: [(); MAX_LIMITS].map(|()| draws.span(Duration::from_millis(5))),
        }
    });
    let arrived = arrived.collect();
    let returned = match draws.below(3) {
        0 => rest,
        _ => LeaseUnits::ZERO,
    };
    let wanted = match draws.below(4) {
        0 => QuotaWant::default(),
        1 => QuotaWant {
            units: LeaseUnits::new(1 + draws.below(4), draws.below(30)),
            first: draws.below(40),
        },
        _ => QuotaWant::calls(1 + draws.below(8)),
    };
    let facts = (draws.below(20) == 0).then(|| {
        let words = (0..draws.below(5)).map(|_| u64::MAX - draws.below(99)).collect();
        (
            generation - draws.below(2).min(generation),
            words,
            draws.span(Duration::from_millis(30)),
        )
    });
    let [first, second, third] = configurations();
    LeaseRequest {
        holder: id,
        number: holder.number + 1 + u64::from(draws.below(60) == 0),
        joined: holder.joined,
        limits: match draws.below(30) {
            0 => third,
            1..=5 => second,
            _ => first,
        },
        arrived,
        returned,
        wanted,
        ttl: if draws.below(25) == 0 { Duration::ZERO } else { TTL },
        timeout: TIMEOUT,
        facts_seen: generation,
        facts,
    }
}

fn sorted(mut answer: Result<LeaseAnswer, LedgerError>) -> Result<LeaseAnswer, LedgerError> {
    if let Ok(answer) = &mut answer {
        let key =
            |limit: &outflow_core::LimitUsage| (limit.rate.per(), limit.measure.name(), format!("{:?}", limit.kind));
        answer.limits.sort_unstable_by_key(key);
    }
    answer
}

async fn compare(flavor: ServerFlavor, seed: u64, renewals: usize) {
    let server = RedisServer::start(ServerOptions {
        flavor,
        ..ServerOptions::default()
    })
    .expect("a server");
    let runner = LedgerRunner::new(
        Arc::new(ServerLocator::new(&RedisOptions::new(server.url())).expect("an address")),
        &RedisOptions::new(server.url()),
        Arc::new(NoClock),
    );
    runner.ensure_connected().await.expect("it answers");
    // The model knows nothing of a server that has just started.
    let open = ["HSET", "{outflow}:ledger", "opens", "0"];
    server.command(&open).expect("opened");
    let origin = server
        .command(&["HGET", "{outflow}:ledger", "origin"])
        .expect("an identity");
    let origin = Duration::from_micros(origin.parse().expect("a number"));
    let mut draws = Draws(seed);
    let mut model: Option<Account> = None;
    let (mut holders, mut generation) = (HashMap::<u64, Holder>::new(), 0);
    for step in 0..renewals {
        let id = 1 + draws.below(6);
        let holder = holders.entry(id).or_default();
        let request = next_request(&mut draws, id, holder, generation);
        let reply = runner.send_renewal("api", &request).await.expect("an answer");
        let now = Nanos::from_nanos(u64::try_from(reply.server_time.saturating_sub(origin).as_nanos()).expect("soon"));
        let model = model.get_or_insert_with(|| {
            Account::new(ClockPair {
                now,
                wall: WallTime::since_epoch(reply.server_time),
            })
        });
        let expected = model.renew(now, &request.as_renewal()).map_err(LedgerError::Refused);
        let (answer, expected) = (sorted(reply.answer), sorted(expected));
        assert_eq!(answer, expected, "seed {seed}, step {step}: {request:?}");
        if let Ok(answer) = answer {
            let arrived = request.arrived.iter().map(|run| run.units);
            let is_new = request.number > holder.number;
            if is_new {
                let gone = arrived.fold(LeaseUnits::ZERO, LeaseUnits::plus);
                holder.held = holder.held.minus(gone).minus(request.returned).plus(answer.granted);
            }
            (holder.number, holder.joined) = (request.number, answer.joined);
            generation = answer.facts.map_or(generation, |facts| facts.generation);
            holder.last = Some(request);
        } else {
            *holder = Holder::default();
        }
    }
    let forgotten = server.command(&["PTTL", "{outflow}:a:api"]).expect("a time to live");
    assert!(
        forgotten.parse::<i64>().expect("a number") > 0,
        "the server forgets it: {forgotten}"
    );
}

// A ledger that lost its data is closed for a minute and more; an operator knows that nothing was sent.
#[tokio::test]
async fn a_forgotten_account_on_redis_is_open_at_once() {
    let server = RedisServer::start(ServerOptions::default()).expect("a server");
    let options = RedisOptions::new(server.url());
    let locator = Arc::new(ServerLocator::new(&options).expect("an address"));
    let runner = LedgerRunner::new(locator, &options, Arc::new(NoClock));
    runner.ensure_connected().await.expect("it answers");
    let origin = server
        .command(&["HGET", "{outflow}:ledger", "origin"])
        .expect("an identity");
    for (field, value) in [("doubt", origin.as_str()), ("opens", "0")] {
        server
            .command(&["HSET", "{outflow}:ledger", field, value])
            .expect("it is set");
    }
    let request = |number, joined| LeaseRequest {
        holder: 7,
        number,
        joined,
        limits: vec![Limit::sliding("10/min".parse().expect("a rate"))],
        arrived: Vec::new(),
        returned: LeaseUnits::ZERO,
        wanted: QuotaWant::calls(10),
        ttl: Duration::from_secs(5),
        timeout: TIMEOUT,
        facts_seen: 0,
        facts: None,
    };
    let closed = runner.send_renewal("api", &request(1, 0)).await.expect("a reply");
    let closed = closed.answer.expect("a member");
    assert_eq!(closed.granted, LeaseUnits::ZERO);
    assert!(runner.forget_account("api").await.expect("an answer"));
    let open = runner
        .send_renewal("api", &request(2, closed.joined))
        .await
        .expect("a reply");
    assert_eq!(open.answer.expect("a member").granted, LeaseUnits::new(10, 10));
    assert!(!runner.forget_account("other").await.expect("an answer"));
}

#[tokio::test]
async fn the_scripts_answer_as_the_account() {
    compare(ServerFlavor::Redis, 1, 10_000).await;
}

#[tokio::test]
async fn the_scripts_answer_as_the_account_on_valkey() {
    compare(ServerFlavor::Valkey, 2, 10_000).await;
}

#[tokio::test]
#[ignore = "a hundred thousand renewals"]
async fn stress_the_scripts_answer_as_the_account() {
    for seed in 0..10 {
        compare(ServerFlavor::Either, 100 + seed, 10_000).await;
    }
}
