//! Counters of an API's groups.
//!
//! Every group has its series from the start and its counters from its first event: of a thousand
//! groups a program may call three, and an uncounted group reads as zero without memory. Groups are
//! added and removed in batches, so that existing counters stay in place.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use outflow_core::{CircuitState, HealthState};
use smol_str::SmolStr;

use super::counters::LabelCounter;
use super::{ALL_GROUPS, OTHER};

/// Groups of one API.
#[derive(Clone, Debug)]
pub(super) struct GroupTable {
    /// For events of all groups.
    all: Arc<GroupCells>,
    /// For unknown groups.
    other: Arc<GroupCells>,
    /// Each batch is sorted by name, and no name occurs twice.
    named: Vec<Arc<[GroupCells]>>,
}

/// One group.
#[derive(Debug)]
pub(super) struct GroupCells {
    pub(super) name: SmolStr,
    counters: OnceLock<Box<GroupCounters>>,
}

/// Counters of one group.
#[derive(Debug)]
pub(super) struct GroupCounters {
    pub(super) admitted: LabelCounter<1>,
    pub(super) refused: LabelCounter<{ CAUSES.len() }>,
    pub(super) refunded: LabelCounter<1>,
    pub(super) foreign: LabelCounter<1>,
    /// Ratio as bits.
    drift: AtomicU64,
    alert: AtomicU8,
    circuit: AtomicU8,
}

impl GroupTable {
    /// Returns a table with only the built-in groups.
    pub(super) fn new() -> Self {
        let one = |name| Arc::new(GroupCells::new(SmolStr::new_static(name)));
        Self {
            all: one(ALL_GROUPS),
            other: one(OTHER),
            named: Vec::new(),
        }
    }

    /// Returns the table with the new names among these.
    pub(super) fn with<'a>(&self, names: impl IntoIterator<Item = &'a SmolStr>) -> Self {
        let is_new = |name: &&SmolStr| **name != ALL_GROUPS && self.find(name).is_none();
        let mut names: Vec<_> = names.into_iter().filter(is_new).collect();
        names.sort_unstable();
        names.dedup();
        let batch: Arc<[_]> = names.into_iter().cloned().map(GroupCells::new).collect();
        let mut groups = self.clone();
        groups.named.extend(Some(batch).filter(|batch| !batch.is_empty()));
        groups
    }

    /// Returns the table without the batches that contain none of these names.
    pub(super) fn only<'a>(&self, names: impl IntoIterator<Item = &'a SmolStr>) -> Self {
        let names: HashSet<_> = names.into_iter().collect();
        let mut groups = self.clone();
        let is_known = |group: &GroupCells| names.contains(&group.name);
        groups.named.retain(|batch| batch.iter().any(is_known));
        groups
    }

    /// Returns the group of this name, or `other` if it is unknown.
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
            let index = batch.binary_search_by(|group| group.name.cmp(name));
            batch.get(index.ok()?)
        })
    }

    /// Returns all groups.
    pub(super) fn iter(&self) -> impl Iterator<Item = &GroupCells> {
        std::iter::once(&*self.all).chain(self.callable())
    }

    /// Returns the groups that calls belong to.
    pub(super) fn callable(&self) -> impl Iterator<Item = &GroupCells> {
        std::iter::once(&*self.other).chain(self.named.iter().flat_map(|batch| &**batch))
    }

    /// Returns the worst circuit state of any group, as reported by events.
    pub(super) fn circuit(&self) -> CircuitState {
        let circuits = self.iter().map(|group| &group.read().circuit);
        let worst = circuits.map(|circuit| circuit.load(Ordering::Relaxed)).max();
        CircuitState::ALL
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

    /// Returns the counts so far.
    pub(super) fn read(&self) -> &GroupCounters {
        self.counters.get().map_or(&NO_COUNTS, |counters| &**counters)
    }

    /// Returns the counters for writing.
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
        let index = CircuitState::ALL.iter().position(|one| *one == state.circuit());
        let index = u8::try_from(index.unwrap_or(0)).unwrap_or(0);
        self.circuit.store(index, Ordering::Relaxed);
    }
}

/// Counters of a group without events.
static NO_COUNTS: GroupCounters = GroupCounters::new();

/// Reasons of a refusal, and a slot for future ones.
const CAUSES: [&str; 9] = [
    "too_late",
    "cost_too_high",
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

    // Two of a hundred thousand are counted: each other one takes a name and a pointer.
    #[test]
    fn a_group_without_calls_has_no_counters() {
        let names: Vec<SmolStr> = (0..100_000).map(|n| smol_str::format_smolstr!("{n}")).collect();
        let groups = GroupTable::new().with(&names);
        groups.get(Some(&names[7])).count().admitted.increase(1);
        groups.get(Some(&"unknown".into())).count().admitted.increase(2);
        let counted = groups.iter().filter(|group| group.counters.get().is_some());
        assert_eq!(counted.count(), 2);
        let admitted = groups.iter().map(|group| group.read().admitted.total());
        assert_eq!(admitted.sum::<u64>(), 3);
        assert_eq!(groups.iter().count(), 100_002);
        assert!(size_of::<GroupCells>() <= 40);
    }

    // A group added later has its own counters; earlier ones keep theirs.
    #[test]
    fn adding_groups_keeps_existing_counts() {
        let (old, new) = (SmolStr::new_static("m"), SmolStr::new_static("a"));
        let before = GroupTable::new().with([&old]);
        before.get(Some(&old)).count().admitted.increase(5);
        let after = before.with([&new, &old]);
        before.get(Some(&old)).count().admitted.increase(1);
        after.get(Some(&new)).count().admitted.increase(2);
        let total = |name| after.get(Some(name)).read().admitted.total();
        assert_eq!((total(&old), total(&new), after.iter().count()), (6, 2, 4));
    }

    // A group named like a built-in one would give two series of one name.
    #[test]
    fn no_group_occurs_twice() {
        let groups = ["x", "*", "other", "x"].map(SmolStr::new_static);
        let cells = GroupTable::new().with(&groups);
        let names: Vec<_> = cells.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["*", "other", "x"]);
    }

    #[test]
    fn the_circuit_of_an_api_is_that_of_its_worst_group() {
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
