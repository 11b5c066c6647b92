//! The part of every limit that one process of several takes.

use std::time::Duration;

use outflow_core::{Limit, Rate};

use super::reader::{FieldValue, ValueError};
use super::tree::TreeValue;
use super::value_readers::share;

/// A fraction above zero and at most one. Kept as two whole numbers: a third of 30/s is 10/s and
/// not 9/s, which is what 333,333 millionths would make of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RateShare {
    part: u32,
    of: u32,
}

impl RateShare {
    pub(super) const ALL: Self = Self { part: 1, of: 1 };

    /// Reads `1/4`, `25%` or `0.25`.
    pub(super) fn read(item: &FieldValue<'_>) -> Result<Self, ValueError> {
        let written = match &item.node.value {
            TreeValue::Text(text) => text.split_once('/'),
            _ => None,
        };
        let portion = match written {
            Some((part, of)) => Self {
                part: part.trim().parse().map_err(|_| no_portion())?,
                of: of.trim().parse().map_err(|_| no_portion())?,
            },
            None => Self {
                part: share(item)?.as_parts_per_million(),
                of: 1_000_000,
            },
        };
        if portion.part == 0 || portion.part > portion.of {
            return Err(no_portion());
        }
        Ok(portion)
    }

    /// The limit that is left, rounded down and never nothing.
    pub(super) fn apply(self, limit: Limit) -> Limit {
        match self.of_rate(limit.rate()) {
            Some(rate) if self != Self::ALL => limit.with_rate(rate),
            _ => limit,
        }
    }

    fn of_rate(self, rate: Rate) -> Option<Rate> {
        let (part, of) = (u128::from(self.part), u128::from(self.of));
        let wanted = u128::from(rate.quantity()) * part;
        if wanted >= of {
            return Rate::new(u64::try_from(wanted / of).ok()?, rate.per()).ok();
        }
        let stretched = (rate.per().as_nanos() * of).div_ceil(wanted);
        Rate::new(1, Duration::from_nanos(u64::try_from(stretched).ok()?)).ok()
    }
}

fn no_portion() -> ValueError {
    ValueError::new("this is no part of a rate").help("write it like \"1/4\" or \"25%\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    // A third of 30 is whole; a third of 10 leaves 9 for three processes, never 12; a quarter of one
    // a second is one in four; a bucket's burst shrinks with it.
    #[test]
    fn a_part_is_exact_and_never_more() {
        let third = RateShare { part: 1, of: 3 };
        let quarter = RateShare { part: 1, of: 4 };
        let of = |portion: RateShare, rate: &str| {
            let limit = Limit::sliding(rate.parse().expect("valid"));
            portion.apply(limit).rate().to_string()
        };
        assert_eq!(of(third, "30/s"), "10/s");
        assert_eq!(of(third, "10/s"), "3/s");
        assert_eq!(of(quarter, "1/s"), "1/4s");
        assert_eq!(of(RateShare::ALL, "7/s"), "7/s");
        let bucket = Limit::bucket("40/s".parse().expect("valid"), 40).expect("valid");
        assert_eq!(quarter.apply(bucket).capacity(), 10);
    }
}
