//! Programs that people have, each run as they run it: the recipes of `docs/recipes`, the lines of the
//! documents, a load generator, and one that attacks by being slow.

#![expect(
    clippy::panic,
    reason = "a test stops at the first surprise, its helpers too"
)]

mod documents;
mod load_generator;
mod programs;
mod slow_clients;
mod support;
