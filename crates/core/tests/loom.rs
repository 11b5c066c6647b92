//! The shared limiter under every interleaving of its threads.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p outflow-core --release --test loom`.

#![cfg(loom)]

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use outflow_core::{Cost, Decision, Nanos, Rate, SharedLimiter};

fn at(nanos: u64) -> Nanos {
    Nanos::from_nanos(nanos)
}

fn sliding(quantity: u64, window: u64) -> Arc<SharedLimiter> {
    let rate = Rate::new(quantity, Duration::from_nanos(window)).expect("positive");
    Arc::new(SharedLimiter::sliding(rate).expect("small"))
}

/// Returns the number of takes that pass, one per thread.
fn passed(limiter: &Arc<SharedLimiter>, takes: &[(u64, u64)]) -> usize {
    let take = |(now, cost): (u64, u64)| {
        let limiter = Arc::clone(limiter);
        thread::spawn(move || limiter.take(at(now), Cost::new(cost)).is_allow())
    };
    let threads: Vec<_> = takes.iter().copied().map(take).collect();
    threads
        .into_iter()
        .map(|t| t.join().expect("no panic"))
        .filter(|ok| *ok)
        .count()
}

#[test]
fn three_threads_never_pass_a_limit_of_two() {
    loom::model(|| {
        let limiter = sliding(2, 100);
        assert_eq!(passed(&limiter, &[(5, 1), (6, 1), (7, 1)]), 2);
        assert_eq!(limiter.remaining(at(50)), 0);
    });
}

// Costs of 2 and 2 against 3: exactly one of them passes.
#[test]
fn weights_are_taken_whole() {
    loom::model(|| {
        let limiter = sliding(3, 100);
        assert_eq!(passed(&limiter, &[(5, 2), (6, 2)]), 1);
        assert_eq!(limiter.remaining(at(50)), 1);
    });
}

// One thread refunds while another asks: afterwards exactly the units that were not refunded are
// gone.
#[test]
fn a_refund_racing_a_take_loses_nothing() {
    loom::model(|| {
        let limiter = sliding(1, 100);
        let receipt = limiter.take(at(1), Cost::ONE).allowed().expect("untouched");
        let refunder = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || assert!(limiter.refund(at(2), receipt)))
        };
        let took = limiter.take(at(3), Cost::ONE).is_allow();
        refunder.join().expect("no panic");
        assert_eq!(limiter.remaining(at(4)), u64::from(!took));
    });
}

// A refusal without the lock may be stale, never wrong: its promise is true of the past.
#[test]
fn a_refusal_names_an_instant_at_which_one_passes() {
    loom::model(|| {
        let limiter = sliding(1, 100);
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.take(at(5), Cost::ONE).is_allow())
        };
        let ours = limiter.take(at(7), Cost::ONE);
        assert_eq!(u8::from(ours.is_allow()) + u8::from(other.join().expect("no panic")), 1);
        if let Decision::WaitUntil(until) = ours {
            assert_eq!(until, at(105));
        }
    });
}

// All at one instant: a bucket keeps only its own time, and may refuse a thread that read the clock
// before the others.
#[test]
fn a_bucket_of_two_passes_two_of_three_threads() {
    loom::model(|| {
        let rate = Rate::new(1, Duration::from_nanos(100)).expect("positive");
        let limiter = Arc::new(SharedLimiter::bucket(rate, 2).expect("positive"));
        assert_eq!(passed(&limiter, &[(5, 1), (5, 1), (5, 1)]), 2);
    });
}

// Two limits under one lock: an allowed request has taken from both, a refused one from neither.
#[test]
fn several_limits_are_taken_whole_by_each_thread() {
    loom::model(|| {
        let rate = |quantity| Rate::new(quantity, Duration::from_nanos(100)).expect("positive");
        let limiter = Arc::new(SharedLimiter::with_rates(&[rate(3), rate(2)]).expect("small"));
        assert_eq!(passed(&limiter, &[(5, 2), (6, 1)]), 1);
        assert!(limiter.remaining(at(50)) <= 1);
    });
}
