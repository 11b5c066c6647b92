//! What a server does on a bad day, as plain data.

use std::time::Duration;

use outflow_core::Share;
use outflow_mock::{Script, ScriptMatch, ScriptedFault};

/// Bad day of a server.
#[derive(Clone, Debug)]
pub struct RecoveryScenario {
    /// Its name in tables.
    pub name: &'static str,
    /// Beginning of the trouble; the load begins at zero.
    pub begin: Duration,
    /// End of the trouble, if it ends.
    pub heal: Option<Duration>,
    /// Time that is watched after the end of the trouble.
    pub after: Duration,
    /// The trouble.
    pub troubles: Vec<ServerTrouble>,
    /// True if one call a second is made until the trouble ends.
    pub is_idle: bool,
    /// True if the server reports its limits in headers.
    pub sends_headers: bool,
    /// True if another client uses half of the limit, in the second half of each minute.
    pub shares_key: bool,
    /// Share of the open load that the server can serve during the trouble.
    pub demand: Share,
}

/// One kind of trouble for a span.
#[derive(Clone, Debug)]
pub struct ServerTrouble {
    /// Its beginning.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// Its kind.
    pub kind: TroubleKind,
}

/// Kind of trouble.
#[derive(Clone, Debug)]
pub enum TroubleKind {
    /// Every call fails.
    Failing(ScriptedFault),
    /// Every call gets a response that is neither a success nor a failure.
    Neutral(ScriptedFault),
    /// The first call of the span fails.
    Once(ScriptedFault),
    /// A share of the calls fails.
    Chance(Share, ScriptedFault),
    /// No connection is possible, and the old ones break.
    Refusing,
    /// Only this share of the limits is allowed.
    Capacity(Share),
    /// Everything takes so many times as long.
    Slow(u32),
}

impl RecoveryScenario {
    /// Builds a scenario without trouble.
    pub fn new(name: &'static str, begin: Duration, heal: Option<Duration>, after: Duration) -> Self {
        Self {
            name,
            begin,
            heal,
            after,
            troubles: Vec::new(),
            is_idle: false,
            sends_headers: false,
            shares_key: false,
            demand: Share::ALL,
        }
    }

    /// Adds trouble.
    #[must_use]
    pub fn with(mut self, from: Duration, to: Duration, kind: TroubleKind) -> Self {
        self.troubles.push(ServerTrouble { from, to, kind });
        self
    }

    /// Watches the time after the trouble for this long, for a test that needs no more.
    #[must_use]
    pub fn watched_for(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }

    /// Returns the end of the observation.
    pub fn end(&self) -> Duration {
        self.heal.unwrap_or(self.begin) + self.after
    }

    /// Returns true if the server answers calls at this instant.
    pub fn is_up(&self, at: Duration) -> bool {
        let failing =
            |trouble: &&ServerTrouble| matches!(trouble.kind, TroubleKind::Failing(_) | TroubleKind::Refusing);
        !self.active(at).any(|trouble| failing(&trouble))
    }

    /// Returns true if connections are refused at this instant.
    pub(super) fn is_refusing(&self, at: Duration) -> bool {
        self.active(at)
            .any(|trouble| matches!(trouble.kind, TroubleKind::Refusing))
    }

    /// Returns the share of the limits that is allowed at this instant.
    pub(super) fn capacity(&self, at: Duration) -> Share {
        let shares = self.active(at).filter_map(|trouble| match trouble.kind {
            TroubleKind::Capacity(share) => Some(share),
            _ => None,
        });
        shares.min().unwrap_or(Share::ALL)
    }

    /// Returns the factor of the latency at this instant.
    pub(super) fn slowness(&self, at: Duration) -> u32 {
        let factors = self.active(at).filter_map(|trouble| match trouble.kind {
            TroubleKind::Slow(factor) => Some(factor),
            _ => None,
        });
        factors.max().unwrap_or(1)
    }

    /// Returns the instants at which the limits, the latency or the network change.
    pub(super) fn changes(&self) -> Vec<Duration> {
        let scripted = |kind: &TroubleKind| {
            !matches!(
                kind,
                TroubleKind::Refusing | TroubleKind::Capacity(_) | TroubleKind::Slow(_)
            )
        };
        let timed = self.troubles.iter().filter(|trouble| !scripted(&trouble.kind));
        let mut instants: Vec<_> = timed.flat_map(|trouble| [trouble.from, trouble.to]).collect();
        instants.sort_unstable();
        instants.dedup();
        instants
    }

    /// Returns the script of the faults that answer calls.
    pub(super) fn script(&self, seed: u64) -> Script {
        let mut script = Script::new();
        for trouble in &self.troubles {
            let span = ScriptMatch::always().between(trouble.from..trouble.to);
            script = match &trouble.kind {
                TroubleKind::Failing(fault) | TroubleKind::Neutral(fault) => script.rule(span, fault.clone()),
                TroubleKind::Once(fault) => script.rule(span.first(1), fault.clone()),
                TroubleKind::Chance(share, fault) => script.rule(span.by_chance(*share, seed), fault.clone()),
                TroubleKind::Refusing | TroubleKind::Capacity(_) | TroubleKind::Slow(_) => script,
            };
        }
        script
    }

    fn active(&self, at: Duration) -> impl Iterator<Item = &ServerTrouble> {
        self.troubles
            .iter()
            .filter(move |trouble| trouble.from <= at && at < trouble.to)
    }
}
