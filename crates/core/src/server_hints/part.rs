//! One header that tells one part of a hint, as in the dialects that split a limit over several.

use super::{Hint, Label, Malformed, reset};
use crate::WallTime;
use crate::scan::{trimmed, whole};

/// Which part of a hint a header tells, in the dialects that use one header for each.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Limit,
    Remaining,
    Used,
    Reset,
    Group,
}

impl Part {
    /// Puts the value of a header into a hint.
    pub(super) fn of(self, mut hint: Hint, value: &[u8], now: WallTime) -> Result<Hint, Malformed> {
        let value = trimmed(value);
        let number = || whole(value).map(Some).ok_or(Malformed);
        match self {
            Self::Limit => hint.limit = number()?,
            Self::Remaining => hint.remaining = number()?,
            Self::Used => hint.used = number()?,
            Self::Reset => hint.resets_in = Some(reset::read(value, now).ok_or(Malformed)?),
            Self::Group => hint.group = Some(Label::new(value).ok_or(Malformed)?),
        }
        Ok(hint)
    }
}
