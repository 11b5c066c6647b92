//! The stored form of an account: plain 64-bit words, without pointers.
//!
//! A backend adds its own frame (checksum, copies, version of the file). Instants are on the
//! account's timeline, so that a backend whose clock starts again keeps the difference.

use alloc::vec::Vec;
use core::time::Duration;

use crate::CountBy;
use crate::account::arrival_ring::{ArrivalRing, BUCKETS};
use crate::account::counted_limit::{ArrivalHistory, CountedLimit, HistoryKind, LimitKey, LimitRule};
use crate::account::holder::Holder;
use crate::account::stored_facts::StoredFacts;
use crate::account::{Account, LeaseUnits, QuotaWant};
use crate::time::span_nanos;

error_enum! {
    /// Reason that words are no account.
    pub enum InvalidAccount {
        /// The words end too early, are too many or have impossible values.
        Malformed = "these words are no account: use an intact copy, or start a new account",
    }
}

impl Account {
    /// Returns the whole state as plain words.
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = Vec::new();
        words.extend([self.latest, self.wall_offset, self.fair_clock, self.joins]);
        words.push(self.unknown_before);
        words.push(count(self.limits.len()));
        words.push(count(self.holders.len()));
        for limit in &self.limits {
            write_limit(&mut words, limit);
        }
        for holder in &self.holders {
            write_holder(&mut words, holder);
        }
        let facts = &self.facts;
        words.extend([facts.generation, facts.written_at, facts.until]);
        words.push(count(facts.words.len()));
        words.extend(&facts.words);
        words
    }

    /// Builds an account from its words.
    ///
    /// # Errors
    /// If the words were not written by [`to_words`](Self::to_words).
    pub fn from_words(words: &[u64]) -> Result<Self, InvalidAccount> {
        let mut reader = WordReader(words);
        let account = reader.account().filter(|_| reader.0.is_empty());
        account.ok_or(InvalidAccount::Malformed)
    }
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

fn write_limit(words: &mut Vec<u64>, limit: &CountedLimit) {
    write_rule(words, &limit.rule);
    words.push(u64::from(limit.in_force));
    match &limit.history {
        ArrivalHistory::Sliding(ring) => {
            words.push(ring.first);
            words.extend(&ring.units);
        }
        ArrivalHistory::Aligned { edge, spent } => words.extend([*edge, *spent]),
        ArrivalHistory::Bucket { full_at } => {
            let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0);
            words.extend([half(*full_at), half(*full_at >> 64)]);
        }
    }
}

fn write_rule(words: &mut Vec<u64>, rule: &LimitRule) {
    let measure = CountBy::ALL.iter().position(|measure| *measure == rule.key.measure);
    words.extend([
        match rule.key.kind {
            HistoryKind::Sliding => 0,
            HistoryKind::Aligned => 1,
            HistoryKind::Bucket => 2,
        },
        count(measure.unwrap_or(0)),
        rule.key.window,
        rule.quantity,
        rule.capacity,
    ]);
}

fn write_holder(words: &mut Vec<u64>, holder: &Holder) {
    words.extend([holder.id, holder.number, holder.joined]);
    words.extend([holder.granted.calls, holder.granted.cost]);
    words.push(holder.wait.map_or(NO_WAIT, |wait| span_nanos(wait).min(NEVER)));
    words.extend([holder.held.calls, holder.held.cost]);
    words.extend([holder.deadline, holder.timeout]);
    words.extend([holder.wanted.units.calls, holder.wanted.units.cost, holder.wanted.first]);
    words.extend([holder.due, holder.tag]);
    words.push(count(holder.rules.len()));
    for rule in &holder.rules {
        write_rule(words, rule);
    }
}

/// Reads words from the front.
struct WordReader<'a>(&'a [u64]);

impl WordReader<'_> {
    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a number of items. Each item has a word at least, so a larger number is malformed.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.word()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn units(&mut self) -> Option<LeaseUnits> {
        Some(LeaseUnits::new(self.word()?, self.word()?))
    }

    fn account(&mut self) -> Option<Account> {
        let (latest, wall_offset) = (self.word()?, self.word()?);
        let (fair_clock, joins) = (self.word()?, self.word()?);
        let unknown_before = self.word()?;
        let (limits, holders) = (self.count()?, self.count()?);
        Some(Account {
            latest,
            wall_offset,
            fair_clock,
            joins,
            unknown_before,
            limits: (0..limits).map(|_| self.limit()).collect::<Option<_>>()?,
            holders: (0..holders).map(|_| self.holder()).collect::<Option<_>>()?,
            facts: self.facts()?,
        })
    }

    fn facts(&mut self) -> Option<StoredFacts> {
        let (generation, written_at, until) = (self.word()?, self.word()?, self.word()?);
        let words = self.word().and_then(|count| usize::try_from(count).ok())?;
        Some(StoredFacts {
            generation,
            written_at,
            until,
            words: (0..words).map(|_| self.word()).collect::<Option<_>>()?,
        })
    }

    fn limit(&mut self) -> Option<CountedLimit> {
        let rule = self.rule()?;
        let in_force = self.word()? != 0;
        let history = match rule.key.kind {
            HistoryKind::Sliding => {
                let first = self.word()?;
                let units = (0..BUCKETS).map(|_| self.word()).collect::<Option<_>>()?;
                ArrivalHistory::Sliding(ArrivalRing::from_units(rule.key.window, first, units))
            }
            HistoryKind::Aligned => ArrivalHistory::Aligned {
                edge: self.word()?,
                spent: self.word()?,
            },
            HistoryKind::Bucket => ArrivalHistory::Bucket {
                full_at: u128::from(self.word()?) | u128::from(self.word()?) << 64,
            },
        };
        Some(CountedLimit {
            rule,
            in_force,
            history,
        })
    }

    fn rule(&mut self) -> Option<LimitRule> {
        let kind = match self.word()? {
            0 => HistoryKind::Sliding,
            1 => HistoryKind::Aligned,
            2 => HistoryKind::Bucket,
            _ => return None,
        };
        let measure = *CountBy::ALL.get(usize::try_from(self.word()?).ok()?)?;
        let window = self.word()?;
        let (quantity, capacity) = (self.word()?, self.word()?);
        let key = LimitKey { kind, measure, window };
        let rule = LimitRule {
            key,
            quantity,
            capacity,
        };
        (window > 0 && quantity > 0 && capacity > 0).then_some(rule)
    }

    fn holder(&mut self) -> Option<Holder> {
        let (id, number, joined) = (self.word()?, self.word()?, self.word()?);
        let granted = self.units()?;
        let wait = match self.word()? {
            NO_WAIT => None,
            NEVER => Some(Duration::MAX),
            nanos => Some(Duration::from_nanos(nanos)),
        };
        let held = self.units()?;
        let (deadline, timeout) = (self.word()?, self.word()?);
        let wanted = QuotaWant {
            units: self.units()?,
            first: self.word()?,
        };
        let (due, tag) = (self.word()?, self.word()?);
        let rules = self.count()?;
        Some(Holder {
            id,
            number,
            joined,
            granted,
            wait,
            held,
            deadline,
            timeout,
            wanted,
            due,
            tag,
            rules: (0..rules).map(|_| self.rule()).collect::<Option<_>>()?,
        })
    }
}

/// Word for no wait, and for a wait without end.
const NO_WAIT: u64 = u64::MAX;
const NEVER: u64 = u64::MAX - 1;
