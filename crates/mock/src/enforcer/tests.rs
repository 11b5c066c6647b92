//! The limits against an oracle that keeps the whole history and recomputes everything.

use outflow_core::{LimitKind, Rate, WallTime};
use proptest::prelude::*;

use super::*;

/// Everything that was allowed so far, and nothing derived from it.
struct Oracle {
    quota: Quota,
    history: Vec<(ClockPair, u64)>,
}

impl Oracle {
    fn allows(&self, moment: ClockPair, units: u64) -> bool {
        units <= self.left(moment)
    }

    fn left(&self, moment: ClockPair) -> u64 {
        let used = |holds: &dyn Fn(ClockPair) -> bool| -> u64 {
            let counted = self.history.iter().filter(|(at, _)| holds(*at));
            counted.map(|(_, units)| *units).sum()
        };
        let quantity = self.quota.rate.quantity();
        match self.quota.kind {
            LimitKind::Sliding => quantity - used(&|at| moment.now.since(at.now) < self.quota.window()),
            LimitKind::Fixed => match self.window_open_at(moment) {
                Some(opened) => quantity - used(&|at| at.now >= opened),
                None => quantity,
            },
            LimitKind::Aligned => {
                let window = |at: ClockPair| at.wall.as_duration().as_nanos() / self.quota.window().as_nanos();
                quantity - used(&|at| window(at) == window(moment))
            }
            LimitKind::Bucket { burst } => self.tokens(moment, burst),
        }
    }

    /// Replays all windows: each begins with the first use after the one before.
    fn window_open_at(&self, moment: ClockPair) -> Option<Nanos> {
        let window = self.quota.window();
        let mut opened: Option<Nanos> = None;
        for (at, _) in &self.history {
            if opened.is_none_or(|first| at.now.since(first) >= window) {
                opened = Some(at.now);
            }
        }
        opened.filter(|first| moment.now.since(*first) < window)
    }

    /// Replays all uses as fractions of a token over one denominator.
    fn tokens(&self, moment: ClockPair, burst: u64) -> u64 {
        let token = self.quota.window().as_nanos();
        let full = u128::from(burst) * token;
        let (mut level, mut last) = (full, Nanos::ZERO);
        let ends = std::iter::once((moment, 0));
        for (at, units) in self.history.iter().copied().chain(ends) {
            let passed = at.now.since(last).as_nanos();
            level = full.min(level + passed * u128::from(self.quota.rate.quantity()));
            level -= u128::from(units) * token;
            last = at.now;
        }
        u64::try_from(level / token).unwrap()
    }
}

fn moment(nanos: u64) -> ClockPair {
    ClockPair {
        now: Nanos::from_nanos(nanos),
        // An odd civil time: aligned windows must not fall on the multiples of monotonic time.
        wall: WallTime::since_epoch(Duration::from_nanos(1_700_000_000_000_000_037 + nanos)),
    }
}

fn ask(units: u64) -> QuotaRequest {
    QuotaRequest {
        caller: "k".into(),
        route: "default".into(),
        cost: Cost::new(units),
    }
}

fn kinds() -> impl Strategy<Value = LimitKind> {
    prop_oneof![
        Just(LimitKind::Sliding),
        Just(LimitKind::Fixed),
        Just(LimitKind::Aligned),
        (1..9_u64).prop_map(|burst| LimitKind::Bucket { burst }),
    ]
}

// Windows of some ten nanoseconds and steps of the same size meet every boundary often.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_limit_agrees_with_its_whole_history(
        kind in kinds(),
        quantity in 1..8_u64,
        window in 1..40_u64,
        steps in prop::collection::vec((0..30_u64, 0..5_u64), 1..60),
    ) {
        let rate = Rate::new(quantity, Duration::from_nanos(window)).unwrap();
        let quota = Quota::new(rate, kind);
        let mut oracle = Oracle { quota: quota.clone(), history: Vec::new() };
        let mut enforcer = Enforcer::new(vec![quota.clone()]);
        let mut now = 0;
        for (step, units) in steps {
            now += step;
            let here = moment(now);
            let status = enforcer.statuses(&ask(units), here).remove(0);
            prop_assert_eq!(status.remaining(), oracle.left(here));
            match enforcer.judge(&ask(units), here) {
                LimitVerdict::Allowed => {
                    prop_assert!(oracle.allows(here, units), "allowed {units} at {now}");
                    oracle.history.push((here, units));
                }
                LimitVerdict::Refused(Refused { until: Some(until), .. }) => {
                    prop_assert!(!oracle.allows(here, units), "refused {units} at {now}");
                    let at = until.as_nanos();
                    prop_assert!(oracle.allows(moment(at), units), "promised {at} at {now}");
                    prop_assert!(!oracle.allows(moment(at - 1), units), "promised {at} at {now}");
                }
                LimitVerdict::Refused(Refused { until: None, .. }) => {
                    prop_assert!(units > quota.capacity());
                }
            }
        }
    }

    // A refusal by one limit must not be charged to the other.
    #[test]
    fn several_limits_pass_together_or_not_at_all(
        steps in prop::collection::vec((0..30_u64, 1..4_u64), 1..60),
    ) {
        let rate = |quantity, nanos| Rate::new(quantity, Duration::from_nanos(nanos)).unwrap();
        let quotas = [Quota::sliding(rate(5, 20)), Quota::bucket(rate(2, 11), 7)];
        let mut oracles = quotas.clone().map(|quota| Oracle { quota, history: Vec::new() });
        let mut enforcer = Enforcer::new(quotas.to_vec());
        let mut now = 0;
        for (step, units) in steps {
            now += step;
            let here = moment(now);
            let all = oracles.iter().all(|oracle| oracle.allows(here, units));
            let allowed = enforcer.judge(&ask(units), here) == LimitVerdict::Allowed;
            prop_assert_eq!(allowed, all, "{} at {}", units, now);
            for oracle in oracles.iter_mut().filter(|_| allowed) {
                oracle.history.push((here, units));
            }
        }
    }
}

