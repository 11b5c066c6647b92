//! Keeps what must outlive a call or be seen by others: permits on a ledger, jobs in a queue.
//!
//! It will hold the ledger that processes and machines share a limit through, the job queue of the
//! bulk engine, and one contract that every backend of either must pass. Files, `SQLite` and Redis
//! are known here and nowhere else; what a limit allows is decided by the core.
