//! Another server than the last time: noticed at every greeting, and told once.
//!
//! A copy that was promoted, and a server that came back with what was on its disk, know the queue, so
//! nothing fails there; but they may know less of it than was answered. Nobody can say how much that is: who
//! knew is gone. So it is no [loss](super::loss), which stops everything, and it is not passed over
//! either, because jobs that nobody misses are never done.

use std::sync::{Mutex, PoisonError};

/// Which server was met, and what is still to be told of that.
#[derive(Default)]
pub(super) struct Failover {
    met: Mutex<PrimaryCheck>,
}

#[derive(Default)]
struct PrimaryCheck {
    /// What the server calls itself since it started.
    run: String,
    untold: bool,
}

impl Failover {
    /// This server answers now, and that one was the last to be used by anybody, as this one remembers it.
    ///
    /// Both are compared, its memory and ours: of many machines only the first to come finds another's name
    /// there, and a copy that was promoted twice finds its own.
    pub(super) fn meet(&self, run: String, last: &str) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let another = |known: &str| !known.is_empty() && known != run;
        met.untold |= another(&met.run) || another(last);
        met.run = run;
    }

    /// Whether there is something to tell, once.
    pub(super) fn take_notice(&self) -> bool {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut met.untold)
    }
}

/// What is told where no copy was waited for.
pub(super) const UNCONFIRMED: &str = "another redis took over, or it was restarted: jobs that it took in the last \
     moments before may be missing, and work that ended then may be done again; submit again what is not done, and \
     set wait_replicas so that nothing is answered before a copy has it";

/// What is told where copies were waited for.
pub(super) const CONFIRMED: &str = "another redis took over, or it was restarted: what its replicas had confirmed is \
     there if it was one of them; look which one it is";

#[cfg(test)]
mod tests {
    use super::*;

    // The same again, another, the same, and one of before which does not know that there was another.
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
