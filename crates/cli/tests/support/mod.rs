//! How a law is run and where its seeds are: as everywhere else.

#![allow(
    dead_code,
    unused_macros,
    unreachable_pub,
    clippy::panic,
    reason = "a part of what the tests of the core use, which may stop at the first surprise"
)]

#[path = "../../../core/tests/support/laws.rs"]
pub mod laws;
#[path = "../../../core/tests/support/made.rs"]
pub mod made;
#[path = "../../../core/tests/support/seeds.rs"]
pub mod seeds;

pub use laws::{CASES, STRESS_CASES, law};
