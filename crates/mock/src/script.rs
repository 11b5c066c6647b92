//! Scripted faults and their conditions.
//!
//! A script is a list of rules; the first whose conditions all hold decides. It applies to requests
//! that passed the limits, so a scripted storm of 429s comes on top of real ones and is distinct in
//! the audit. Chance comes from a seed: equal requests meet equal faults.

use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use fastrand::Rng;
use http::{HeaderMap, Method};
use outflow_core::{Nanos, Share};

use crate::fault::Fault;
use crate::pattern::Pattern;
use crate::response::MockResponse;
use crate::throttle_response::ThrottleResponse;

/// Behaviour of the server instead of its regular response.
#[derive(Clone, Debug)]
pub enum ScriptedFault {
    /// Sends another response.
    Answer(MockResponse),
    /// Throttles with a wait.
    Refuse(ThrottleResponse),
    /// Breaks the protocol.
    Break(Fault),
    /// Sends the regular response later.
    Late(Duration),
}

impl From<MockResponse> for ScriptedFault {
    fn from(answer: MockResponse) -> Self {
        Self::Answer(answer)
    }
}

impl From<ThrottleResponse> for ScriptedFault {
    fn from(refusal: ThrottleResponse) -> Self {
        Self::Refuse(refusal)
    }
}

impl From<Fault> for ScriptedFault {
    fn from(fault: Fault) -> Self {
        Self::Break(fault)
    }
}

/// Conditions of a rule; all of them must hold.
///
/// ```
/// use std::time::Duration;
/// use outflow_core::Share;
/// use outflow_mock::ScriptMatch;
///
/// let secs = Duration::from_secs;
/// let outage = ScriptMatch::always().between(secs(60)..secs(120));
/// let third_order = ScriptMatch::path("/v1/orders/**").numbers(2..3);
/// let flaky = ScriptMatch::always().by_chance(Share::percent(5), 42);
/// # let _ = (outage, third_order, flaky);
/// ```
#[derive(Clone, Debug)]
pub struct ScriptMatch {
    pattern: Option<Pattern>,
    method: Option<Method>,
    caller: Option<Box<str>>,
    header: Option<(Box<str>, Box<str>)>,
    numbers: (Bound<u64>, Bound<u64>),
    between: (Bound<Duration>, Bound<Duration>),
    chance: Option<(Share, Rng)>,
    /// Number of requests that met the conditions of caller and path, which `numbers` counts.
    met: u64,
}

impl ScriptMatch {
    /// Matches every request.
    pub fn always() -> Self {
        Self {
            pattern: None,
            method: None,
            caller: None,
            header: None,
            numbers: (Bound::Unbounded, Bound::Unbounded),
            between: (Bound::Unbounded, Bound::Unbounded),
            chance: None,
            met: 0,
        }
    }

    /// Matches requests for these paths.
    pub fn path(paths: impl Into<Pattern>) -> Self {
        Self {
            pattern: Some(paths.into()),
            ..Self::always()
        }
    }

    /// Requires this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Requires this caller.
    #[must_use]
    pub fn caller(mut self, caller: &str) -> Self {
        self.caller = Some(caller.into());
        self
    }

    /// Requires this header with exactly this value.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.header = Some((name.into(), value.into()));
        self
    }

    /// Requires these numbers, counted from 0 among the requests of equal path, method, caller and
    /// span that no earlier rule took.
    #[must_use]
    pub fn numbers(mut self, numbers: impl RangeBounds<u64>) -> Self {
        self.numbers = bounds(numbers);
        self
    }

    /// Requires the first `count` requests.
    #[must_use]
    pub fn first(self, count: u64) -> Self {
        self.numbers(..count)
    }

    /// Requires an age of the server within this span.
    #[must_use]
    pub fn between(mut self, span: impl RangeBounds<Duration>) -> Self {
        self.between = bounds(span);
        self
    }

    /// Requires this share, chosen by a seed.
    #[must_use]
    pub fn by_chance(mut self, share: Share, seed: u64) -> Self {
        self.chance = Some((share, Rng::with_seed(seed)));
        self
    }

    fn holds(&mut self, request: &ScriptRequest<'_>) -> bool {
        let concerned = self.pattern.as_ref().is_none_or(|p| p.matches(request.path))
            && self.method.as_ref().is_none_or(|m| m == request.method)
            && self.caller.as_deref().is_none_or(|c| c == request.caller)
            && self.header.as_ref().is_none_or(|(name, value)| {
                let mut values = request.headers.get_all(&**name).iter();
                values.any(|given| given == &**value)
            })
            && self.between.contains(&request.at.since(Nanos::ZERO));
        if !concerned {
            return false;
        }
        let number = self.met;
        self.met += 1;
        self.numbers.contains(&number)
            && self
                .chance
                .as_mut()
                .is_none_or(|(share, rng)| rng.u32(..MILLION) < share.as_parts_per_million())
    }
}

