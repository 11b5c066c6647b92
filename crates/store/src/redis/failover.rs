//! Detection of another server: checked at every handshake, reported once.
//!
//! A promoted replica, or a server that restarted from its disk, knows the queue, so no call fails
//! there. But it may miss acknowledged writes, and their number is unknown. This is no [data
//! loss](super::data_loss), which stops everything. It is still reported, because missing jobs
//! would never be done.

use outflow_sync::Mutex;

/// Server of the last handshake, and a pending notice.
#[derive(Default)]
pub(super) struct Failover {
    check: Mutex<ServerCheck>,
}

#[derive(Default)]
struct ServerCheck {
    /// Identifier that the server chose when it started.
    run_id: String,
    unreported: bool,
}

impl Failover {
    /// Compares this server with the last one used, as the server itself remembers it and as this
    /// process does.
    ///
    /// Both are compared. Of many machines only the first finds another server's name there, and a
    /// replica that was promoted twice finds its own.
    pub(super) fn observe_server(&self, run_id: String, last: &str) {
        let mut check = self.check.lock();
        let another = |known: &str| !known.is_empty() && known != run_id;
        check.unreported |= another(&check.run_id) || another(last);
        check.run_id = run_id;
    }

    /// Returns `true` once if a failover is to be reported.
    pub(super) fn take_notice(&self) -> bool {
        let mut check = self.check.lock();
        std::mem::take(&mut check.unreported)
    }
}

/// Notice without replica confirmation.
pub(super) const UNCONFIRMED: &str = "another redis took over, or it was restarted: the last jobs \
     submitted before may be missing, and the last finished jobs may run again; submit missing jobs \
     again, and set wait_replicas so that a replica confirms each write";

/// Notice with replica confirmation.
pub(super) const CONFIRMED: &str = "another redis took over, or it was restarted: writes that its \
     replicas confirmed are there if it was one of them; check which server it is";

#[cfg(test)]
mod tests {
    use super::*;

    // The cases: no change, a failover, no change, and an old server that does not know of the
    // failover.
    #[test]
    fn each_process_reports_a_failover_once() {
        let failover = Failover::default();
        let reported = |run_id: &str, last: &str| {
            failover.observe_server(run_id.to_owned(), last);
            failover.take_notice()
        };
        assert!(!reported("a", "a"), "the queue was created here");
        assert!(reported("b", "a"), "first handshake after the failover");
        assert!(!reported("b", "b"));
        assert!(reported("c", "c"), "another process reported it first");
        assert!(reported("b", "b"), "an earlier server returned");
        assert!(!failover.take_notice(), "once");
        let second = Failover::default();
        second.observe_server("b".to_owned(), "a");
        assert!(second.take_notice(), "a new process reports it too");
    }
}
