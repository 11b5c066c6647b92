//! Operations on the state of the embedded store, one file for each step of the contract.

pub(crate) mod actions;
pub(crate) mod audit;
pub(crate) mod cancel;
pub(crate) mod claim;
pub(crate) mod collect_garbage;
pub(crate) mod dead_letters;
pub(crate) mod paused_tenants;
pub(crate) mod poison_isolation;
pub(crate) mod publish;
pub(crate) mod reap;
pub(crate) mod remaining;
pub(crate) mod settle;
pub(crate) mod skip;
pub(crate) mod submit;
pub(crate) mod tenants;
pub(crate) mod transitions;
