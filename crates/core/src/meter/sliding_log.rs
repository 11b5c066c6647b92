//! The entries of a sliding window, oldest first: time and cost of each.
//!
//! Two parallel rings instead of one ring of pairs: most logs hold unit costs only and store no
//! costs at all (8 bytes an entry); small costs take one byte more. Entries are ordered by time, so
//! expired ones are found by bisection and dropped in one step. A log that was idle for its window
//! is emptied at once. It knows no limit and no window.

use alloc::collections::VecDeque;
use core::mem::size_of;

/// Log of (time, cost), ordered by time.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlidingLog {
    times: VecDeque<u64>,
    costs: EntryCosts,
    weight: u128,
}

impl SlidingLog {
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns the sum of all costs.
    pub(crate) const fn weight(&self) -> u128 {
        self.weight
    }

    pub(crate) fn oldest(&self) -> Option<u64> {
        self.times.front().copied()
    }

    pub(crate) fn newest(&self) -> Option<u64> {
        self.times.back().copied()
    }

    /// Adds an entry. `max_entries` is the most entries the log can ever need, so that it never
    /// reserves more. Responses arrive in almost any order, so an entry may belong before the
    /// newest few.
    #[inline]
    pub(crate) fn add(&mut self, time: u64, cost: u64, max_entries: u64) {
        let len = self.times.len();
        if len == self.times.capacity() {
            self.grow(max_entries);
        }
        self.costs.fit(cost, len);
        if self.newest().is_none_or(|newest| newest <= time) {
            self.times.push_back(time);
            self.costs.insert(len, cost);
        } else {
            let place = self.times.partition_point(|other| *other <= time);
            self.times.insert(place, time);
            self.costs.insert(place, cost);
        }
        self.weight += u128::from(cost);
    }

    /// Adds to the newest entry and moves it to `time`: for usage that must count although the log
    /// holds the maximum number of entries.
    pub(crate) fn merge(&mut self, time: u64, cost: u64) {
        let Some(newest) = self.newest() else {
            return self.add(time, cost, u64::MAX);
        };
        let index = self.times.len() - 1;
        let last = self.costs.at(index);
        self.remove_at(Some(index));
        self.add(newest.max(time), last.saturating_add(cost), u64::MAX);
    }

    /// Drops the entries for which `expired` holds, which must be the oldest ones; returns their
    /// number. A busy log loses one or two at a time; only an idle log has more, and bisects.
    #[inline]
    pub(crate) fn expire(&mut self, expired: impl Fn(u64) -> bool) -> usize {
        for count in 0..FEW {
            if !self.oldest().is_some_and(&expired) {
                return count;
            }
            self.times.pop_front();
            self.weight -= u128::from(self.costs.pop_front());
        }
        FEW + self.expire_many(expired)
    }

    #[cold]
    fn expire_many(&mut self, expired: impl Fn(u64) -> bool) -> usize {
        if self.newest().is_some_and(&expired) {
            return self.clear();
        }
        let count = self.times.partition_point(|&time| expired(time));
        self.times.drain(..count);
        self.weight -= self.costs.drop_front(count);
        count
    }

    /// Returns the time of the first entry at which the running sum reaches `weight`.
    pub(crate) fn time_of_weight(&self, weight: u128) -> Option<u64> {
        let index = self.costs.index_of_weight(weight, self.times.len())?;
        self.times.get(index).copied()
    }

    /// Removes the latest entry with this time and cost.
    pub(crate) fn remove(&mut self, time: u64, cost: u64) -> bool {
        let end = self.times.partition_point(|&t| t <= time);
        let found = (0..end)
            .rev()
            .take_while(|&i| self.times.get(i) == Some(&time))
            .find(|&i| self.costs.at(i) == cost);
        self.remove_at(found)
    }

    /// Removes the latest entry of this cost whose time is within `slack` of `time`.
    pub(crate) fn remove_near(&mut self, time: u64, slack: u64, cost: u64) -> bool {
        let end = self.times.partition_point(|&t| t <= time.saturating_add(slack));
        let found = (0..end)
            .rev()
            .take_while(|&i| self.times.get(i).is_some_and(|t| *t >= time.saturating_sub(slack)))
            .find(|&i| self.costs.at(i) == cost);
        self.remove_at(found)
    }

    /// Releases memory that an idle or shrunken log no longer needs.
    pub(crate) fn shrink(&mut self) {
        self.times.shrink_to_fit();
        self.costs.shrink();
    }

    /// Returns the bytes on the heap.
    pub(crate) fn memory(&self) -> usize {
        self.times.capacity() * size_of::<u64>() + self.costs.memory()
    }

    fn clear(&mut self) -> usize {
        let count = self.times.len();
        self.times.clear();
        self.costs.clear();
        self.weight = 0;
        count
    }

