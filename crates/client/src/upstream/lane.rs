//! One group of an API, live: its limits and who waits for them.

use outflow_core::{MeterEvent, Moment, TooManyLimits};
use smol_str::SmolStr;

use super::limits::Limits;
use super::line::{CLASSES, Class, Line};
use crate::rules::{Group, Rules};

/// A group and its waiters.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) name: SmolStr,
    pub(super) ward: usize,
    pub(super) limits: Limits,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    lines: [Line; CLASSES.len()],
}

impl Lane {
    pub(super) fn new(
        group: &Group,
        ward: usize,
        rules: &Rules,
        moment: Moment,
    ) -> Result<Self, TooManyLimits> {
        Ok(Self {
            name: group.name.clone(),
            ward,
            limits: Limits::new(&group.limits, rules.adaptive, moment)?,
            admitted: 0,
            refused: 0,
            lines: [Line::default(); CLASSES.len()],
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

    /// Whose turn it is, if the classes go in this order.
    pub(super) fn head(&self, order: [Class; CLASSES.len()]) -> Option<(usize, usize)> {
        let mut ranks = order.into_iter().enumerate();
        ranks.find_map(|(rank, class)| Some((rank, self.line(class).first()?)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(Line::is_empty)
    }

    pub(super) fn waiting(&self) -> u64 {
        self.lines.iter().map(|line| u64::from(line.length())).sum()
    }

    /// Who would go before a newcomer of this class: how many, and what they cost.
    pub(super) fn ahead(&self, class: Class) -> (usize, u64) {
        let lines = CLASSES
            .iter()
            .filter(|one| **one >= class)
            .map(|one| self.line(*one));
        lines.fold((0, 0), |(length, cost), line| {
            let more = usize::try_from(line.length()).unwrap_or(usize::MAX);
            (
                usize::saturating_add(length, more),
                u64::saturating_add(cost, line.cost()),
            )
        })
    }

    pub(super) fn poll_event(&mut self) -> Option<MeterEvent> {
        self.limits.poll_event()
    }
}
