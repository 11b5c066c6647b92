//! Background services die or stall: calls go on and limits hold.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use outflow::log::{Log, LogSettings};
use outflow::{Api, Outflow, Rules, SystemClock};
use outflow_mock::{MockApi, Quota};
use tracing::Level;

use super::support::{CallLoad, TestBed};

const SECOND: Duration = Duration::from_secs(1);

// Forty calls at 20 in half a second take a second at least. The server enforces the limit too and
// would throttle an early call.
#[tokio::test]
async fn limits_hold_when_every_background_service_is_dead() {
    let rate = "20/500ms".parse().expect("valid");
    let mock = MockApi::builder().limit(Quota::sliding(rate));
    let mock = mock.build().expect("valid");
    let server = mock.listen().await.expect("a port");
    let mut api = Api::new("strict", server.url().parse().expect("a URL"));
    api.rules = Rules::with_limit(rate);
    api.retry.count = 0;
    let client = Outflow::init([api]).expect("valid");
    let tasks = client.tasks().expect("of a configuration");
    assert!(!tasks.report().is_empty(), "there was something to kill");
    assert!(tasks.shutdown(5 * SECOND).await.is_clean());
    let mut load = CallLoad::on(&client);
    for _ in 0..50 {
        load.start("/");
    }
    let ended = load.ended().await;
    assert!(ended.iter().all(super::support::EndedCall::is_good));
    let audit = mock.audit();
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

/// A disk that stalls until the test releases it.
struct StuckDisk(mpsc::Receiver<()>);

impl Write for StuckDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Dropping the sender releases it.
        let _gone = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// The log writer is inside a write that does not return. Every call emits several lines, more than
// the queue holds: the log drops and counts the rest.
#[test]
fn no_call_waits_for_a_stalled_log() {
    let (release, stuck) = mpsc::channel();
    let settings = LogSettings {
        level: Level::TRACE,
        ..LogSettings::new(Arc::new(SystemClock::new()))
    };
    let (log, mut pump) = Log::new(settings, StuckDisk(stuck));
    std::thread::scope(|scope| {
        scope.spawn(|| pump.run());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let bed = TestBed::near(MockApi::builder().remembering(1));
            let client = bed.client(|_| {});
            client.events().subscribe(Arc::new(log.clone()));
            for _ in 0..10_000 {
                client.get("strict", "/").send().await.expect("a response");
            }
            assert_eq!(bed.mock.totals().seen, 10_000);
        });
        assert!(log.dropped() > 1_000, "{}", log.dropped());
        drop(release);
        log.close();
    });
}
