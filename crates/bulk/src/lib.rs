//! Runs durable jobs of many tenants through the client, fairly.
//!
//! It will hold the scheduler that takes a permit before it claims a job, the workers, the watcher
//! that knows when an action is complete, and the statistics derived from each job's transitions.
//! It sends nothing itself and touches no meter: both belong to the client.
