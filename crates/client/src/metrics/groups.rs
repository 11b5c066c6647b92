//! The counters of an API's groups.
//!
//! Every group has its series from the beginning and its counters from its first event on: an API may
//! have a thousand groups of which a program calls three, and what was never counted reads as zero
//! without any memory of its own. Groups are added and never taken away, a batch at a time, so that
//! those who count go on in the cells that they know.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use outflow_core::{CircuitState, HealthState};
use smol_str::SmolStr;

use super::counters::LabelCounter;
use super::{ALL_GROUPS, OTHER};

/// The groups of one API.
#[derive(Clone, Debug)]
pub(super) struct GroupTable {
    /// For what concerns all groups.
    all: Arc<GroupCells>,
    /// For groups that nobody knows.
    other: Arc<GroupCells>,
    /// Each batch is in the order of its names, and no name is there twice.
    named: Vec<Arc<[GroupCells]>>,
}

/// One group.
#[derive(Debug)]
pub(super) struct GroupCells {
    pub(super) name: SmolStr,
    counters: OnceLock<Box<GroupCounters>>,
}

/// The counters of one group.
#[derive(Debug)]
pub(super) struct GroupCounters {
    pub(super) admitted: LabelCounter<1>,
    pub(super) refused: LabelCounter<{ CAUSES.len() }>,
    pub(super) refunded: LabelCounter<1>,
    pub(super) foreign: LabelCounter<1>,
    /// A fraction, by its bits.
    drift: AtomicU64,
    alert: AtomicU8,
    circuit: AtomicU8,
}

impl GroupTable {
    /// No groups but those that every API has.
    pub(super) fn new() -> Self {
        let one = |name| Arc::new(GroupCells::new(SmolStr::new_static(name)));
        Self {
            all: one(ALL_GROUPS),
            other: one(OTHER),
            named: Vec::new(),
        }
    }

    /// The same, and those of these names that are new.
    pub(super) fn with<'a>(&self, names: impl IntoIterator<Item = &'a SmolStr>) -> Self {
        let is_new = |name: &&SmolStr| **name != ALL_GROUPS && self.find(name).is_none();
        let mut names: Vec<_> = names.into_iter().filter(is_new).collect();
        names.sort_unstable();
        names.dedup();
        let batch: Arc<[_]> = names.into_iter().cloned().map(GroupCells::new).collect();
        let mut groups = self.clone();
        groups
            .named
            .extend(Some(batch).filter(|batch| !batch.is_empty()));
        groups
    }

    /// The group of this name; the one for the rest if nobody knows it.
    pub(super) fn get(&self, name: Option<&SmolStr>) -> &GroupCells {
        match name {
            None => &self.all,
            Some(name) => self.find(name).unwrap_or(&self.other),
        }
    }

    fn find(&self, name: &SmolStr) -> Option<&GroupCells> {
        if *name == OTHER {
            return Some(&self.other);
        }
        self.named.iter().find_map(|batch| {
            let place = batch.binary_search_by(|group| group.name.cmp(name));
            batch.get(place.ok()?)
        })
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &GroupCells> {
        std::iter::once(&*self.all).chain(self.callable())
    }

    /// Those that calls are of.
    pub(super) fn callable(&self) -> impl Iterator<Item = &GroupCells> {
        std::iter::once(&*self.other).chain(self.named.iter().flat_map(|batch| &**batch))
    }

    /// The worst that the circuit of any is in, as far as events have told.
    pub(super) fn circuit(&self) -> CircuitState {
        let circuits = self.iter().map(|group| &group.read().circuit);
        let worst = circuits
            .map(|circuit| circuit.load(Ordering::Relaxed))
            .max();
        CIRCUITS
            .get(usize::from(worst.unwrap_or(0)))
            .map_or(CircuitState::Closed, |circuit| *circuit)
    }
}

impl GroupCells {
    const fn new(name: SmolStr) -> Self {
        Self {
            name,
            counters: OnceLock::new(),
        }
    }

    /// What was counted so far.
    pub(super) fn read(&self) -> &GroupCounters {
        self.counters.get().map_or(&NOTHING, |counters| &**counters)
    }

    /// Where to count.
    #[inline]
    pub(super) fn count(&self) -> &GroupCounters {
        self.counters.get_or_init(Box::default)
    }
}

impl Default for GroupCounters {
    fn default() -> Self {
        Self::new()
    }
}

