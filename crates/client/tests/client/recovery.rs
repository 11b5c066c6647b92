//! Bad days of an API, with the client that a user gets from an address and limits.
//!
//! Every other setting is listed by its test with the reason. Limits are 35 a second at 50 ms unless a test
//! says otherwise; other limits and latencies are in the benchmark `recovery`.

mod errors;
mod failing_paths;
mod outages;
mod settings;
mod throttles;
mod waiting;

use std::time::Duration;

use outflow_testkit::recovery::{RecoveryFigures, RecoveryPlan, RecoveryScenario};

const SECOND: Duration = Duration::from_secs(1);
const LATENCY: Duration = Duration::from_millis(50);

/// Plans a scenario, as the goals are stated for it.
fn plan(name: &str) -> RecoveryPlan {
    let scenario = RecoveryScenario::named(name, false);
    RecoveryPlan::new(&["35/s"], LATENCY, scenario)
}

/// Asserts the goals of every outage: the full rate is soon back, the dead server is spared, and callers
/// who can be served are served.
fn assert_outage_goals(figures: &RecoveryFigures) {
    println!("{figures}");
    assert!(figures.to_full_after_wait() <= 30.0, "{figures}");
    assert!(figures.to_half_after_wait() <= 10.0, "{figures}");
    assert!(figures.sent_open <= 1.2 * 28.0 + 10.0, "{figures}");
    assert!(figures.sent_late <= 1.0, "{figures}");
    assert!(figures.failed <= 2.0, "{figures}");
    assert_eq!(figures.left_normal, 1, "{figures}");
}
