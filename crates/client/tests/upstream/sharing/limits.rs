//! The sum of several processes and of their successors.

use outflow::core::Nanos;

use super::Host;
use crate::support::{ms, secs};

// Each process alone would send 50 a second: without an account four send 200.
#[tokio::test(start_paused = true)]
async fn four_processes_send_no_more_than_the_limits_and_use_them() {
    let host = Host::new(&["50/s", "1000/min"]);
    let processes: Vec<_> = (0..4).map(|_| host.busy_process()).collect();
    tokio::time::sleep(secs(15)).await;
    assert!(host.most_in(secs(1)) <= 50, "{} in a second", host.most_in(secs(1)));
    // One process alone sends 47 of 50 a second with this jitter.
    let used = host.arrivals_since(Nanos::from_secs(3));
    assert!(used >= 12 * 45, "{used} of 600");
    let sent: Vec<_> = processes.iter().map(super::Process::sent).collect();
    let (least, most) = (sent.iter().min().expect("four"), sent.iter().max().expect("four"));
    assert!(most - least <= most / 10, "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn one_process_with_a_ledger_sends_as_much_as_without() {
    let host = Host::new(&["50/s"]);
    let _process = host.busy_process();
    tokio::time::sleep(secs(20)).await;
    assert!(host.most_in(secs(1)) <= 50);
    let used = host.arrivals_since(Nanos::from_secs(2));
    assert!(used >= 18 * 46, "{used} of 900");
}

// A kill every five seconds let 1,200 calls arrive in a minute.
#[tokio::test(start_paused = true)]
async fn kills_let_no_more_calls_arrive_than_the_limits_allow() {
    let host = Host::new(&["50/s", "100/min"]);
    for _ in 0..24 {
        let process = host.busy_process();
        tokio::time::sleep(secs(5)).await;
        process.kill();
    }
    assert!(host.most_in(secs(1)) <= 50);
    let (most, all) = (host.most_in(secs(60)), host.arrivals());
    assert!(most <= 100, "{most} in a minute");
    assert!(all >= 150, "{all} in two minutes");
}

// Three clean restarts in a minute let 300 arrive.
#[tokio::test(start_paused = true)]
async fn restarts_let_no_more_calls_arrive_than_the_limits_allow() {
    let host = Host::new(&["50/s", "100/min"]);
    for _ in 0..6 {
        let process = host.busy_process();
        tokio::time::sleep(secs(20)).await;
        process.shut_down().await;
    }
    assert!(host.most_in(secs(1)) <= 50);
    let (most, all) = (host.most_in(secs(60)), host.arrivals());
    assert!(most <= 100, "{most} in a minute");
    assert!(all >= 190, "{all} in two minutes");
}

// `outflow get` thirty times at once, under 10/s: each process makes one call.
#[tokio::test(start_paused = true)]
async fn thirty_processes_of_one_call_keep_the_limit() {
    let host = Host::new(&["10/s"]);
    let mut processes = Vec::new();
    for _ in 0..30 {
        let process = host.process();
        let (upstream, api, time) = (process.upstream.clone(), host.api.clone(), host.time.clone());
        let call = outflow_testkit::Background::start(async move { super::call_once(&upstream, &api, &time).await });
        processes.push((process, call));
    }
    let mut served = 0;
    for (process, call) in processes {
        served += usize::from(call.join().await);
        process.shut_down().await;
    }
    assert_eq!((served, host.most_in(secs(1))), (30, 10));
    assert!(host.now() < Nanos::from_secs(4), "{:?}", host.now());
}

// The other process has 50 a second to itself within a second.
#[tokio::test(start_paused = true)]
async fn an_idle_process_leaves_everything_to_the_others() {
    let host = Host::new(&["50/s"]);
    let first = host.busy_process();
    let second = host.busy_process();
    tokio::time::sleep(secs(5)).await;
    first.shut_down().await;
    let begin = host.now().saturating_add(secs(1));
    tokio::time::sleep(secs(11)).await;
    let used = host.arrivals_since(begin);
    assert!(used >= 460, "{used} of 500");
    assert!(second.sent() > 500);
}

// A process without calls asks the ledger nothing.
#[tokio::test(start_paused = true)]
async fn an_idle_process_sends_no_renewals() {
    let host = Host::new(&["50/s"]);
    let process = host.process();
    tokio::time::sleep(secs(1)).await;
    super::call_once(&process.upstream, &host.api, &host.time).await;
    tokio::time::sleep(secs(5)).await;
    let before = host.ledger.renewals();
    tokio::time::sleep(secs(3_600)).await;
    assert_eq!(host.ledger.renewals(), before);
    assert!(before < 20, "{before}");
    tokio::time::sleep(ms(1)).await;
}
