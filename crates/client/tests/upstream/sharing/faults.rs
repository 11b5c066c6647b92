//! A ledger that is away, and processes that stop for a while.

use outflow::RefusalReason;
use outflow::event::EventKind;

use super::Host;
use crate::support::{ms, secs};

// Units are spent up to the end of the lease; the other process counts them until then.
#[tokio::test(start_paused = true)]
async fn a_process_without_its_ledger_stops_and_continues_with_it() {
    let host = Host::new(&["50/s"]);
    let process = host.busy_process();
    let _other = host.busy_process();
    tokio::time::sleep(secs(3)).await;
    process.link.cut();
    tokio::time::sleep(secs(3)).await;
    let sent = process.sent();
    tokio::time::sleep(secs(10)).await;
    assert_eq!(process.sent(), sent, "its lease is over");
    process.link.mend();
    tokio::time::sleep(secs(5)).await;
    assert!(process.sent() > sent + 50, "{} after {sent}", process.sent());
    assert!(host.most_in(secs(1)) <= 50);
    let seen = process.recorder.select(|event| match event {
        EventKind::Ledger { reason } => Some(reason.is_some()),
        _ => None,
    });
    assert_eq!(seen, [true, false]);
}

// A caller hears the cause.
#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_ledger_that_is_away() {
    let host = Host::new(&["50/s"]);
    let process = host.process();
    process.link.cut();
    tokio::time::sleep(secs(1)).await;
    let refused = process
        .upstream
        .try_acquire(process.target())
        .expect_err("the ledger is away");
    let RefusalReason::Busy(reason) = refused.reason else {
        panic!("{refused:?}");
    };
    assert_eq!(reason.name(), "ledger");
    process.link.mend();
    tokio::time::sleep(secs(5)).await;
    process
        .upstream
        .acquire(process.target())
        .await
        .expect("it is back")
        .count();
    tokio::time::sleep(ms(1)).await;
}