impl GroupCounters {
    const fn new() -> Self {
        Self {
            admitted: LabelCounter::new([""]),
            refused: LabelCounter::new(CAUSES),
            refunded: LabelCounter::new([""]),
            foreign: LabelCounter::new([""]),
            drift: AtomicU64::new(1.0_f64.to_bits()),
            alert: AtomicU8::new(0),
            circuit: AtomicU8::new(0),
        }
    }

    pub(super) fn drift(&self) -> f64 {
        f64::from_bits(self.drift.load(Ordering::Relaxed))
    }

    pub(super) fn set_drift(&self, ratio: f64) {
        self.drift.store(ratio.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn alert(&self) -> u32 {
        u32::from(self.alert.load(Ordering::Relaxed))
    }

    pub(super) fn set_alert(&self, raised: u8) {
        self.alert.store(raised, Ordering::Relaxed);
    }

    pub(super) fn set_state(&self, state: HealthState) {
        let place = CIRCUITS.iter().position(|one| *one == state.circuit());
        let place = u8::try_from(place.unwrap_or(0)).unwrap_or(0);
        self.circuit.store(place, Ordering::Relaxed);
    }
}

/// What nobody counted.
static NOTHING: GroupCounters = GroupCounters::new();

/// From well to ill: the place is the severity.
pub(super) const CIRCUITS: [CircuitState; 3] = [
    CircuitState::Closed,
    CircuitState::HalfOpen,
    CircuitState::Open,
];

/// The names of the causes of a refusal, and of those to come.
const CAUSES: [&str; 9] = [
    "too_late",
    "never",
    "busy",
    "blocked",
    "queue_full",
    "unknown_group",
    "shutting_down",
    "removed",
    OTHER,
];

#[cfg(test)]
mod tests {
    use super::*;

    // Two of a hundred thousand were counted: the others take a name and a pointer each.
    #[test]
    fn a_group_that_nobody_called_has_no_counters() {
        let names: Vec<SmolStr> = (0..100_000)
            .map(|n| smol_str::format_smolstr!("{n}"))
            .collect();
        let groups = GroupTable::new().with(&names);
        groups.get(Some(&names[7])).count().admitted.increase(1);
        groups
            .get(Some(&"never heard of".into()))
            .count()
            .admitted
            .increase(2);
        let counted = groups.iter().filter(|group| group.counters.get().is_some());
        assert_eq!(counted.count(), 2);
        let admitted = groups.iter().map(|group| group.read().admitted.total());
        assert_eq!(admitted.sum::<u64>(), 3);
        assert_eq!(groups.iter().count(), 100_002);
        assert!(size_of::<GroupCells>() <= 40);
    }

    // Added later, a group counts beside those before it, which keep what they counted.
    #[test]
    fn groups_that_come_later_leave_the_others_as_they_are() {
        let (old, new) = (SmolStr::new_static("m"), SmolStr::new_static("a"));
        let before = GroupTable::new().with([&old]);
        before.get(Some(&old)).count().admitted.increase(5);
        let after = before.with([&new, &old]);
        before.get(Some(&old)).count().admitted.increase(1);
        after.get(Some(&new)).count().admitted.increase(2);
        let told = |name| after.get(Some(name)).read().admitted.total();
        assert_eq!((told(&old), told(&new), after.iter().count()), (6, 2, 4));
    }

    // A group that is called like one of the two of ours would be two series of one name.
    #[test]
    fn no_group_is_there_twice() {
        let groups = ["x", "*", "other", "x"].map(SmolStr::new_static);
        let cells = GroupTable::new().with(&groups);
        let names: Vec<_> = cells.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["*", "other", "x"]);
    }

    #[test]
    fn the_worst_group_is_the_circuit_of_the_api() {
        let cells = GroupTable::new().with(&["x", "y"].map(SmolStr::new_static));
        let set = |name: &'static str, state| {
            let group = cells.get(Some(&SmolStr::new_static(name)));
            group.count().set_state(state);
        };
        assert_eq!(cells.circuit(), CircuitState::Closed);
        set("other", HealthState::HalfOpen);
        assert_eq!(cells.circuit(), CircuitState::HalfOpen);
        set("x", HealthState::CacheOnly);
        assert_eq!(cells.circuit(), CircuitState::Open);
        set("x", HealthState::Throttle);
        assert_eq!(cells.circuit(), CircuitState::HalfOpen);
    }
}