    fn remove_at(&mut self, index: Option<usize>) -> bool {
        let Some(index) = index else { return false };
        // The ring moves the shorter side, and refunds are nearly always recent.
        self.times.remove(index);
        self.weight -= u128::from(self.costs.remove(index));
        true
    }

    /// Grows by an eighth: a doubling log would hold up to twice the memory that its limit needs.
    fn grow(&mut self, max_entries: u64) {
        let len = self.times.len();
        let free = usize::try_from(max_entries).unwrap_or(usize::MAX).saturating_sub(len);
        let step = (len / 8).max(SMALLEST_STEP).min(free.max(1));
        self.times.reserve_exact(step);
        self.costs.reserve(step);
    }
}

/// Number of entries dropped one by one before bisection pays off.
const FEW: usize = 4;

/// Small enough for a limit of a few calls, large enough not to grow at every one.
const SMALLEST_STEP: usize = 16;

/// Costs of a log, as narrow as possible.
#[derive(Debug, Clone, Default)]
enum EntryCosts {
    /// Every entry costs 1 and nothing is stored.
    #[default]
    Unit,
    Byte(VecDeque<u8>),
    Word(VecDeque<u32>),
    Wide(VecDeque<u64>),
}

impl EntryCosts {
    /// Widens the costs of a log that has `len` entries until `cost` fits.
    #[inline]
    fn fit(&mut self, cost: u64, len: usize) {
        let fits = match self {
            Self::Unit => cost == 1,
            Self::Byte(_) => u8::try_from(cost).is_ok(),
            Self::Word(_) => u32::try_from(cost).is_ok(),
            Self::Wide(_) => true,
        };
        if !fits {
            self.widen(cost, len);
        }
    }

    /// Inserts a cost that fits.
    #[inline]
    fn insert(&mut self, index: usize, cost: u64) {
        match self {
            Self::Unit => {}
            Self::Byte(costs) => insert(costs, index, cost),
            Self::Word(costs) => insert(costs, index, cost),
            Self::Wide(costs) => insert(costs, index, cost),
        }
    }

    fn at(&self, index: usize) -> u64 {
        match self {
            Self::Unit => 1,
            Self::Byte(costs) => costs.get(index).map_or(0, |c| u64::from(*c)),
            Self::Word(costs) => costs.get(index).map_or(0, |c| u64::from(*c)),
            Self::Wide(costs) => costs.get(index).map_or(0, |c| *c),
        }
    }

    fn widen(&mut self, cost: u64, len: usize) {
        let all = (0..len).map(|i| self.at(i));
        *self = if u8::try_from(cost).is_ok() && matches!(self, Self::Unit) {
            Self::Byte(all.map(narrow).collect())
        } else if u32::try_from(cost).is_ok() {
            Self::Word(all.map(narrow).collect())
        } else {
            Self::Wide(all.collect())
        };
        // Equal to the capacity for times: growing by itself it would double.
        self.reserve(len / 8 + 1);
    }

    #[inline]
    fn pop_front(&mut self) -> u64 {
        match self {
            Self::Unit => 1,
            Self::Byte(costs) => costs.pop_front().map_or(0, u64::from),
            Self::Word(costs) => costs.pop_front().map_or(0, u64::from),
            Self::Wide(costs) => costs.pop_front().unwrap_or(0),
        }
    }

    /// Drops the first `count` costs and returns their sum.
    fn drop_front(&mut self, count: usize) -> u128 {
        match self {
            Self::Unit => as_weight(count),
            Self::Byte(costs) => costs.drain(..count).map(u128::from).sum(),
            Self::Word(costs) => costs.drain(..count).map(u128::from).sum(),
            Self::Wide(costs) => costs.drain(..count).map(u128::from).sum(),
        }
    }

    fn index_of_weight(&self, weight: u128, len: usize) -> Option<usize> {
        match self {
            Self::Unit => {
                let index = usize::try_from(weight.saturating_sub(1)).ok()?;
                (index < len).then_some(index)
            }
            Self::Byte(costs) => walk(costs, weight),
            Self::Word(costs) => walk(costs, weight),
            Self::Wide(costs) => walk(costs, weight),
        }
    }

    fn remove(&mut self, index: usize) -> u64 {
        match self {
            Self::Unit => 1,
            Self::Byte(costs) => costs.remove(index).map_or(0, u64::from),
            Self::Word(costs) => costs.remove(index).map_or(0, u64::from),
            Self::Wide(costs) => costs.remove(index).unwrap_or(0),
        }
    }

    /// Clears the log. It may hold unit costs again, but keeps its ring for the next ones.
    fn clear(&mut self) {
        match self {
            Self::Unit => {}
            Self::Byte(costs) => costs.clear(),
            Self::Word(costs) => costs.clear(),
            Self::Wide(costs) => costs.clear(),
        }
    }

