//! An account against the whole history of true arrivals.
//!
//! Windows are 10 to 200 ms and renewals are milliseconds apart, so that every edge is met often.

#![expect(
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise, its helpers too"
)]

use outflow_core::{CountBy, LeaseUnits, Limit, QuotaWant};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestCaseError;

use super::processes::{Arrival, Processes, Transfer, WALL};
use crate::support::rate;
use crate::support::server::{Rule, refusals};

#[derive(Debug, Clone)]
struct Step {
    after: u64,
    process: usize,
    action: Action,
}

#[derive(Debug, Clone)]
enum Action {
    Renew {
        wanted: QuotaWant,
        transfer: Transfer,
    },
    Send {
        calls: u64,
        cost: u64,
        arrives_after: u64,
        ends_after: u64,
    },
    Return,
    Crash,
    Reconfigure,
    Restart,
    StepBack {
        by: u64,
    },
}

/// Kind, measure, window, quantity, burst, quantity and burst of the other configuration.
type Shape = (u8, bool, u64, [u64; 2], [u64; 2]);

/// An odd number of nanoseconds, so that no event is at the edge of a bucket by construction.
const TICK: u64 = 137_111;

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let window = prop::sample::select(vec![10_u64, 20, 50, 100, 200]);
    let quantities = [1..12_u64, 1..12_u64];
    let shape = (0..4_u8, any::<bool>(), window, quantities.clone(), quantities);
    prop::collection::vec(shape, 1..4)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let transfer = (0..30_u64, 0..30_u64, 0..12_u8).prop_map(|(there, back, fate)| Transfer {
        there: there * TICK,
        back: back * TICK,
        fate,
    });
    let renew = (0..8_u64, 0..20_u64, 1..=5_u64, transfer).prop_map(|(calls, cost, first, transfer)| Action::Renew {
        wanted: QuotaWant {
            units: LeaseUnits::new(calls, cost),
            first,
        },
        transfer,
    });
    let send = (1..5_u64, 1..=5_u64, 0..330_u64, 0..400_u64).prop_map(|(calls, cost, arrives, ends)| Action::Send {
        calls,
        cost,
        arrives_after: arrives * TICK,
        ends_after: ends * TICK,
    });
    let quick = (1..5_u64, 1..=2_u64, 0..20_u64, 0..20_u64).prop_map(|(calls, cost, arrives, ends)| Action::Send {
        calls,
        cost,
        arrives_after: arrives * TICK,
        ends_after: ends * TICK,
    });
    let action = prop_oneof![
        20 => renew,
        10 => send,
        20 => quick,
        2 => Just(Action::Return),
        1 => Just(Action::Crash),
        1 => Just(Action::Reconfigure),
        1 => Just(Action::Restart),
        1 => (0..100_u64).prop_map(|by| Action::StepBack { by: by * TICK }),
    ];
    // Mostly a few ticks, sometimes longer than a lease.
    let after = prop_oneof![12 => 0..20_u64, 3 => 20..200_u64, 1 => 200..900_u64];
    let step = (after, 0..4_usize, action).prop_map(|(after, process, action)| Step {
        after: after * TICK,
        process,
        action,
    });
    prop::collection::vec(step, 20..160)
}

fn limit_of(&(kind, by_calls, window, quantity, burst): &Shape, config: usize) -> Limit {
    let rate = rate(quantity[config], window * 1_000_000);
    let limit = match kind {
        0 => Limit::sliding(rate),
        1 => Limit::fixed(rate),
        2 => Limit::aligned(rate).expect("divides a day"),
        _ => Limit::bucket(rate, burst[config]).expect("positive"),
    };
    limit.measured_in(if by_calls { CountBy::Calls } else { CountBy::Cost })
}

/// Plays the steps. The second configuration lacks the first limit if `drops` and another is left.
fn play(shapes: &[Shape], drops: bool, history: &[Step]) -> Processes {
    let skipped = usize::from(drops && shapes.len() > 1);
    let configs = [
        shapes.iter().map(|shape| limit_of(shape, 0)).collect(),
        shapes.iter().skip(skipped).map(|shape| limit_of(shape, 1)).collect(),
    ];
    let mut processes = Processes::new(configs, 4);
    for step in history {
        processes.pass(step.after);
        match step.action {
            Action::Renew { wanted, transfer } => processes.renew(step.process, wanted, transfer),
            Action::Send {
                calls,
                cost,
                arrives_after,
                ends_after,
            } => (0..calls).for_each(|_| processes.send(step.process, cost, arrives_after, ends_after)),
            Action::Return => processes.return_units(step.process),
            Action::Crash => processes.crash(step.process),
            Action::Reconfigure => processes.reconfigure(step.process),
            Action::Restart => processes.restart(),
            Action::StepBack { by } => processes.step_back(by),
        }
    }
    processes
}

