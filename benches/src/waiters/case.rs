//! Number of waiters, their limit, and their runtime.

use std::time::Duration;

use crate::clock;
use crate::measure::{Plan, approx};
use crate::tasks::Flavour;

/// This many in any window of this length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limit {
    pub(crate) quantity: u32,
    pub(crate) window: Duration,
}

impl Limit {
    const HUNDRED_IN_TEN: Self = Self::new(100, Duration::from_millis(10));
    const THOUSAND_IN_TWENTY: Self = Self::new(1_000, Duration::from_millis(20));
    /// 1,000 a second without saved quota.
    const ONE_BY_ONE: Self = Self::new(1, Duration::from_millis(1));

    pub(crate) const fn new(quantity: u32, window: Duration) -> Self {
        Self { quantity, window }
    }

    /// Returns the shortest time from the first grant to the last.
    pub(crate) fn ideal(self, grants: u64) -> Duration {
        let windows = grants.saturating_sub(1) / u64::from(self.quantity.max(1));
        self.window * u32::try_from(windows).unwrap_or(u32::MAX)
    }

    fn name(self) -> &'static str {
        match self {
            Self::HUNDRED_IN_TEN => "",
            Self::THOUSAND_IN_TWENTY => "_20ms",
            _ => "_burst1",
        }
    }
}

/// One race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    pub(crate) tasks: u32,
    pub(crate) limit: Limit,
    pub(crate) flavour: Flavour,
}

impl Case {
    /// The case with the plain names.
    pub(crate) const HEADLINE: Self = Self {
        tasks: 10_000,
        limit: Limit::HUNDRED_IN_TEN,
        flavour: Flavour::Current,
    };

    /// Returns the rest of the matrix. A quick run skips long cases.
    pub(crate) fn others(plan: Plan) -> Vec<Self> {
        let limits = [Limit::HUNDRED_IN_TEN, Limit::THOUSAND_IN_TWENTY, Limit::ONE_BY_ONE];
        let flavours = [Flavour::Current, Flavour::Multi];
        let all = flavours.into_iter().flat_map(|flavour| {
            limits
                .into_iter()
                .flat_map(move |limit| TASKS.map(|tasks| Self { tasks, limit, flavour }))
        });
        all.filter(|case| !case.is_headline() && case.fits(plan)).collect()
    }

    fn fits(self, plan: Plan) -> bool {
        let longest = match (plan.is_thorough(), self.flavour) {
            (true, _) => Duration::from_secs(10),
            (false, Flavour::Current) => Duration::from_secs(2),
            // As long as the headline, to compare both.
            (false, Flavour::Multi) => Self::HEADLINE.ideal(),
        };
        // A task that starts at once does not wait.
        self.tasks > self.limit.quantity && self.ideal() <= longest
    }

    pub(crate) fn ideal(self) -> Duration {
        self.limit.ideal(u64::from(self.tasks))
    }

    pub(crate) fn is_headline(self) -> bool {
        self == Self::HEADLINE
    }

    /// Returns true if another thread may steal tasks.
    pub(crate) fn is_stolen_from(self) -> bool {
        self.flavour == Flavour::Multi
    }

    /// Returns true if contenders that wake all tasks for one permit would take minutes.
    pub(crate) fn is_too_much_for_a_herd(self, plan: Plan) -> bool {
        let hurried = !plan.is_thorough() && !self.is_headline();
        hurried || self.tasks > 10_000 || self.ideal() > Duration::from_secs(2)
    }

    /// Returns true if each grant is a separate wake-up of the system, which takes longer than a microsecond or
    /// two.
    pub(crate) fn is_one_by_one(self) -> bool {
        self.limit == Limit::ONE_BY_ONE
    }

    /// Returns the rounds: several of the headline, one of the others in a quick run.
    pub(crate) fn turns(self, plan: Plan) -> impl Iterator<Item = usize> {
        let rounds = match (plan.is_thorough(), self.is_headline()) {
            (true, true) => 7,
            (true, false) | (false, true) => 3,
            (false, false) => 1,
        };
        (0..rounds).take_while(move |round| *round == 0 || clock::since_begin() <= plan.budget)
    }

    /// Returns the suffix of its figures.
    pub(crate) fn suffix(self) -> String {
        if self.is_headline() {
            return String::new();
        }
        let thousands = approx(self.tasks / 1_000);
        format!("_{thousands}k{}{}", self.limit.name(), self.flavour.suffix())
    }
}

const TASKS: [u32; 3] = [1_000, 10_000, 100_000];
