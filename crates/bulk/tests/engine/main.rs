//! The engine as its users meet it, in virtual time: a strict API, a real client, a real store.

#![expect(
    clippy::panic,
    reason = "a test stops at the first surprise, its helpers too"
)]

mod actions;
mod failures;
mod fairness;
mod handlers;
mod headline;
mod operators;
mod schedulers;
mod submissions;
mod support;
