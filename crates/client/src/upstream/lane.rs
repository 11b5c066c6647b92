//! One group of an API, live: its limits and who waits for them.

use outflow_core::{MeterEvent, Moment, TooManyLimits};
use slab::Slab;
use smol_str::SmolStr;

use super::limits::Limits;
use super::line::{CLASSES, Class, Line, Waiter};
use super::patience::{self, Patience};
use crate::rules::{Group, Rules};

/// A group and its waiters.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) name: SmolStr,
    /// Other names by which it was asked for.
    pub(super) aliases: Vec<SmolStr>,
    /// Where its calls go: to itself, or elsewhere once the rules no longer know it.
    pub(super) leads_to: u32,
    /// Through how many changes of the rules it has led elsewhere.
    pub(super) retired: u32,
    pub(super) ward: usize,
    pub(super) limits: Limits,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    lines: [Line; CLASSES.len()],
    patience: Patience,
}

impl Lane {
    pub(super) fn new(
        group: &Group,
        (number, ward): (u32, usize),
        rules: &Rules,
        moment: Moment,
    ) -> Result<Self, TooManyLimits> {
        Ok(Self {
            name: group.name.clone(),
            aliases: group.aliases.clone(),
            leads_to: number,
            retired: 0,
            ward,
            limits: Limits::new(&group.limits, rules, moment)?,
            admitted: 0,
            refused: 0,
            lines: [Line::default(); CLASSES.len()],
            patience: Patience::default(),
        })
    }

    pub(super) fn line(&self, class: Class) -> &Line {
        let [high, normal, low] = &self.lines;
        match class {
            Class::High => high,
            Class::Normal => normal,
            Class::Low => low,
        }
    }

    pub(super) fn line_mut(&mut self, class: Class) -> &mut Line {
        let [high, normal, low] = &mut self.lines;
        match class {
            Class::High => high,
            Class::Normal => normal,
            Class::Low => low,
        }
    }

    /// Whose turn it is, and how urgent that is beside the heads of other lanes.
    pub(super) fn head(&self, everywhere: Patience) -> Option<(usize, usize)> {
        let order = self.patience.and(everywhere).order();
        let mut ranks = order.into_iter().enumerate();
        ranks.find_map(|(rank, class)| Some((rank, self.line(class).first()?)))
    }

    /// The first of a class was called.
    pub(super) fn called(&mut self, class: Class) {
        let waits = self.lines.map(|line| !line.is_empty());
        self.patience.called(class, |one| {
            CLASSES
                .into_iter()
                .zip(waits)
                .any(|(class, waits)| class == one && waits)
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(Line::is_empty)
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
    pub(super) fn ahead(&self, waiters: &Slab<Waiter>, class: Class, number: u64) -> Ahead {
        let same = self.line(class).before(waiters, number);
        let better = CLASSES.into_iter().filter(|one| *one > class);
        let better = better.fold(Ahead::default(), |sum, class| {
            sum.and(self.line(class).everybody())
        });
        let patient = same.count.saturating_add(1);
        same.and(better.first(patient.saturating_mul(patience::MOST.into())))
    }

    pub(super) fn poll_event(&mut self) -> Option<MeterEvent> {
        self.limits.poll_event()
    }
}

/// How many go before somebody, and what they cost together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ahead {
    pub(super) count: u64,
    pub(super) cost: u64,
}

impl Ahead {
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
