//! Classes of one tenant's jobs, which share its turns 16 : 4 : 1.
//!
//! They follow the rule of tenants in a form that is small enough for a hundred thousand copies: a virtual
//! clock, and for each class a time on it that grows by cost over share. A class without work saves no
//! credit.

use outflow_core::{Cost, Priority};

/// One value for each class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByClass<T> {
    high: T,
    normal: T,
    low: T,
}

impl<T> ByClass<T> {
    pub(crate) const fn get(&self, class: Priority) -> &T {
        match class {
            Priority::High => &self.high,
            Priority::Normal => &self.normal,
            Priority::Low => &self.low,
        }
    }

    pub(crate) const fn get_mut(&mut self, class: Priority) -> &mut T {
        match class {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        }
    }
}

/// The order of one tenant's classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassOrder {
    times: ByClass<u128>,
    clock: u128,
}

impl ClassOrder {
    /// Returns the next class among those with work.
    pub(crate) fn first(&self, has_work: impl Fn(Priority) -> bool) -> Option<Priority> {
        let waiting = CLASSES.into_iter().filter(|class| has_work(*class));
        waiting.min_by_key(|class| *self.times.get(*class))
    }

    /// Notes that a class has work again.
    pub(crate) fn arrive(&mut self, class: Priority) {
        let time = self.times.get_mut(class);
        *time = self.clock.max(*time);
    }

    /// Charges a claimed job.
    pub(crate) fn charge(&mut self, class: Priority, cost: Cost) {
        let time = self.times.get_mut(class);
        self.clock = self.clock.max(*time);
        *time += step(class, cost);
    }

    /// Refunds a job that did not run.
    pub(crate) fn refund(&mut self, class: Priority, cost: Cost) {
        let time = self.times.get_mut(class);
        *time = time.saturating_sub(step(class, cost));
    }
}

fn step(class: Priority, cost: Cost) -> u128 {
    let stride = Priority::High.factor() / class.factor();
    u128::from(cost.units().max(1)) * u128::from(stride)
}

/// All classes, the best first: of equal times the best class goes.
pub(crate) const CLASSES: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];

#[cfg(test)]
mod tests {
    use super::*;

    // 21 is one round of 16 + 4 + 1.
    #[test]
    fn classes_share_sixteen_to_four_to_one() {
        let mut order = ClassOrder::default();
        let mut turns = [0, 0, 0];
        for _ in 0..21 * 10 {
            let class = order.first(|_| true).expect("all wait");
            order.charge(class, Cost::ONE);
            turns[CLASSES.iter().position(|of| *of == class).expect("a class")] += 1;
        }
        for (seen, fair) in turns.into_iter().zip([160_i32, 40, 10]) {
            assert!((seen - fair).abs() <= 1, "{turns:?}");
        }
    }

    #[test]
    fn a_class_without_work_saves_no_credit() {
        let mut order = ClassOrder::default();
        for _ in 0..1_000 {
            order.charge(Priority::Low, Cost::ONE);
        }
        order.arrive(Priority::High);
        for _ in 0..17 {
            order.charge(Priority::High, Cost::ONE);
        }
        let has_work = |class| class != Priority::Normal;
        assert_eq!(order.first(has_work), Some(Priority::Low));
    }
}
