//! Who stands in the order, and with what claim.

use core::fmt;

/// Names a tenant that has joined a [`FairQueue`](crate::FairQueue).
///
/// A handle outlives its tenant harmlessly: once the tenant has left, every call with it changes
/// nothing, even when its place has been given to someone else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tenant {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl Tenant {
    /// A small number that no other present tenant has: an index for what the caller knows of it.
    pub const fn slot(self) -> u32 {
        self.slot
    }
}

/// How much of the service a tenant may claim, beside others of its priority: twice the weight is
/// twice the service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight(u32);

impl Weight {
    /// The claim of an ordinary tenant.
    pub const ONE: Self = Self(1);

    /// A claim of `weight`. Choose small numbers such as 3 : 2 : 1; only their ratio matters.
    ///
    /// # Errors
    /// If the weight is zero: such a tenant would never be served.
    pub const fn new(weight: u32) -> Result<Self, InvalidWeight> {
        if weight == 0 {
            return Err(InvalidWeight);
        }
        Ok(Self(weight))
    }

    /// The claim as a number, at least 1.
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

/// A weight of zero was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidWeight;

impl fmt::Display for InvalidWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a weight of 0 would never be served: use at least 1, or pause the tenant")
    }
}

impl core::error::Error for InvalidWeight {}

/// How urgent a tenant's work is.
///
/// A priority multiplies the weight instead of going first: strict levels would let a busy high
/// tenant hold a low one back for ever. So a low tenant's turn comes nearer with every service that
/// others receive, and its share never falls below its part of the sum of all claims.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// A quarter of the service of a normal tenant of the same weight.
    Low,
    /// The usual.
    #[default]
    Normal,
    /// Four times the service of a normal tenant of the same weight.
    High,
}

impl Priority {
    /// By how much a weight counts. Four apart is plainly felt, and one low tenant beside one high
    /// one still gets a seventeenth.
    pub(super) const fn factor(self) -> u64 {
        match self {
            Self::Low => 1,
            Self::Normal => 4,
            Self::High => 16,
        }
    }
}
