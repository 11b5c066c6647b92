//! What is decided about a request when it arrives: its verdict, and what will be said to it.

use std::sync::Arc;
use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use outflow_core::{ClockPair, HttpDate, Nanos};

use crate::api::{Shared, State};
use crate::arrival::ArrivalVerdict;
use crate::echo::Echo;
use crate::enforcer::{Ask, Judgement, Scope};
use crate::fault::Fault;
use crate::payload::Payload;
use crate::response::MockResponse;
use crate::script::{Asked, ScriptedFault};
use crate::throttle_response::{RetryAfterForm, ThrottleResponse};

/// A request that has just arrived.
pub(crate) struct Case<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) request: &'a Parts,
    pub(crate) ask: &'a Ask,
    pub(crate) moment: ClockPair,
}

/// The decision about one request.
#[derive(Debug)]
pub(crate) struct ArrivalDecision {
    pub(crate) number: u64,
    pub(crate) verdict: ArrivalVerdict,
    pub(crate) reply: Reply,
    /// Whom this answer tells to wait, and until when.
    pub(crate) wait: Option<(Scope, Nanos)>,
    /// What is added to the way back.
    pub(crate) late: Duration,
    headers: HeaderMap,
}

/// What is said.
#[derive(Debug)]
pub(crate) enum Reply {
    Say(Arc<MockResponse>),
    Break(Fault),
}

/// A no, on its way to become a ruling.
struct No<'a> {
    verdict: ArrivalVerdict,
    status: u16,
    tell: &'a RetryAfterForm,
    wait: Option<Duration>,
    scope: Scope,
}

impl Case<'_> {
    /// Judges it: bans first, then limits, then the script.
    pub(crate) fn judge(&self, state: &mut State) -> ArrivalDecision {
        let manners = &self.shared.manners;
        let mut ruling = self.decide(state);
        if !manners.dialects.is_empty() {
            let standings = state.enforcer.standings(self.ask, self.moment);
            for dialect in &manners.dialects {
                dialect.write_headers(&standings, self.moment, &mut ruling.headers);
            }
        }
        if let Ok(date) = HeaderValue::try_from(HttpDate::from_wall(self.moment.wall).to_string()) {
            ruling.headers.insert(DATE, date);
        }
        ruling
    }

    fn decide(&self, state: &mut State) -> ArrivalDecision {
        let (caller, now) = (&self.ask.caller, self.moment.now);
        if let Some(until) = state.bans.banned(caller, now) {
            return self.banned(until);
        }
        let refused = match state.enforcer.judge(self.ask, self.moment) {
            Judgement::Allowed => {
                state.bans.passed(caller);
                return self.allowed(state);
            }
            Judgement::Refused(refused) => refused,
        };
        if let Some(until) = state.bans.strike(caller, now) {
            return self.banned(until);
        }
        let (status, tell) = &self.shared.manners.refusing;
        let no = No {
            verdict: ArrivalVerdict::Refused(refused.quota),
            status: *status,
            tell,
            wait: refused.until.map(|until| until.since(now)),
            scope: refused.scope,
        };
        no.at(self.moment)
    }

    fn banned(&self, until: Nanos) -> ArrivalDecision {
        let no = No {
            verdict: ArrivalVerdict::Banned,
            status: BANNED,
            tell: &RetryAfterForm::Seconds,
            wait: Some(until.since(self.moment.now)),
            scope: Scope {
                caller: Some(Arc::clone(&self.ask.caller)),
                route: None,
            },
        };
        no.at(self.moment)
    }

    fn allowed(&self, state: &mut State) -> ArrivalDecision {
        let path = self.request.uri.path();
        let running = self.moment.now.since(self.shared.started);
        let act = state.script.act(&Asked {
            method: &self.request.method,
            path,
            caller: &self.ask.caller,
            headers: &self.request.headers,
            at: Nanos::ZERO.saturating_add(running),
        });
        let page = Arc::clone(state.page(path).unwrap_or(&self.shared.manners.usual));
        match act {
            None => ArrivalDecision::saying(page, ArrivalVerdict::Allowed),
            Some(ScriptedFault::Answer(answer)) => {
                ArrivalDecision::saying(Arc::new(answer), ArrivalVerdict::Scripted)
            }
            Some(ScriptedFault::Refuse(refusal)) => self.scripted(&refusal),
            Some(ScriptedFault::Late(late)) => ArrivalDecision {
                late,
                ..ArrivalDecision::saying(page, ArrivalVerdict::Scripted)
            },
            Some(ScriptedFault::Break(fault)) => ArrivalDecision {
                reply: Reply::Break(fault),
                ..ArrivalDecision::saying(page, ArrivalVerdict::Scripted)
            },
        }
    }

    fn scripted(&self, refusal: &ThrottleResponse) -> ArrivalDecision {
        let no = No {
            verdict: ArrivalVerdict::Scripted,
            status: refusal.status,
            tell: &refusal.tell,
            wait: Some(refusal.wait),
            scope: Scope {
                caller: Some(Arc::clone(&self.ask.caller)),
                route: Some(Arc::clone(&self.ask.route)),
            },
        };
        no.at(self.moment)
    }
}

impl ArrivalDecision {
    fn saying(answer: Arc<MockResponse>, verdict: ArrivalVerdict) -> Self {
        Self {
            number: 0,
            verdict,
            reply: Reply::Say(answer),
            wait: None,
            late: Duration::ZERO,
            headers: HeaderMap::new(),
        }
    }

    /// The answer with what every answer carries. What the answer itself says wins.
    pub(crate) fn response(
        &self,
        answer: &MockResponse,
        asked: &Parts,
        echo: &Echo,
    ) -> Response<Payload> {
        let mut response = answer.response(asked, echo);
        for (name, value) in &self.headers {
            let headers = response.headers_mut();
            headers.entry(name).or_insert_with(|| value.clone());
        }
        response
    }
}

impl No<'_> {
    fn at(self, moment: ClockPair) -> ArrivalDecision {
        let mut ruling =
            ArrivalDecision::saying(Arc::new(MockResponse::status(self.status)), self.verdict);
        let Some(wait) = self.wait else {
            return ruling;
        };
        let told = self.tell.say(wait, moment);
        if let Some(value) = told.value {
            ruling.headers.insert(RETRY_AFTER, value);
        }
        ruling.wait = told
            .wait
            .map(|wait| (self.scope, moment.now.saturating_add(wait)));
        ruling
    }
}

/// What providers that ban answer to whoever is banned.
const BANNED: u16 = 418;
