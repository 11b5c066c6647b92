//! Share of every limit that one of several processes uses.

use std::time::Duration;

use outflow_config::value_readers::read_share;
use outflow_config::{FieldValue, TreeValue, ValueError};
use outflow_core::{Limit, Rate};

/// A fraction above zero and at most one. It is stored as two whole numbers, because 333,333 millionths of
/// 30/s are 9/s and a third is 10/s.
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
        let share = match written {
            Some((part, of)) => Self {
                part: part.trim().parse().map_err(|_| share_error())?,
                of: of.trim().parse().map_err(|_| share_error())?,
            },
            None => Self {
                part: read_share(item)?.as_parts_per_million(),
                of: 1_000_000,
            },
        };
        if share.part == 0 || share.part > share.of {
            return Err(share_error());
        }
        Ok(share)
    }

    /// Returns this share of a limit, rounded down and above zero.
    pub(super) fn apply(self, limit: Limit) -> Limit {
        match self.scale_rate(limit.rate()) {
            Some(rate) if self != Self::ALL => limit.with_rate(rate),
            _ => limit,
        }
    }

    fn scale_rate(self, rate: Rate) -> Option<Rate> {
        let (part, of) = (u128::from(self.part), u128::from(self.of));
        let wanted = u128::from(rate.quantity()) * part;
        if wanted >= of {
            return Rate::new(u64::try_from(wanted / of).ok()?, rate.per()).ok();
        }
        let stretched = (rate.per().as_nanos() * of).div_ceil(wanted);
        Rate::new(1, Duration::from_nanos(u64::try_from(stretched).ok()?)).ok()
    }
}

fn share_error() -> ValueError {
    ValueError::new("this is no part of a rate").help("write it like \"1/4\" or \"25%\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    // A third of 30/s is exact; thirds of 10/s are 9/s for three processes, never 12/s; a quarter of 1/s is
    // one in four seconds; a bucket's burst shrinks too.
    #[test]
    fn a_share_is_exact_or_rounded_down() {
        let third = RateShare { part: 1, of: 3 };
        let quarter = RateShare { part: 1, of: 4 };
        let of = |share: RateShare, rate: &str| {
            let limit = Limit::sliding(rate.parse().expect("valid"));
            share.apply(limit).rate().to_string()
        };
        assert_eq!(of(third, "30/s"), "10/s");
        assert_eq!(of(third, "10/s"), "3/s");
        assert_eq!(of(quarter, "1/s"), "1/4s");
        assert_eq!(of(RateShare::ALL, "7/s"), "7/s");
        let bucket = Limit::bucket("40/s".parse().expect("valid"), 40).expect("valid");
        assert_eq!(quarter.apply(bucket).capacity(), 10);
    }
}
