//! A header with one part of a hint, as in dialects that split a limit over several.

use super::{Hint, HintLabel, MalformedHint, reset};
use crate::WallTime;
use crate::byte_cursor::{parse_whole, trim_blanks};

/// Part of a hint that a header carries, in the dialects with one header for each.
#[derive(Clone, Copy)]
pub(super) enum HintPart {
    Limit,
    Remaining,
    Used,
    Reset,
    Group,
}

impl HintPart {
    /// Parses the value of a header into a hint.
    pub(super) fn apply(self, mut hint: Hint, value: &[u8], now: WallTime) -> Result<Hint, MalformedHint> {
        let value = trim_blanks(value);
        let number = || parse_whole(value).map(Some).ok_or(MalformedHint);
        match self {
            Self::Limit => hint.limit = number()?,
            Self::Remaining => hint.remaining = number()?,
            Self::Used => hint.used = number()?,
            Self::Reset => hint.resets_in = Some(reset::read(value, now).ok_or(MalformedHint)?),
            Self::Group => hint.group = Some(HintLabel::new(value).ok_or(MalformedHint)?),
        }
        Ok(hint)
    }
}
