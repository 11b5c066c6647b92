//! The runner of laws: ten thousand cases with every change, a million in the stress run.
//!
//! All crates state their laws in this way.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Cases of a law with every change.
pub const CASES: u32 = 10_000;

/// Cases of a law in the stress run.
pub const STRESS_CASES: u32 = 1_000_000;

/// Runs a law over generated values.
///
/// # Panics
/// If the law breaks, with the smallest counterexample.
#[expect(clippy::panic, reason = "a broken law fails its test")]
pub fn law<S: Strategy>(cases: u32, values: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    if let Err(broken) = TestRunner::new(config).run(&values, test) {
        panic!("{broken}");
    }
}

/// Declares a law twice: as an ordinary test, and as a long run of its body.
#[macro_export]
macro_rules! laws {
    ($($(#[$attribute:meta])* fn $name:ident / fn $stress:ident ($values:expr) = $body:expr;)+) => {$(
        $(#[$attribute])*
        fn $name() {
            $crate::laws::law($crate::laws::CASES, $values, $body);
        }

        #[test]
        #[ignore = "long run: cargo xtask test --stress"]
        fn $stress() {
            $crate::laws::law($crate::laws::STRESS_CASES, $values, $body);
        }
    )+};
}