fn bounds<T: Clone>(range: impl RangeBounds<T>) -> (Bound<T>, Bound<T>) {
    (range.start_bound().cloned(), range.end_bound().cloned())
}

const MILLION: u32 = 1_000_000;

/// Request as a rule sees it.
pub(crate) struct ScriptRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) caller: &'a str,
    pub(crate) headers: &'a HeaderMap,
    /// Time since the server was built.
    pub(crate) at: Nanos,
}

/// Rules of faults; the first match decides.
///
/// ```
/// use std::time::Duration;
/// use outflow_mock::{Fault, Script, ScriptMatch, ThrottleResponse};
///
/// let script = Script::new()
///     .rule(ScriptMatch::path("/slow").first(1), Fault::Hang)
///     .rule(ScriptMatch::always().first(3), ThrottleResponse::new(429, Duration::from_secs(2)));
/// # let _ = script;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Script {
    rules: Vec<(ScriptMatch, ScriptedFault)>,
}

impl Script {
    /// Builds a script without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule after the others.
    #[must_use]
    pub fn rule(mut self, when: ScriptMatch, act: impl Into<ScriptedFault>) -> Self {
        self.rules.push((when, act.into()));
        self
    }

    /// Returns the fault for a request, if any.
    pub(crate) fn act(&mut self, request: &ScriptRequest<'_>) -> Option<ScriptedFault> {
        let mut rules = self.rules.iter_mut();
        rules.find_map(|(when, act)| when.holds(request).then(|| act.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    fn asked(path: &str, secs: u64) -> ScriptRequest<'_> {
        static NONE: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        ScriptRequest {
            headers: &NONE,
            method: &Method::GET,
            path,
            caller: "k",
            at: Nanos::from_secs(secs),
        }
    }

    fn held(mut when: ScriptMatch, requests: &[(&str, u64)]) -> Vec<bool> {
        let holds = |(path, secs): &(&str, u64)| when.holds(&asked(path, *secs));
        requests.iter().map(holds).collect()
    }

    // The spans are half-open, and numbers count only requests that pass the other conditions.
    #[test]
    fn all_conditions_must_hold() {
        let span = ScriptMatch::always().between(Duration::from_secs(1)..Duration::from_secs(2));
        assert_eq!(held(span, &[("/", 0), ("/", 1), ("/", 2)]), [false, true, false]);
        let second = ScriptMatch::path("/a").numbers(1..2);
        let requests = [("/a", 0), ("/b", 0), ("/a", 0), ("/a", 0)];
        assert_eq!(held(second, &requests), [false, false, true, false]);
        let post = ScriptMatch::always().method(Method::POST);
        assert_eq!(held(post, &[("/", 0)]), [false]);
        assert_eq!(held(ScriptMatch::always().header("accept", "*"), &[("/", 0)]), [false]);
        assert_eq!(held(ScriptMatch::always().caller("other"), &[("/", 0)]), [false]);
    }

    // 10 % of 10,000 is 1,000; five standard deviations are 150.
    #[test]
    fn chance_follows_its_share_and_seed() {
        let requests = vec![("/", 0); 10_000];
        let flaky = || ScriptMatch::always().by_chance(Share::percent(10), 3);
        let first = held(flaky(), &requests);
        assert_eq!(first, held(flaky(), &requests), "the same seed");
        let hits = first.iter().filter(|hit| **hit).count();
        assert!((850..1_150).contains(&hits), "{hits}");
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let mut script = Script::new()
            .rule(ScriptMatch::path("/a"), Fault::Hang)
            .rule(ScriptMatch::always(), Fault::Garbage);
        let broken = |act| match act {
            Some(ScriptedFault::Break(fault)) => fault,
            other => panic!("{other:?}"),
        };
        assert_eq!(broken(script.act(&asked("/a", 0))), Fault::Hang);
        assert_eq!(broken(script.act(&asked("/b", 0))), Fault::Garbage);
        assert!(Script::new().act(&asked("/a", 0)).is_none());
    }
}
