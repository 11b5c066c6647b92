//! What runs beside the client dies, or stands still: calls go on and limits hold.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use outflow::log::{Log, LogSettings};
use outflow::{Api, Outflow, Rules, SystemClock};
use outflow_mock::{MockApi, Quota};
use tracing::Level;

use super::support::{Load, World};

const SECOND: Duration = Duration::from_secs(1);

// Forty calls at 20 in half a second take a second at least, and the server enforces the same limit:
// one call too early would be refused.
#[tokio::test]
async fn limits_hold_when_everything_beside_the_client_is_dead() {
    let rate = "20/500ms".parse().expect("valid");
    let strict = MockApi::builder().limit(Quota::sliding(rate));
    let strict = strict.build().expect("valid");
    let server = strict.listen().await.expect("a port");
    let mut api = Api::new("strict", server.url().parse().expect("a URL"));
    api.rules = Rules::with_limit(rate);
    api.retry.count = 0;
    let client = Outflow::init([api]).expect("valid");
    let tasks = client.tasks().expect("of a configuration");
    assert!(!tasks.report().is_empty(), "there was something to kill");
    assert!(tasks.shutdown(5 * SECOND).await.is_clean());
    let mut load = Load::on(&client);
    for _ in 0..50 {
        load.start("/");
    }
    let ended = load.ended().await;
    assert!(ended.iter().all(super::support::Ended::is_good));
    let audit = strict.audit();
    assert_eq!((audit.count(), audit.refused()), (50, 0));
    let last = ended.iter().map(|call| call.over).max();
    assert!(last >= Some(SECOND), "{last:?}");
    assert!(
        client
            .metrics()
            .expect("still")
            .render()
            .contains("external_requests_total")
    );
}

/// A disk that stands still until it is let go.
struct Stuck(mpsc::Receiver<()>);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // The sender is dropped to let it go.
        let _gone = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// The pump is inside of a write that does not return. Every call is told in several lines, which is
// more than the queue takes: what does not fit is dropped and counted.
#[test]
fn no_call_waits_for_a_log_that_stands_still() {
    let (release, stuck) = mpsc::channel();
    let settings = LogSettings {
        level: Level::TRACE,
        ..LogSettings::new(Arc::new(SystemClock::new()))
    };
    let (log, mut pump) = Log::new(settings, Stuck(stuck));
    std::thread::scope(|scope| {
        scope.spawn(|| pump.run());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let world = World::near(MockApi::builder().remembering(1));
            let client = world.client(|_| {});
            client.events().subscribe(Arc::new(log.clone()));
            for _ in 0..10_000 {
                client.get("strict", "/").send().await.expect("an answer");
            }
            assert_eq!(world.strict.totals().seen, 10_000);
        });
        assert!(log.dropped() > 1_000, "{}", log.dropped());
        drop(release);
        log.close();
    });
}
