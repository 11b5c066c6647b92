//! Programs of users, run as their users run them: the recipes of `docs/recipes`, the commands of the
//! documents, a load generator and a slow attacker.

#![expect(clippy::panic, reason = "a test stops at the first surprise, its helpers too")]

mod documents;
mod load_generator;
mod postman;
mod programs;
mod sdk_errors;
mod slow_clients;
mod support;
