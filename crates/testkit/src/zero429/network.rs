//! Delays of a network, way by way.

use std::time::Duration;

use fastrand::Rng;
use outflow_core::Nanos;

/// Shape of a network's delays. Each way takes a base and jitter of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetworkShape {
    /// 20 ms each way and nothing else.
    Quiet,
    /// 20 ms each way and exponential jitter of 10 ms.
    Jitter,
    /// 20 ms each way and exponential jitter of 50 ms.
    WideJitter,
    /// 20 or 60 ms, way by way.
    Bimodal,
    /// 60 ms, but 10 ms for one way in a hundred.
    RareFastWay,
    /// 60 ms each way, but 10 ms for one call in five hundred.
    RareFastCall,
    /// Four connections, each with its own base of 20 to 60 ms for a minute or so.
    StickyRoute,
    /// All calls have one base of 20 to 60 ms for a minute or so: sudden drops, one after the other.
    ChangingRoute,
    /// A Pareto tail with exponent 1.5 from 20 ms on.
    Pareto,
    /// A base of 20 ms that rises to 60 ms and falls again, in this time.
    Drift(Duration),
    /// A base of 40 ms that is 20 ms from the middle of the run on.
    SuddenDrop,
    /// 5 to 155 ms: requests and responses overtake each other all the time.
    Reordering,
    /// Jitter, and one response in fifty never arrives.
    LostResponses,
    /// Jitter; bursts of three windows' worth with idle times of up to three minutes.
    IdleThenBurst,
}

impl NetworkShape {
    /// All shapes, in the order of the table.
    pub const ALL: [Self; 15] = [
        Self::Quiet,
        Self::Jitter,
        Self::WideJitter,
        Self::Bimodal,
        Self::RareFastWay,
        Self::RareFastCall,
        Self::StickyRoute,
        Self::ChangingRoute,
        Self::Pareto,
        Self::Drift(Duration::from_mins(4)),
        Self::Drift(Duration::from_mins(10)),
        Self::SuddenDrop,
        Self::Reordering,
        Self::LostResponses,
        Self::IdleThenBurst,
    ];

    /// Returns true if the base of all calls can drop at once, which no sender can know in advance.
    pub const fn drops_suddenly(self) -> bool {
        matches!(self, Self::SuddenDrop | Self::ChangingRoute)
    }
}

/// Network in a run.
#[derive(Debug)]
pub(super) struct Network {
    shape: NetworkShape,
    rng: Rng,
    routes: [RouteBase; 4],
}

/// Base of a connection, and the end of its time.
#[derive(Clone, Copy, Debug, Default)]
struct RouteBase {
    base: Duration,
    until: Nanos,
}

/// Delays of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trip {
    pub(super) there: Duration,
    /// `None` if the response is lost.
    pub(super) back: Option<Duration>,
}

impl Network {
    pub(super) fn new(shape: NetworkShape, seed: u64) -> Self {
        Self {
            shape,
            rng: Rng::with_seed(seed),
            routes: [RouteBase::default(); 4],
        }
    }

    /// Draws the delays of a call that is sent now. `is_late` is true in the second half of a run.
    pub(super) fn trip(&mut self, now: Nanos, is_late: bool) -> Trip {
        let [there, back] = match self.shape {
            NetworkShape::Quiet => [BASE; 2],
            NetworkShape::Jitter | NetworkShape::IdleThenBurst | NetworkShape::LostResponses => self.both(BASE, JITTER),
            NetworkShape::WideJitter => self.both(BASE, 5 * JITTER),
            NetworkShape::Bimodal => [(); 2].map(|()| self.one_in(2, 3 * BASE, BASE)),
            NetworkShape::RareFastWay => [(); 2].map(|()| self.one_in(100, BASE / 2, 3 * BASE)),
            NetworkShape::RareFastCall => {
                let base = self.one_in(500, BASE / 2, 3 * BASE);
                self.both(base, JITTER / 10)
            }
            NetworkShape::StickyRoute | NetworkShape::ChangingRoute => {
                let base = self.route_base(now);
                self.both(base, JITTER / 10)
            }
            NetworkShape::Pareto => [(); 2].map(|()| self.pareto()),
            NetworkShape::Drift(period) => self.both(drifting_base(now, period), JITTER),
            NetworkShape::SuddenDrop => self.both(if is_late { BASE } else { 2 * BASE }, JITTER),
            NetworkShape::Reordering => [(); 2].map(|()| MS * self.rng.u32(5..155) + MS.mul_f64(self.rng.f64())),
        };
        let is_lost = self.shape == NetworkShape::LostResponses && self.rng.u32(..50) == 0;
        Trip {
            there,
            back: (!is_lost).then_some(back),
        }
    }

    /// Returns the idle time before the next call and its burst, if the load has bursts.
    pub(super) fn idle_time(&mut self) -> Option<Duration> {
        let is_bursty = self.shape == NetworkShape::IdleThenBurst;
        is_bursty.then(|| Duration::from_secs(self.rng.u64(1..=180)))
    }

    fn both(&mut self, base: Duration, jitter: Duration) -> [Duration; 2] {
        [(); 2].map(|()| base + jitter.mul_f64(-(1.0 - self.rng.f64()).ln()))
    }

    fn one_in(&mut self, count: u32, rare: Duration, usual: Duration) -> Duration {
        if self.rng.u32(..count) == 0 { rare } else { usual }
    }

    fn pareto(&mut self) -> Duration {
        BASE.mul_f64((1.0 - self.rng.f64()).powf(-1.0 / 1.5)).min(LONGEST_WAY)
    }

    fn route_base(&mut self, now: Nanos) -> Duration {
        let is_sticky = self.shape == NetworkShape::StickyRoute;
        let index = if is_sticky { self.rng.usize(..4) } else { 0 };
        let Some(route) = self.routes.get_mut(index) else {
            return BASE;
        };
        if now >= route.until {
            route.base = BASE.mul_f64(1.0 + 2.0 * self.rng.f64());
            let lasts = Duration::from_secs(self.rng.u64(20..120));
            route.until = now.saturating_add(lasts);
        }
        route.base
    }
}

/// Returns a base that rises from one to three times [`BASE`] and falls again.
fn drifting_base(now: Nanos, period: Duration) -> Duration {
    let phase = (now.since(Nanos::ZERO).as_secs_f64() / period.as_secs_f64()).fract();
    let risen = 1.0 - (2.0 * phase - 1.0).abs();
    BASE.mul_f64(1.0 + 2.0 * risen)
}

const MS: Duration = Duration::from_millis(1);
const BASE: Duration = Duration::from_millis(20);
const JITTER: Duration = Duration::from_millis(10);
/// A response after two such ways is still within the timeout.
const LONGEST_WAY: Duration = Duration::from_secs(4);
