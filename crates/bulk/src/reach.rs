//! How far away a shared store is, for starts that it set an instant for.
//!
//! A claim's answer says how long after the claim each job is to start, by the clock of the server. Here it is
//! read a way back later, and how long that took nobody knows: a process that got no processor for a while
//! may read it when the instant is long gone, and would send beside those whose instant it is. What the
//! quickest claims took is the way; whatever a claim took beyond that is being late.

use std::time::Duration;

use outflow_core::Nanos;

/// What the quickest claims of late took, there and back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    floor: Option<Duration>,
}

impl Reach {
    /// When the claim was decided, at the latest, if it took no longer than the quickest: it was asked and
    /// answered at these instants.
    pub(crate) fn given(&mut self, asked: Nanos, answered: Nanos) -> Nanos {
        let took = answered.since(asked);
        // A way that became longer is believed after some ten claims, or everybody would be late for ever.
        let known = self.floor.map(|floor| floor + floor / 8 + DRIFT);
        let floor = known.map_or(took, |known| known.min(took));
        self.floor = Some(floor);
        asked.saturating_add(floor)
    }
}

/// So that a way of nothing at all can become longer, too.
const DRIFT: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    // The way takes 2 ms. A claim whose answer is read 40 ms later was decided long before.
    #[test]
    fn what_a_claim_took_beyond_the_way_is_being_late() {
        let mut reach = Reach::default();
        assert_eq!(reach.given(ms(0), ms(2)), ms(2));
        let given = reach.given(ms(100), ms(140));
        assert!(given < ms(103), "{given:?}");
        assert_eq!(reach.given(ms(200), ms(202)), ms(202));
    }

    // From 2 ms to 40, as after a failover to another place.
    #[test]
    fn a_way_that_became_longer_is_believed_soon() {
        let mut reach = Reach::default();
        reach.given(ms(0), ms(2));
        let late = |n: u64, reach: &mut Reach| reach.given(ms(n * 100), ms(n * 100 + 40));
        let believed = (1..=40).find(|n| late(*n, &mut reach) == ms(n * 100 + 40));
        assert!(believed.is_some_and(|n| n <= 25), "{believed:?}");
    }
}
