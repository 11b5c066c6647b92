//! The engine from its users' side, in virtual time: a mock API, a real client, a real store.

mod actions;
mod congestion;
mod estimates;
mod failures;
mod fairness;
mod handlers;
mod metrics;
mod mixed_load;
mod operator;
mod outages;
mod schedulers;
mod shared_accounts;
mod stalls;
mod submissions;
mod support;
mod three_tenants;
mod throttles;
mod worker_pool;
