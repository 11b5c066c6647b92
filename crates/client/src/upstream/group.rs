//! One group of an API, live: its limits and who waits for them.
//!
//! What counts against the limits is made when it is first needed. A group that nobody called has used
//! nothing, and meters that counted nothing are as good as new ones: so they are not kept, for an API may
//! have a thousand groups of which a program calls three. Whoever looks at all groups, to report or to
//! tidy, leaves them as they are.

use std::sync::Arc;

use outflow_core::{ClockPair, Cost, Health, Limit, MeterEvent, Nanos, Rate};
use slab::Slab;
use smol_str::SmolStr;

use super::limits::{self, ForeignUsage, LimitTerms, RetiredUsage, ScopeLimits};
use super::priority_aging::{self, PriorityAging};
use super::wait_queue::{CLASSES, PriorityClass, WaitQueue, Waiter};
use crate::rules::Group;

/// A group and its waiters.
#[derive(Debug)]
pub(super) struct GroupState {
    pub(super) name: SmolStr,
    /// Other names by which it was asked for.
    pub(super) aliases: Vec<SmolStr>,
    /// Where its calls go: to itself, or elsewhere once the rules no longer know it.
    pub(super) leads_to: u32,
    /// Through how many changes of the rules it has led elsewhere.
    pub(super) retired: u32,
    pub(super) ward: usize,
    /// Its limits as they are configured.
    configured: Arc<[Limit]>,
    /// What counts against them, once anything may.
    limits: Option<Box<ScopeLimits>>,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    lines: [WaitQueue; CLASSES.len()],
    patience: PriorityAging,
}

impl GroupState {
    pub(super) fn new(group: &Group, (number, ward): (u32, usize)) -> Self {
        Self {
            name: group.name.clone(),
            aliases: group.aliases.clone(),
            leads_to: number,
            retired: 0,
            ward,
            configured: Arc::clone(&group.limits),
            limits: None,
            admitted: 0,
            refused: 0,
            lines: [WaitQueue::default(); CLASSES.len()],
            patience: PriorityAging::default(),
        }
    }

    /// Its limits, made by `begin` if nobody needed them before.
    #[inline]
    pub(super) fn limits(
        &mut self,
        begin: impl FnOnce(&[Limit]) -> ScopeLimits,
    ) -> &mut ScopeLimits {
        self.limits
            .get_or_insert_with(|| Box::new(begin(&self.configured)))
    }

    /// Its limits, if anybody needed them.
    pub(super) fn used_limits(&mut self) -> Option<&mut ScopeLimits> {
        self.limits.as_deref_mut()
    }

    /// Its limits as they would be, had somebody needed them now.
    pub(super) fn untouched(
        &self,
        terms: LimitTerms,
        moment: ClockPair,
        health: &Health,
    ) -> ScopeLimits {
        begun(&self.configured, terms, moment, health)
    }

    /// Whether these are its limits, as configured.
    pub(super) fn has(&self, limits: &[Limit]) -> bool {
        *self.configured == *limits
    }

    /// The limit that a cost can never pass.
    #[inline]
    pub(super) fn impossible(&self, cost: Cost) -> Option<Rate> {
        match &self.limits {
            Some(limits) => limits.impossible(cost),
            None => limits::impossible(&self.configured, cost),
        }
    }

    /// Whether its calls count from their sending, as far as any were let go.
    #[inline]
    pub(super) fn is_stamped_at_send(&self) -> bool {
        let limits = self.limits.as_ref();
        limits.is_some_and(|limits| limits.is_stamped_at_send())
    }

    /// The slowest of its limits in effect.
    pub(super) fn slowest(&mut self, now: Nanos, health: &Health) -> Option<Rate> {
        if let Some(limits) = &mut self.limits {
            return limits.slowest(now);
        }
        let limits = self.configured.iter();
        let in_effect = limits.map(|limit| limit.with_rate(health.effective(limit.rate())).rate());
        limits::slowest(in_effect)
    }

    /// Whether it may take these limits as they are: it counted nothing, and nobody else knows what
    /// they would have counted.
    pub(super) fn is_unaffected(&self, limits: &[Limit], past: &ForeignUsage) -> bool {
        let known = || limits::are_all_known(&self.configured, limits);
        self.limits.is_none() && (past.is_nothing() || known())
    }

