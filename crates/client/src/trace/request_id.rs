//! Identifier of one call.
//!
//! A UUID of version 7: time first, so that they sort in the order of calls, then random bits. It
//! names a call in logs and protects nothing, so plain randomness suffices.

use std::fmt;

use fastrand::Rng;
use outflow_core::WallTime;
use smol_str::{SmolStr, ToSmolStr};

/// Identifier of a call.
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
    /// Returns an identifier for a call that starts now.
    pub fn new(now: WallTime, rng: &mut Rng) -> Self {
        let millis = now.as_duration().as_millis() & ((1 << 48) - 1);
        let random = rng.u128(..) & !(VERSION_BITS | VARIANT_BITS) & ((1 << 80) - 1);
        Self(millis << 80 | VERSION | VARIANT | random)
    }

    /// Formats it for logs.
    pub fn to_text(self) -> SmolStr {
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

/// Version bits, with the value 7.
const VERSION_BITS: u128 = 0xf << 76;
const VERSION: u128 = 0x7 << 76;

/// Variant bits, which select the UUID layout.
const VARIANT_BITS: u128 = 0b11 << 62;
const VARIANT: u128 = 0b10 << 62;
