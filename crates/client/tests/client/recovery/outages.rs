//! A server that is down and comes back.

use super::{assert_outage_goals, plan};

// It was never noticed, and half speed for forty minutes afterwards.
#[tokio::test(start_paused = true)]
async fn after_two_minutes_of_503_the_full_rate_is_back_within_seconds() {
    let figures = plan("503 for 2 min").run().await;
    assert_outage_goals(&figures);
    assert!(figures.to_full <= 10.0, "{figures}");
}

#[tokio::test(start_paused = true)]
async fn after_two_minutes_of_refused_connections_the_full_rate_is_back_within_seconds() {
    let figures = plan("refused for 2 min").run().await;
    assert_outage_goals(&figures);
    assert!(figures.to_full <= 10.0, "{figures}");
}

// It was noticed only when the API was well again.
#[tokio::test(start_paused = true)]
async fn a_hanging_api_is_cut_off_and_back_within_seconds() {
    let figures = plan("hang for 2 min").run().await;
    assert_outage_goals(&figures);
    assert!(figures.to_full <= 10.0, "{figures}");
}

// Polite maintenance led to CacheOnly, and the first response came 14 minutes after its end.
#[tokio::test(start_paused = true)]
async fn an_api_that_names_the_time_is_asked_again_at_that_time() {
    let figures = plan("503, Retry-After 10, 2 min").run().await;
    assert_outage_goals(&figures);
    assert!(figures.to_full_after_wait() <= 10.0, "{figures}");
    assert!(figures.sent_late <= 0.2, "one probe in ten seconds: {figures}");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_up_every_other_ten_seconds_is_used_in_them() {
    let figures = plan("flapping 10 s/10 s, 5 min").run().await;
    println!("{figures}");
    assert!(figures.to_full <= 30.0, "{figures}");
    assert!(figures.goodput >= 95.0, "{figures}");
    assert!(figures.failed <= 2.0, "{figures}");
}

// The server refuses connections for 20 s and is then slow, with half of its limit.
#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_slowly_is_used_as_far_as_it_goes() {
    let figures = plan("restart of the server").run().await;
    println!("{figures}");
    assert!(figures.to_full <= 30.0, "{figures}");
    assert!(figures.to_half <= 10.0, "{figures}");
    assert!(figures.goodput >= 95.0, "{figures}");
}