fn passes(enforcer: &mut Enforcer, nanos: u64) -> bool {
    enforcer.judge(&ask(1), moment(nanos)) == LimitVerdict::Allowed
}

fn one_per_100(kind: LimitKind) -> Enforcer {
    let rate = Rate::new(1, Duration::from_nanos(100)).unwrap();
    Enforcer::new(vec![Quota::new(rate, kind)])
}

#[test]
fn a_log_entry_expires_exactly_one_window_later() {
    let mut enforcer = one_per_100(LimitKind::Sliding);
    assert!(passes(&mut enforcer, 7));
    assert!(!passes(&mut enforcer, 106));
    assert!(passes(&mut enforcer, 107));
}

#[test]
fn a_fixed_window_starts_with_its_first_use() {
    let mut enforcer = one_per_100(LimitKind::Fixed);
    assert!(passes(&mut enforcer, 7));
    assert!(!passes(&mut enforcer, 106));
    assert!(passes(&mut enforcer, 150));
    assert!(!passes(&mut enforcer, 249), "the next one began at 150");
    assert!(passes(&mut enforcer, 250));
}

// The civil time is 37 ns past a multiple of 100, so windows end at 63, 163, ….
#[test]
fn an_aligned_window_ends_on_the_multiple() {
    let mut enforcer = one_per_100(LimitKind::Aligned);
    assert!(passes(&mut enforcer, 62));
    assert!(passes(&mut enforcer, 63));
    assert!(!passes(&mut enforcer, 162));
    assert!(passes(&mut enforcer, 163));
}

// Three tokens in 100 ns: the first returns after 33⅓ ns, which is 34 in whole ones.
#[test]
fn a_bucket_allows_a_token_when_it_is_complete() {
    let rate = Rate::new(3, Duration::from_nanos(100)).unwrap();
    let mut enforcer = Enforcer::new(vec![Quota::bucket(rate, 2)]);
    assert!(passes(&mut enforcer, 0));
    assert!(passes(&mut enforcer, 0));
    assert!(!passes(&mut enforcer, 33));
    assert!(passes(&mut enforcer, 34));
    assert!(!passes(&mut enforcer, 66));
    assert!(passes(&mut enforcer, 67));
}

#[test]
fn callers_and_routes_are_counted_separately_unless_shared() {
    let rate = Rate::per_second(1).unwrap();
    let from = |caller: &str, route: &str| QuotaRequest {
        caller: caller.into(),
        route: route.into(),
        cost: Cost::ONE,
    };
    let judged = |quota: Quota, asks: &[QuotaRequest]| -> Vec<bool> {
        let mut enforcer = Enforcer::new(vec![quota]);
        let allowed = |ask| enforcer.judge(ask, moment(0)) == LimitVerdict::Allowed;
        asks.iter().map(allowed).collect()
    };
    let callers = [from("a", "x"), from("a", "x"), from("b", "x")];
    assert_eq!(judged(Quota::fixed(rate), &callers), [true, false, true]);
    assert_eq!(judged(Quota::fixed(rate).shared(), &callers), [true, false, false]);
    let routes = [from("a", "x"), from("a", "x"), from("a", "y"), from("a", "y")];
    let on = Quota::fixed(rate).on("x");
    assert_eq!(judged(on, &routes), [true, false, true, true]);
}

#[test]
fn calls_can_count_as_one_independent_of_cost() {
    let rate = Rate::per_second(2).unwrap();
    let mut by_cost = Enforcer::new(vec![Quota::sliding(rate)]);
    let mut by_calls = Enforcer::new(vec![Quota::sliding(rate).counting_calls()]);
    let LimitVerdict::Refused(refused) = by_cost.judge(&ask(3), moment(0)) else {
        panic!("three do not fit in two");
    };
    assert_eq!(refused.until, None, "and never will");
    assert_eq!(by_calls.judge(&ask(3), moment(0)), LimitVerdict::Allowed);
}
