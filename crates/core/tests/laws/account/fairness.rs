//! Saturated holders: fair parts, full use, and never over the limit.
//!
//! Calls take 20 ms and count at their response; a renewal takes no time.

use std::time::Duration;

use outflow_core::{Account, CallArrivals, ClockPair, LeaseRenewal, LeaseUnits, Limit, MAX_LIMITS, QuotaWant};

use crate::support::{at, rate};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
const RTT: u64 = 20 * MILLI;

/// Figures of a run.
#[derive(Debug)]
struct Figures {
    /// Units of each holder after the first window.
    units: Vec<u64>,
    /// Sent units divided by those that the limit allows in that time.
    used: f64,
}

impl Figures {
    fn spread(&self) -> f64 {
        let (most, least) = (self.units.iter().max(), self.units.iter().min());
        approximate(*most.expect("holders")) / approximate(*least.expect("holders"))
    }
}

/// Holder with endless calls of one cost.
struct SimulatedHolder {
    id: u64,
    cost: u64,
    number: u64,
    joined: u64,
    /// Time of the next renewal, unless a call ends earlier.
    due: u64,
    flights: Vec<SimulatedCall>,
}

struct SimulatedCall {
    ends: u64,
    cost: u64,
}

impl SimulatedHolder {
    const fn new(id: u64, cost: u64) -> Self {
        Self {
            id,
            cost,
            number: 1,
            joined: 0,
            due: 0,
            flights: Vec::new(),
        }
    }

    /// Renews if it is time, sends all that was granted, and returns its units.
    fn send(&mut self, now: u64, account: &mut Account, limits: &[Limit]) -> u64 {
        let arrived = self.take_arrived(now);
        if now < self.due && arrived.is_empty() {
            return 0;
        }
        let renewal = LeaseRenewal {
            holder: self.id,
            number: self.number,
            joined: self.joined,
            limits,
            arrived: &arrived,
            returned: LeaseUnits::ZERO,
            wanted: QuotaWant {
                units: LeaseUnits::new(4, 4 * self.cost),
                first: self.cost,
            },
            ttl: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            facts_seen: 0,
            facts: None,
        };
        let answer = account.renew(at(now), &renewal).expect("a known holder");
        (self.number, self.joined) = (self.number + 1, answer.joined);
        // A lease is renewed long before its end.
        let wait = answer.wait.unwrap_or(Duration::from_millis(1));
        self.due = now + nanos(wait.min(Duration::from_millis(500)));
        // Whole calls are sent at once; what is left of a grant is kept by the count of cost.
        let sent = answer.granted.cost;
        if sent > 0 {
            self.flights.push(SimulatedCall {
                ends: now + RTT,
                cost: sent,
            });
        }
        sent
    }

    fn take_arrived(&mut self, now: u64) -> Vec<CallArrivals> {
        let ended = self.flights.extract_if(.., |flight| flight.ends <= now);
        let arrived = ended.map(|flight| CallArrivals {
            units: LeaseUnits::new(flight.cost / self.cost, flight.cost),
            ages: [Duration::from_nanos(now - flight.ends); MAX_LIMITS],
        });
        arrived.collect()
    }
}

/// Lets holders with endless calls of these costs use one limit for so many seconds.
fn saturate(limit: Limit, costs: &[u64], seconds: u64) -> Figures {
    let mut account = Account::new(ClockPair::default());
    let window = nanos(limit.rate().per());
    let mut holders: Vec<_> = (0..)
        .zip(costs)
        .map(|(id, cost)| SimulatedHolder::new(id, *cost))
        .collect();
    let mut units = vec![0; costs.len()];
    for now in (0..seconds * 1_000).map(|millis| millis * MILLI) {
        for (holder, units) in holders.iter_mut().zip(&mut units) {
            let sent = holder.send(now, &mut account, &[limit]);
            if now >= window {
                *units += sent;
            }
        }
    }
    let windows = approximate(seconds * SECOND - window) / approximate(window);
    let allowed = windows * approximate(limit.rate().quantity());
    let used = approximate(units.iter().sum()) / allowed;
    Figures { units, used }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("a short span")
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "shown and compared roughly"
)]
const fn approximate(number: u64) -> f64 {
    number as f64
}

// One call in 20 ms of flight costs up to 4 % of a window of 1 s; buckets have no window to wait for.
#[test]
fn equal_saturated_holders_get_equal_parts() {
    for (name, limit) in [
        ("sliding 50/s", Limit::sliding(rate(50, SECOND))),
        ("sliding 1000/s", Limit::sliding(rate(1_000, SECOND))),
        ("fixed 100/10s", Limit::fixed(rate(100, 10 * SECOND))),
        ("aligned 50/s", Limit::aligned(rate(50, SECOND)).expect("even")),
        (
            "bucket 50/s of 10",
            Limit::bucket(rate(50, SECOND), 10).expect("positive"),
        ),
    ] {
        let figures = saturate(limit, &[1; 8], 60);
        println!(
            "{name}: use {:.3}, max/min {:.3}, {:?}",
            figures.used,
            figures.spread(),
            figures.units
        );
        let total: u64 = figures.units.iter().sum();
        let is_near = |units: &u64| (units * 8).abs_diff(total) * 20 <= total;
        assert!(
            figures.units.iter().all(is_near),
            "within 5 % of the mean, {name}: {figures:?}"
        );
        assert!(figures.used > 0.9 && figures.used <= 1.03, "{name}: {figures:?}");
    }
}

// Three holders with light calls and one whose calls cost half of the limit.
#[test]
fn heavy_calls_are_not_starved() {
    let figures = saturate(Limit::sliding(rate(10, SECOND)), &[5, 1, 1, 1], 120);
    println!("heavy: use {:.3}, {:?}", figures.used, figures.units);
    let fair = figures.units.iter().sum::<u64>() / 4;
    assert!(figures.units[0] * 10 >= fair * 8, "{figures:?}");
}

#[test]
fn one_busy_holder_gets_everything() {
    let figures = saturate(Limit::sliding(rate(50, SECOND)), &[1], 30);
    println!("alone: use {:.3}", figures.used);
    assert!(figures.used > 0.95, "{figures:?}");
}