    /// Has these limits from now on. Whatever counted was told of them before.
    pub(super) fn configure(&mut self, limits: &Arc<[Limit]>) {
        self.configured = Arc::clone(limits);
    }

    /// Has no limits any more. Answers what counted, if anything did.
    pub(super) fn give_up(&mut self, moment: ClockPair) -> Option<RetiredUsage> {
        self.configured = Arc::default();
        let used = self.limits.as_mut()?.give_up(moment);
        Some(used).filter(|used| !used.is_nothing())
    }

    pub(super) fn line(&self, class: PriorityClass) -> &WaitQueue {
        let [high, normal, low] = &self.lines;
        match class {
            PriorityClass::High => high,
            PriorityClass::Normal => normal,
            PriorityClass::Low => low,
        }
    }

    pub(super) fn line_mut(&mut self, class: PriorityClass) -> &mut WaitQueue {
        let [high, normal, low] = &mut self.lines;
        match class {
            PriorityClass::High => high,
            PriorityClass::Normal => normal,
            PriorityClass::Low => low,
        }
    }

    /// Whose turn it is, and how urgent that is beside the heads of other lanes.
    pub(super) fn head(&self, everywhere: PriorityAging) -> Option<(usize, usize)> {
        let order = self.patience.and(everywhere).order();
        let mut ranks = order.into_iter().enumerate();
        ranks.find_map(|(rank, class)| Some((rank, self.line(class).first()?)))
    }

    /// The first of a class was called.
    pub(super) fn called(&mut self, class: PriorityClass) {
        let waits = self.lines.map(|line| !line.is_empty());
        self.patience.called(class, |one| {
            CLASSES
                .into_iter()
                .zip(waits)
                .any(|(class, waits)| class == one && waits)
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(WaitQueue::is_empty)
    }

    /// Whether those who wait are all of one class.
    pub(super) fn is_one_line(&self) -> bool {
        self.lines.iter().filter(|line| !line.is_empty()).count() == 1
    }

    pub(super) fn waiting(&self) -> u64 {
        self.lines.iter().map(|line| u64::from(line.length())).sum()
    }

    /// Who goes before the waiter of this class and number. Counting those before one in the middle
    /// of its line takes a walk; for a newcomer the sums are known.
    pub(super) fn ahead(
        &self,
        waiters: &Slab<Waiter>,
        class: PriorityClass,
        number: u64,
    ) -> QueueAhead {
        let same = self.line(class).before(waiters, number);
        let better = CLASSES.into_iter().filter(|one| *one > class);
        let better = better.fold(QueueAhead::default(), |sum, class| {
            sum.and(self.line(class).everybody())
        });
        let patient = same.count.saturating_add(1);
        same.and(better.first(patient.saturating_mul(priority_aging::MOST.into())))
    }

    pub(super) fn poll_event(&mut self) -> Option<MeterEvent> {
        self.limits.as_mut()?.poll_event()
    }
}

/// Limits of which nothing was used, as this health leaves them.
#[cold]
pub(super) fn begun(
    limits: &[Limit],
    terms: LimitTerms,
    moment: ClockPair,
    health: &Health,
) -> ScopeLimits {
    let mut limits = ScopeLimits::new(limits, terms, moment);
    limits.retune(moment, Some(health));
    limits
}

/// How many go before somebody, and what they cost together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct QueueAhead {
    pub(super) count: u64,
    pub(super) cost: u64,
}

impl QueueAhead {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            cost: self.cost.saturating_add(other.cost),
        }
    }

    /// The first so many of them, at what they cost on average.
    fn first(self, count: u64) -> Self {
        if count >= self.count {
            return self;
        }
        let cost = u128::from(self.cost) * u128::from(count) / u128::from(self.count.max(1));
        Self {
            count,
            cost: u64::try_from(cost).unwrap_or(u64::MAX),
        }
    }
}

/// The number of one who has yet to come: everybody is before it.
pub(super) const NEWCOMER: u64 = u64::MAX;
