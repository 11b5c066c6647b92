//! Detection of another server: checked at every handshake, reported once.
//!
//! A promoted replica, or a server that restarted from its disk, knows the queue, so no call fails
//! there. But it may miss acknowledged writes, and their number is unknown. This is no [data
//! loss](super::data_loss), which stops everything. It is still reported, because missing jobs
//! would never be done.

use std::sync::{Mutex, PoisonError};

/// Server of the last handshake, and a pending notice.
#[derive(Default)]
pub(super) struct Failover {
    met: Mutex<PrimaryCheck>,
}

#[derive(Default)]
struct PrimaryCheck {
    /// Identifier that the server chose when it started.
    run: String,
    untold: bool,
}

impl Failover {
    /// Compares this server with the last one used, as the server itself remembers it and as this
    /// process does.
    ///
    /// Both are compared. Of many machines only the first finds another server's name there, and a
    /// replica that was promoted twice finds its own.
    pub(super) fn meet(&self, run: String, last: &str) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let another = |known: &str| !known.is_empty() && known != run;
        met.untold |= another(&met.run) || another(last);
        met.run = run;
    }

    /// Returns `true` once if a failover is to be reported.
    pub(super) fn take_notice(&self) -> bool {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut met.untold)
    }
}

/// Notice without replica confirmation.
pub(super) const UNCONFIRMED: &str = "another redis took over, or it was restarted: jobs that it took in the last \
     moments before may be missing, and work that ended then may be done again; submit again what is not done, and \
     set wait_replicas so that nothing is answered before a copy has it";

/// Notice with replica confirmation.
pub(super) const CONFIRMED: &str = "another redis took over, or it was restarted: what its replicas had confirmed is \
     there if it was one of them; look which one it is";

#[cfg(test)]
mod tests {
    use super::*;

    // The cases: no change, a failover, no change, and an old server that does not know of the
    // failover.
    #[test]
    fn another_server_is_told_once_to_everybody() {
        let takeover = Failover::default();
        let told = |run: &str, last: &str| {
            takeover.meet(run.to_owned(), last);
            takeover.take_notice()
        };
        assert!(!told("a", "a"), "a queue that was made here");
        assert!(told("b", "a"), "the first to come");
        assert!(!told("b", "b"));
        assert!(told("c", "c"), "somebody else was there before");
        assert!(told("b", "b"), "one of before");
        assert!(!takeover.take_notice(), "once");
        let newcomer = Failover::default();
        newcomer.meet("b".to_owned(), "a");
        assert!(newcomer.take_notice(), "nobody used it since");
    }
}
