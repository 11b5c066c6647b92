//! The wait of a tenant in the fair queue, independent of the others' service.

#![expect(clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

use outflow_core::{Cost, FairCharge, FairQueue, Nanos, Priority, Tenant, Weight};
use proptest::prelude::*;

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Priority::Low), Just(Priority::Normal), Just(Priority::High)]
}

fn share(weight: u32, priority: Priority) -> u128 {
    u128::from(weight)
        * match priority {
            Priority::Low => 1,
            Priority::Normal => 4,
            Priority::High => 16,
        }
}

fn weight(weight: u32) -> Weight {
    Weight::new(weight).expect("positive")
}

/// Tenants with the cost of their jobs; the last is the newcomer. A million jobs are not needed:
/// the queue does not know their number.
type Newcomers = Vec<(u32, Priority, u64)>;

fn newcomers() -> impl Strategy<Value = Newcomers> {
    proptest::collection::vec((1_u32..=1_000_000, priority(), 1_u64..1_000_000), 2..20)
}

/// Events before the newcomer comes, and while it waits: `None` is a service, a number is the
/// charge that is refunded, counted from the last.
type Dealings = Vec<Option<usize>>;

fn dealings(max: usize) -> impl Strategy<Value = Dealings> {
    let refund = proptest::option::weighted(0.4, 0_usize..30);
    prop_oneof![
        proptest::collection::vec(Just(None), 0..max),
        proptest::collection::vec(refund, 0..max)
    ]
}

/// Tenants that all have work, each with jobs of one cost.
struct BusyTenants {
    order: FairQueue,
    costs: Vec<(Tenant, u64)>,
    charges: Vec<FairCharge>,
    refunds: usize,
}

impl BusyTenants {
    fn deal(&mut self, dealing: Option<usize>) -> Option<Tenant> {
        if let Some(back) = dealing {
            if let Some(i) = self.charges.len().checked_sub(1 + back) {
                self.order.refund(self.charges.swap_remove(i));
                self.refunds += 1;
            }
            return None;
        }
        let next = self.order.next(Nanos::ZERO).expect("all have work");
        let (_, cost) = self.costs.iter().find(|(known, _)| *known == next)?;
        self.charges.extend(self.order.charge(next, Cost::new(*cost)));
        Some(next)
    }
}

fn newcomers_wait_few_services_of_each(
    (tenants, (before, meanwhile)): (Newcomers, (Dealings, Dealings)),
) -> Result<(), TestCaseError> {
    let mut order = FairQueue::new();
    let costs: Vec<_> = tenants
        .iter()
        .map(|(w, p, cost)| (order.join(weight(*w), *p), *cost))
        .collect();
    let ((newcomer, _), others) = costs.split_last().expect("two or more");
    for (tenant, _) in others {
        order.enter(*tenant);
    }
    let mut tenants = BusyTenants {
        order,
        costs: costs.clone(),
        charges: Vec::new(),
        refunds: 0,
    };
    for dealing in before {
        tenants.deal(dealing);
    }
    tenants.order.enter(*newcomer);
    let mut turns = vec![0; others.len()];
    let endless = meanwhile.into_iter().chain(std::iter::repeat(None));
    for dealing in endless {
        let next = tenants.deal(dealing);
        if next == Some(*newcomer) {
            break;
        }
        if let Some(i) = others.iter().position(|(known, _)| Some(*known) == next) {
            turns[i] += 1;
            let max = if tenants.refunds == 0 { 1 } else { 3 };
            prop_assert!(turns[i] <= max, "{:?} is served {}", others[i], turns[i]);
        }
    }
    Ok(())
}

fn every_tenant_returns_within_its_share((tenants, turns): (Vec<(u32, Priority)>, usize)) -> Result<(), TestCaseError> {
    let mut order = FairQueue::new();
    let shares: Vec<_> = tenants
        .iter()
        .map(|(w, p)| (order.join(weight(*w), *p), share(*w, *p)))
        .collect();
    for (tenant, _) in &shares {
        order.enter(*tenant);
    }
    let mut waited = vec![0_u128; shares.len()];
    for _ in 0..turns {
        let next = order.next(Nanos::ZERO).expect("all have work");
        order.charge(next, Cost::ONE);
        for (i, (tenant, ours)) in shares.iter().enumerate() {
            waited[i] = if *tenant == next { 0 } else { waited[i] + 1 };
            let others = shares.iter().filter(|(other, _)| other != tenant);
            let max: u128 = others.map(|(_, theirs)| theirs / ours + 1).sum();
            prop_assert!(waited[i] <= max, "{:?} waited {}", tenants[i], waited[i]);
        }
    }
    Ok(())
}

outflow_testkit::laws! {
    // At most three with refunds, before it comes or while it waits.
    #[test]
    fn a_newcomer_waits_for_at_most_one_service_of_each / fn stress_a_newcomer_waits_for_at_most_one_service_of_each
        ((newcomers(), (dealings(200), dealings(60)))) = newcomers_wait_few_services_of_each;

    // Between two services of one tenant, each other tenant can begin a number equal to the ratio
    // of shares, and one that begins together with it.
    #[test]
    fn no_tenant_waits_longer_than_its_share / fn stress_no_tenant_waits_longer_than_its_share
        ((proptest::collection::vec((1_u32..=16, priority()), 2..10), 1_usize..400)) =
            every_tenant_returns_within_its_share;
}
