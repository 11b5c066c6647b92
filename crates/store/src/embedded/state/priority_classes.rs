//! The three classes of one tenant's jobs, which share its turns 16 : 4 : 1.
//!
//! The same law as among tenants, small enough to be kept a hundred thousand times: a virtual clock, and
//! for each class a place on it that moves by cost over share. A class that had no work saves nothing up.

use outflow_core::{Cost, Priority};

/// One of something for each class.
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

/// Whose turn it is among the classes of one tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassOrder {
    places: ByClass<u128>,
    clock: u128,
}

impl ClassOrder {
    /// The class whose turn it is, of those that wait.
    pub(crate) fn first(&self, waits: impl Fn(Priority) -> bool) -> Option<Priority> {
        let waiting = CLASSES.into_iter().filter(|class| waits(*class));
        waiting.min_by_key(|class| *self.places.get(*class))
    }

    /// A class has work again.
    pub(crate) fn arrive(&mut self, class: Priority) {
        let place = self.places.get_mut(class);
        *place = self.clock.max(*place);
    }

    /// A job of this class was taken.
    pub(crate) fn charge(&mut self, class: Priority, cost: Cost) {
        let place = self.places.get_mut(class);
        self.clock = self.clock.max(*place);
        *place += step(class, cost);
    }

    /// It was not served after all.
    pub(crate) fn refund(&mut self, class: Priority, cost: Cost) {
        let place = self.places.get_mut(class);
        *place = place.saturating_sub(step(class, cost));
    }
}

fn step(class: Priority, cost: Cost) -> u128 {
    let stride = match class {
        Priority::High => 1,
        Priority::Normal => 4,
        Priority::Low => 16,
    };
    u128::from(cost.units().max(1)) * stride
}

/// The best first, so that of equals the best goes.
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
    fn a_class_without_work_saves_nothing_up() {
        let mut order = ClassOrder::default();
        for _ in 0..1_000 {
            order.charge(Priority::Low, Cost::ONE);
        }
        order.arrive(Priority::High);
        for _ in 0..17 {
            order.charge(Priority::High, Cost::ONE);
        }
        let waits = |class| class != Priority::Normal;
        assert_eq!(order.first(waits), Some(Priority::Low));
    }
}
