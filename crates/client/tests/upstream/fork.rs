//! A fork: the child has no timer thread of its parent.

use crate::support::{TestBed, by_sending, ms, rules, secs};

// One call in 200 ms. The parent armed its timer for the first waiter, and the child has neither that
// timer nor a reason to arm an earlier one for the second.
#[test]
fn waiters_are_woken_after_the_clock_lost_its_timers() {
    let bed = TestBed::new(rules(vec![by_sending("1 per 200ms")]));
    bed.sends(1, bed.options());
    let mut first = bed.waiting(bed.options());
    bed.timer.lose_all();
    let mut second = bed.waiting(bed.options());
    assert_eq!(bed.timer.pending(), 1, "the timer is requested again, once");
    bed.pass(ms(200));
    assert!(first.is_woken());
    first.goes();
    bed.pass(ms(200));
    assert!(second.is_woken());
    second.goes();
}

// A waiter of the parent that the child polls is enough: its deadline and its pace are armed again.
#[test]
fn a_waiter_from_before_the_loss_arms_the_timer_when_it_is_polled() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    bed.sends(1, bed.options());
    let mut waits = bed.waiting(bed.options());
    bed.timer.lose_all();
    assert!(waits.poll().is_none());
    bed.pass(secs(1));
    assert!(waits.is_woken());
    waits.goes();
}

/// A real fork, of this test's own process. Safe Rust cannot fork, so the test starts itself again with a
/// library that turns `getppid` into `fork`.
#[cfg(unix)]
mod real {
    use std::future::Future;
    use std::os::unix::process::parent_id;
    use std::pin::{Pin, pin};
    use std::process::Command;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::{self, Thread};

    use outflow::{Acquire, Events, SystemClock, Upstream};

    use super::*;

    const FORKING_LIBRARY: &str = "#include <unistd.h>\npid_t getppid(void) { return fork(); }\n";
    const IS_FORKING: &str = "OUTFLOW_TEST_FORK";
    const NAME: &str = "fork::real::a_waiter_of_a_forked_child_is_woken";

    #[test]
    fn a_waiter_of_a_forked_child_is_woken() {
        // Other systems replace a function of the C library in other ways.
        if !cfg!(target_os = "linux") {
            return;
        }
        if std::env::var_os(IS_FORKING).is_some() {
            return fork_and_wait();
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (source, library) = (dir.path().join("fork.c"), dir.path().join("fork.so"));
        std::fs::write(&source, FORKING_LIBRARY).expect("written");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert!(compile.status().expect("the linker of these tests").success());
        let mut forking = Command::new(std::env::current_exe().expect("this test"));
        forking.args(["--exact", NAME, "--nocapture"]);
        forking.env(IS_FORKING, "1").env("LD_PRELOAD", &library);
        let output = forking.output().expect("started");
        let text = String::from_utf8_lossy(&output.stdout);
        for line in ["parent: [true, true]", "child: [true, true]"] {
            assert!(text.contains(line), "{line} is missing in: {text}");
        }
    }

    /// Waits in a parent and in its child. The first waiter started the timer thread before the fork.
    fn fork_and_wait() {
        let rules = rules(vec![by_sending("1 per 200ms")]);
        let upstream = Upstream::new("api", rules, Arc::new(SystemClock::new()), Events::new());
        let upstream = upstream.expect("the rules fit together");
        let target = upstream.group("default").expect("there is one");
        upstream.try_take(target).expect("an unused limit");
        let (mut first, mut second) = (pin!(upstream.acquire(target)), pin!(upstream.acquire(target)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        let is_child = parent_id() == 0;
        let woken = [wait(&upstream, first.as_mut()), wait(&upstream, second.as_mut())];
        println!("\n{}: {woken:?}", if is_child { "child" } else { "parent" });
        if is_child {
            std::process::exit(0);
        }
    }

    /// Waits for a permit and uses it. Returns false if nothing woke the waiter.
    fn wait(upstream: &Upstream, mut acquire: Pin<&mut Acquire>) -> bool {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let start = upstream.now();
        loop {
            if let Poll::Ready(result) = acquire.as_mut().poll(&mut context) {
                result.expect("the default wait is longer").count();
                return true;
            }
            thread::park_timeout(secs(5));
            if upstream.now().since(start) >= secs(5) {
                return false;
            }
        }
    }

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
}
