//! Contract of a job store, in five traits.
//!
//! A job moves by four steps and no other: it is *submitted*, *claimed*, *settled* or *reaped*. Each step
//! is atomic and changes the job together with all counts of it. The last three are fenced: a worker that
//! lost its claim cannot change the job. Every store passes one test suite (`tests/contract`).
//!
//! # Order
//! Tenants with work in a lane are served in fair order ([`FairQueue`](outflow_core::FairQueue)): by
//! weight, without saved credit, without starvation. A tenant's share is its weight and its priority
//! times the class of its best waiting job. Among its own jobs, classes share 16 : 4 : 1, and within a
//! class the order is that of submission. A job that returns after a throttle, a failure or a dead worker
//! precedes all jobs submitted after it.
//!
//! # Time
//! Leases, retries and cooldowns are spans of the store's own clock: the process's, or the server's.
//! Civil time is used only for instants that people write (start, deadline) or read.

mod actions;
mod control;
mod dead_letters;
mod queue;
mod tenants;

pub use actions::ActionStore;
pub use control::StoreControl;
pub use dead_letters::DeadLetterStore;
pub use queue::JobQueue;
pub use tenants::TenantStore;

use crate::error::StoreError;

/// Result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// Future of a store operation.
pub trait StoreFuture<T>: Future<Output = StoreResult<T>> + Send {}

impl<T, F: Future<Output = StoreResult<T>> + Send> StoreFuture<T> for F {}

/// A complete job store: every type that implements the five traits.
pub trait JobStore: JobQueue + TenantStore + ActionStore + DeadLetterStore + StoreControl {}

impl<S> JobStore for S where S: JobQueue + TenantStore + ActionStore + DeadLetterStore + StoreControl {}
