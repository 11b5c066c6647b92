//! `keyed_*`, `handle_*`: a limit per name.
//!
//! The names come in an order that no cache predicts, equal for every contender, and each was used once before.

use std::time::Duration;

use super::{GOVERNOR, versus};
use crate::contenders::ours::OursByName;
use crate::contenders::{governor, throttle_net};
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan};

/// Measures lookups by name among 1,000 and 100,000, and by handle among 100,000.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let few = names(1_000);
    let many = names(100_000);
    let by_name = |names: &[String]| {
        let ours = OursByName::sliding(LIMIT, WINDOW);
        for name in names {
            assert!(ours.take(name), "a first use is allowed");
        }
        let mut next = Walk::over(names.to_vec());
        Contender::alone("ours", move || ours.take(next.step()))
    };
    let mut figures = versus(plan, "keyed_1k", by_name(&few), peers(&few, Goal::Ratio(0.9)));
    figures.extend(versus(
        plan,
        "keyed_100k",
        by_name(&many),
        peers(&many, Goal::Ratio(1.05)),
    ));
    figures.extend(versus(
        plan,
        "handle_100k",
        by_handle(&many),
        peers(&many, Goal::Ratio(0.55)),
    ));
    figures
}

fn by_handle(names: &[String]) -> Contender<'static> {
    let ours = OursByName::sliding(LIMIT, WINDOW);
    let mut next = Walk::over(names.iter().map(|name| ours.resolve(name)).collect());
    Contender::alone("ours", move || ours.take_by(next.step()))
}

fn peers(names: &[String], goal: Goal) -> Vec<(Goal, Contender<'static>)> {
    let governor = governor::keyed(governor::quota(LIMIT, WINDOW));
    let bucket = throttle_net::keyed(LIMIT, WINDOW);
    for name in names {
        assert!(governor.check_key(name).is_ok(), "a first use is allowed");
        assert!(bucket.try_acquire(name), "a first use is allowed");
    }
    let (mut a, mut b) = (Walk::over(names.to_vec()), Walk::over(names.to_vec()));
    vec![
        (
            goal,
            Contender::alone(GOVERNOR, move || governor.check_key(a.step()).is_ok()),
        ),
        (
            Goal::Shown,
            Contender::alone("throttle-net PerKey (bucket)", move || bucket.try_acquire(b.step())),
        ),
    ]
}

/// A cycle over a list.
struct Walk<T> {
    items: Vec<T>,
    at: usize,
}

impl<T> Walk<T> {
    fn over(items: Vec<T>) -> Self {
        Self { items, at: 0 }
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "wrapped below the length, which is never zero")]
    fn step(&mut self) -> &T {
        self.at = if self.at + 1 < self.items.len() { self.at + 1 } else { 0 };
        &self.items[self.at]
    }
}

fn names(count: u64) -> Vec<String> {
    let mut names: Vec<String> = (0..count).map(|n| format!("tenant-{n:06}/chat")).collect();
    let mut state = SEED;
    for last in (1..names.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap_or(0) % (last + 1);
        names.swap(last, other);
    }
    names
}

const LIMIT: u32 = 100;
/// A name repeats after 1,000 others at the earliest, so that all are allowed.
const WINDOW: Duration = Duration::from_micros(1);
/// Any seed works; a constant one makes every run visit the names alike.
const SEED: u64 = 0x0dd0_5eed;
