//! How a law is run: ten thousand times with every change, and a million times when there is time.
//!
//! The tests of the client read this very file too: there is one way to state a law.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Ten thousand histories a law, and a million in the long run.
pub const CASES: u32 = 10_000;
pub const STRESS_CASES: u32 = 1_000_000;

/// Runs a law over generated values; prints the smallest counterexample when it breaks.
pub fn law<S: Strategy>(
    cases: u32,
    values: S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    if let Err(broken) = TestRunner::new(config).run(&values, test) {
        panic!("{broken}");
    }
}

/// Declares a law twice: as an ordinary test, and as a long run of the same body.
#[macro_export]
macro_rules! laws {
    ($($(#[$attribute:meta])* fn $name:ident / fn $stress:ident ($values:expr) = $body:expr;)+) => {$(
        $(#[$attribute])*
        fn $name() {
            $crate::support::law($crate::support::CASES, $values, $body);
        }

        #[test]
        #[ignore = "long run: cargo xtask test --stress"]
        fn $stress() {
            $crate::support::law($crate::support::STRESS_CASES, $values, $body);
        }
    )+};
}