    fn reserve(&mut self, more: usize) {
        match self {
            Self::Unit => {}
            Self::Byte(costs) => costs.reserve_exact(more),
            Self::Word(costs) => costs.reserve_exact(more),
            Self::Wide(costs) => costs.reserve_exact(more),
        }
    }

    fn shrink(&mut self) {
        match self {
            Self::Unit => {}
            Self::Byte(costs) if costs.is_empty() => *self = Self::Unit,
            Self::Word(costs) if costs.is_empty() => *self = Self::Unit,
            Self::Wide(costs) if costs.is_empty() => *self = Self::Unit,
            Self::Byte(costs) => costs.shrink_to_fit(),
            Self::Word(costs) => costs.shrink_to_fit(),
            Self::Wide(costs) => costs.shrink_to_fit(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Unit => 0,
            Self::Byte(costs) => costs.capacity(),
            Self::Word(costs) => costs.capacity() * size_of::<u32>(),
            Self::Wide(costs) => costs.capacity() * size_of::<u64>(),
        }
    }
}

#[inline]
fn insert<T: TryFrom<u64> + Default>(costs: &mut VecDeque<T>, index: usize, cost: u64) {
    if index == costs.len() {
        costs.push_back(narrow(cost));
    } else {
        costs.insert(index, narrow(cost));
    }
}

/// Converts a cost to a type that it is known to fit.
fn narrow<T: TryFrom<u64> + Default>(cost: u64) -> T {
    T::try_from(cost).unwrap_or_default()
}

fn walk<T: Copy + Into<u64>>(costs: &VecDeque<T>, weight: u128) -> Option<usize> {
    let mut total = 0_u128;
    costs.iter().position(|&cost| {
        total += u128::from(cost.into());
        total >= weight
    })
}

fn as_weight(count: usize) -> u128 {
    u128::try_from(count).unwrap_or(u128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(costs: &[u64]) -> SlidingLog {
        let mut log = SlidingLog::default();
        for (time, &cost) in (0..).zip(costs) {
            log.add(time, cost, u64::MAX);
        }
        log
    }

    // One cost for each width, in and out of order, with the unit costs before them widened too.
    #[test]
    fn costs_of_every_width_are_stored() {
        let costs = [1, 1, 200, 1, 70_000, 3, u64::MAX, 1];
        let mut log = filled(&costs);
        assert_eq!(log.weight(), costs.iter().map(|c| u128::from(*c)).sum());
        assert!(
            log.memory() >= costs.len() * 16,
            "8 bytes for the time and 8 for the cost"
        );
        assert_eq!(log.time_of_weight(203), Some(3));
        assert_eq!(log.time_of_weight(204), Some(4));
        assert_eq!(log.expire(|time| time < 6), 6);
        assert_eq!(log.weight(), u128::from(u64::MAX) + 1);
        assert_eq!(log.expire(|_| true), 2);
        assert_eq!((log.len(), log.weight()), (0, 0));
    }

    // Responses out of order: entries stay sorted, each with its own cost.
    #[test]
    fn a_late_entry_takes_its_place_in_time() {
        let mut log = filled(&[1, 2, 3]);
        log.add(1, 300, u64::MAX);
        log.add(0, 7, u64::MAX);
        assert_eq!((log.len(), log.weight()), (5, 313));
        assert_eq!(log.expire(|time| time < 1), 2);
        assert_eq!(log.weight(), 305);
        assert_eq!(log.time_of_weight(302), Some(1));
        assert_eq!(log.time_of_weight(303), Some(2));
    }

    #[test]
    fn a_merged_cost_counts_with_the_newest_entry() {
        let mut log = filled(&[1, 2]);
        log.merge(9, 5);
        assert_eq!((log.len(), log.weight(), log.newest()), (2, 8, Some(9)));
        let mut empty = SlidingLog::default();
        empty.merge(4, 2);
        assert_eq!((empty.len(), empty.weight(), empty.newest()), (1, 2, Some(4)));
    }

    #[test]
    fn only_the_matching_entry_is_removed() {
        let mut log = SlidingLog::default();
        for cost in [2, 3, 2] {
            log.add(7, cost, u64::MAX);
        }
        assert!(log.remove(7, 3));
        assert!(!log.remove(7, 3), "it was there once");
        assert!(!log.remove(8, 2), "another time");
        assert_eq!((log.len(), log.weight()), (2, 4));
    }

    // A limit of 20 needs 20 entries: the second step must not reach 32.
    #[test]
    fn never_reserves_more_than_its_limit_needs() {
        let mut log = SlidingLog::default();
        for time in 0..20 {
            log.add(time, 1, 20);
            let step = if time < 16 { 16 } else { 20 };
            assert_eq!(log.memory(), step * 8, "after {time}");
        }
        log.expire(|_| true);
        log.shrink();
        assert_eq!(log.memory(), 0, "an idle log costs nothing");
    }
}