fn never_exceeds((shapes, drops, history): (Vec<Shape>, bool, Vec<Step>)) -> Result<(), TestCaseError> {
    let processes = play(&shapes, drops, &history);
    for (index, shape) in shapes.iter().enumerate() {
        let units = |arrival: &Arrival| if shape.1 { 1 } else { arrival.cost };
        let arrivals: Vec<(u64, u64)> = processes.arrivals.iter().map(|a| (WALL + a.time, units(a))).collect();
        let always_in_force = index > 0 || !drops || shapes.len() == 1;
        if always_in_force {
            prop_assert_eq!(
                refusals(loosest(shape), &arrivals),
                0,
                "limit {} of {:?}",
                index,
                shapes
            );
        }
        let bounds: Vec<u64> = processes.arrivals.iter().map(|a| a.bounds[index]).collect();
        if shape.0 < 2 {
            stays_within_bounds(shape.2 * 1_000_000, &arrivals, &bounds)?;
        }
    }
    Ok(())
}

/// Rule of a server with the looser of both configurations.
fn loosest(&(kind, _, window, quantities, bursts): &Shape) -> Rule {
    let (quantity, window) = (quantities[0].max(quantities[1]), window * 1_000_000);
    match kind {
        0 => Rule::Sliding { quantity, window },
        1 => Rule::FromFirst { quantity, window },
        2 => Rule::Aligned { quantity, window },
        _ => Rule::Bucket {
            quantity,
            per: window,
            burst: bursts[0].max(bursts[1]),
        },
    }
}

/// No window holds more than the loosest quantity in force when the units in it were granted.
fn stays_within_bounds(window: u64, arrivals: &[(u64, u64)], bounds: &[u64]) -> Result<(), TestCaseError> {
    for &(end, _) in arrivals {
        let inside = || {
            arrivals
                .iter()
                .zip(bounds)
                .filter(|((t, _), _)| *t <= end && end - t < window)
        };
        let used: u64 = inside().map(|((_, units), _)| units).sum();
        let bound = inside().map(|(_, bound)| *bound).max().unwrap_or(0);
        prop_assert!(
            used <= bound,
            "{} of {} in the window that ends at {}",
            used,
            bound,
            end - WALL
        );
    }
    Ok(())
}

outflow_testkit::laws! {
    // Holders crash, stall, change their configuration and repeat their renewals; messages are lost
    // and delayed, clocks differ, and the account restarts.
    #[test]
    fn an_account_never_exceeds_its_whole_history / fn stress_an_account_never_exceeds_its_whole_history
        ((shapes(), any::<bool>(), steps())) = never_exceeds;
}

// The law would be empty if hardly a call was sent.
#[test]
fn generated_histories_fill_their_limits() {
    let (mut arrivals, mut full) = (0, 0);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..200 {
        let tree = (shapes(), steps()).new_tree(&mut runner).expect("a value");
        let (shapes, history) = tree.current();
        let processes = play(&shapes, false, &history);
        arrivals += processes.arrivals.len();
        // A server with one unit less would refuse: the limit was reached.
        full += usize::from(shapes.iter().any(|shape| {
            let (kind, by_calls, window, quantities, _) = *shape;
            let units = |cost| if by_calls { 1 } else { cost };
            let arrivals: Vec<_> = processes
                .arrivals
                .iter()
                .map(|a| (WALL + a.time, units(a.cost)))
                .collect();
            let quantity = quantities[0].min(quantities[1]);
            let rule = Rule::Sliding {
                quantity: quantity - 1,
                window: window * 1_000_000,
            };
            kind < 2 && quantity > 1 && refusals(rule, &arrivals) > 0
        }));
    }
    assert!(arrivals > 500 && full > 30, "{arrivals} calls, {full} full of 200");
}
