//! Responses that fail now and then, or that are no failures at all.

use super::{SECOND, plan};

#[tokio::test(start_paused = true)]
async fn a_twentieth_of_errors_changes_nothing() {
    let mut plan = plan("5 % random 500s");
    plan.scenario = plan.scenario.watched_for(600 * SECOND);
    let figures = plan.run().await;
    println!("{figures}");
    assert_eq!(figures.left_normal, 0, "{figures}");
    assert!(figures.failed <= 2.0, "{figures}");
}

// Throttle halves the rate, which a quarter of the callers cannot afford.
#[tokio::test(start_paused = true)]
async fn a_quarter_of_errors_halves_the_rate_and_no_more() {
    let figures = plan("25 % random 500s, 5 min").run().await;
    println!("{figures}");
    assert!(figures.to_full <= 30.0, "{figures}");
    assert!(figures.failed <= 25.0, "{figures}");
    assert_eq!(figures.left_normal, 1, "{figures}");
}

#[tokio::test(start_paused = true)]
async fn missing_pages_are_no_trouble() {
    let figures = plan("404s for 1 min").run().await;
    println!("{figures}");
    assert!(figures.to_full <= 0.0, "{figures}");
    assert_eq!(figures.left_normal, 0, "{figures}");
    assert!(figures.failed <= 0.0, "{figures}");
}

#[tokio::test(start_paused = true)]
async fn a_fresh_start_loses_nothing() {
    let figures = plan("restart of the client").run().await;
    println!("{figures}");
    assert!(figures.to_full <= 0.0, "{figures}");
    assert!(figures.failed <= 0.0, "{figures}");
}
