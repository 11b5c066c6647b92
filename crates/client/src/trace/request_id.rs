//! A number for one call.
//!
//! In the form of a UUID of version 7: the time first, so that a list of them is in the order of the
//! calls, then chance. It names a call in logs and protects nothing, so plain randomness is enough.

use std::fmt;

use fastrand::Rng;
use outflow_core::WallTime;
use smol_str::{SmolStr, ToSmolStr};

/// The number of a call.
///
/// ```
/// use outflow::core::WallTime;
/// use outflow::trace::RequestId;
///
/// let at = WallTime::from_unix_secs(1_700_000_000);
/// let id = RequestId::new(at, &mut fastrand::Rng::with_seed(7));
/// assert!(id.to_string().starts_with("018bcfe5-6800-7"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(u128);

impl RequestId {
    /// A number for a call that begins now.
    pub fn new(now: WallTime, rng: &mut Rng) -> Self {
        let millis = now.as_duration().as_millis() & ((1 << 48) - 1);
        let chance = rng.u128(..) & !(VERSION_BITS | VARIANT_BITS) & ((1 << 80) - 1);
        Self(millis << 80 | VERSION | VARIANT | chance)
    }

    /// As logs show it.
    pub fn as_text(self) -> SmolStr {
        self.to_smolstr()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |from: u32, bits: u32| self.0 >> from & ((1 << bits) - 1);
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            part(96, 32),
            part(80, 16),
            part(64, 16),
            part(48, 16),
            part(0, 48)
        )
    }
}

/// Four bits that say 7.
const VERSION_BITS: u128 = 0xf << 76;
const VERSION: u128 = 0x7 << 76;

/// Two bits that say which layout of UUIDs it is.
const VARIANT_BITS: u128 = 0b11 << 62;
const VARIANT: u128 = 0b10 << 62;
