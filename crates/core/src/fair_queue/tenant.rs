//! Tenants of the order, their weights and priorities.

use core::fmt;

/// Handle of a tenant that has joined a [`FairQueue`](crate::FairQueue).
///
/// A handle may outlive its tenant: once the tenant has left, every call with it changes nothing,
/// even after its slot was reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tenant {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl Tenant {
    /// Returns a small number that no other present tenant has: an index for the caller's own
    /// tables.
    pub const fn slot(self) -> u32 {
        self.slot
    }
}

/// Relative share of the service among tenants of equal priority: twice the weight is twice the
/// service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight(u32);

impl Weight {
    /// The weight of an ordinary tenant.
    pub const ONE: Self = Self(1);

    /// Builds a weight. Choose small numbers such as 3 : 2 : 1; only their ratio matters.
    ///
    /// # Errors
    /// If the weight is zero: such a tenant would never be served.
    pub const fn new(weight: u32) -> Result<Self, InvalidWeight> {
        if weight == 0 {
            return Err(InvalidWeight);
        }
        Ok(Self(weight))
    }

    /// Returns the weight as a number, at least 1.
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

/// The weight is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidWeight;

impl fmt::Display for InvalidWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a weight of 0 would never be served: use at least 1, or pause the tenant")
    }
}

impl core::error::Error for InvalidWeight {}

/// Priority of a tenant's work.
///
/// A priority multiplies the weight instead of going first: strict levels would let a busy high
/// tenant block a low one for ever. So every service of other tenants brings a low tenant closer,
/// and its share never falls below its part of the sum of all shares.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// A quarter of the service of a normal tenant of the same weight.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Four times the service of a normal tenant of the same weight.
    High,
}

impl Priority {
    /// Returns the multiplier of the weight. A factor of four is clearly noticeable, and one low
    /// tenant next to one high one still gets a seventeenth.
    pub const fn factor(self) -> u64 {
        match self {
            Self::Low => 1,
            Self::Normal => 4,
            Self::High => 16,
        }
    }
}
