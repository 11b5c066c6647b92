//! Number of the trace that a call belongs to.
//!
//! Waiters, permits and events hold it by value: a text would cost each traced call an allocation. Bytes instead
//! of a `u128` need no alignment, which keeps a waiter small.

use std::fmt;

/// Trace id of a call; the default is no trace.
///
/// ```
/// use outflow::trace::TraceId;
///
/// assert_eq!(TraceId::new(7).to_string(), "00000000000000000000000000000007");
/// assert!(TraceId::default().is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TraceId([u8; 16]);

impl TraceId {
    pub(crate) const NONE: Self = Self([0; 16]);

    /// Creates the id of a trace; zero is no trace, as in the standard.
    pub const fn new(id: u128) -> Self {
        Self(id.to_be_bytes())
    }

    /// Returns true if the call belongs to no trace.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for TraceId {
    /// Formats it as 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}
