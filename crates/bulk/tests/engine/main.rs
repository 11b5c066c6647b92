//! The engine as its users meet it, in virtual time: a strict API, a real client, a real store.

mod actions;
mod congestion;
mod crew;
mod failures;
mod fairness;
mod handlers;
mod headline;
mod metrics;
mod neighbours;
mod operators;
mod schedulers;
mod submissions;
mod support;
mod throttles;
