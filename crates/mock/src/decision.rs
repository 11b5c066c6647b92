//! The decision about an arriving request: its verdict and its response.

use std::sync::Arc;
use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use outflow_core::{ClockPair, HttpDate, Nanos};

use crate::api::{MockShared, State};
use crate::arrival::ArrivalVerdict;
use crate::dialect::Dialect;
use crate::echo::Echo;
use crate::enforcer::{LimitVerdict, QuotaRequest, Scope};
use crate::fault::Fault;
use crate::payload::{Content, Payload};
use crate::response::MockResponse;
use crate::script::{ScriptRequest, ScriptedFault};
use crate::throttle_response::{RetryAfterForm, ThrottleResponse};

/// Request that has just arrived.
pub(crate) struct ArrivedRequest<'a> {
    pub(crate) shared: &'a MockShared,
    pub(crate) request: &'a Parts,
    pub(crate) ask: &'a QuotaRequest,
    pub(crate) moment: ClockPair,
}

/// Decision about one request.
#[derive(Debug)]
pub(crate) struct ArrivalDecision {
    pub(crate) number: u64,
    pub(crate) verdict: ArrivalVerdict,
    pub(crate) reply: Reply,
    /// Callers that must wait because of this response, and the end of the wait.
    pub(crate) wait: Option<(Scope, Nanos)>,
    /// Addition to the delay of the way back.
    pub(crate) late: Duration,
    headers: HeaderMap,
}

/// Response to the request.
#[derive(Debug)]
pub(crate) enum Reply {
    Respond(Arc<MockResponse>),
    Break(Fault),
}

/// Refusal that becomes a decision.
struct PendingRefusal<'a> {
    verdict: ArrivalVerdict,
    status: u16,
    form: &'a RetryAfterForm,
    wait: Option<Duration>,
    scope: Scope,
}

impl ArrivedRequest<'_> {
    /// Judges the request: its key first, then bans, limits and the script.
    pub(crate) fn judge(&self, state: &mut State) -> ArrivalDecision {
        let config = &self.shared.config;
        let mut decision = self.decide(state);
        let is_refused = matches!(decision.verdict, ArrivalVerdict::Refused(_));
        if is_refused && config.dialects.contains(&Dialect::OpenAi) {
            let response = MockResponse::status(config.refusing.0)
                .header("content-type", "application/json")
                .content(Content::Whole(THROTTLED.into()));
            decision.reply = Reply::Respond(Arc::new(response));
        }
        if !config.dialects.is_empty() {
            let statuses = state.enforcer.statuses(self.ask, self.moment);
            for dialect in &config.dialects {
                dialect.write_headers(&statuses, self.moment, &mut decision.headers);
            }
        }
        if let Ok(date) = HeaderValue::try_from(HttpDate::from_wall(self.moment.wall).to_string()) {
            decision.headers.insert(DATE, date);
        }
        decision
    }

    fn decide(&self, state: &mut State) -> ArrivalDecision {
        let required = self.shared.config.required_key.as_ref();
        if required.is_some_and(|key| !key.is_in(self.request)) {
            let response = MockResponse::status(401)
                .header("content-type", "application/json")
                .content(Content::Whole(UNAUTHORIZED.into()));
            return ArrivalDecision::from_response(Arc::new(response), ArrivalVerdict::Unauthorized);
        }
        let (caller, now) = (&self.ask.caller, self.moment.now);
        if let Some(until) = state.bans.banned(caller, now) {
            return self.banned(until);
        }
        let refused = match state.enforcer.judge(self.ask, self.moment) {
            LimitVerdict::Allowed => {
                state.bans.passed(caller);
                return self.allowed(state);
            }
            LimitVerdict::Refused(refused) => refused,
        };
        if let Some(until) = state.bans.strike(caller, now) {
            return self.banned(until);
        }
        let (status, form) = &self.shared.config.refusing;
        let refusal = PendingRefusal {
            verdict: ArrivalVerdict::Refused(refused.quota),
            status: *status,
            form,
            wait: refused.until.map(|until| until.since(now)),
            scope: refused.scope,
        };
        refusal.into_decision(self.moment)
    }

    fn banned(&self, until: Nanos) -> ArrivalDecision {
        let refusal = PendingRefusal {
            verdict: ArrivalVerdict::Banned,
            status: BANNED,
            form: &RetryAfterForm::Seconds,
            wait: Some(until.since(self.moment.now)),
            scope: Scope {
                caller: Some(Arc::clone(&self.ask.caller)),
                route: None,
            },
        };
        refusal.into_decision(self.moment)
    }

    fn allowed(&self, state: &mut State) -> ArrivalDecision {
        let path = self.request.uri.path();
        let running = self.moment.now.since(self.shared.started);
        let act = state.script.act(&ScriptRequest {
            method: &self.request.method,
            path,
            caller: &self.ask.caller,
            headers: &self.request.headers,
            at: Nanos::ZERO.saturating_add(running),
        });
        let page = Arc::clone(state.page(path).unwrap_or(&self.shared.config.default_response));
        match act {
            None => ArrivalDecision::from_response(page, ArrivalVerdict::Allowed),
            Some(ScriptedFault::Answer(answer)) => {
                ArrivalDecision::from_response(Arc::new(answer), ArrivalVerdict::Scripted)
            }
            Some(ScriptedFault::Refuse(refusal)) => self.scripted(&refusal),
            Some(ScriptedFault::Late(late)) => ArrivalDecision {
                late,
                ..ArrivalDecision::from_response(page, ArrivalVerdict::Scripted)
            },
            Some(ScriptedFault::Break(fault)) => ArrivalDecision {
                reply: Reply::Break(fault),
                ..ArrivalDecision::from_response(page, ArrivalVerdict::Scripted)
            },
        }
    }

    fn scripted(&self, refusal: &ThrottleResponse) -> ArrivalDecision {
        let refusal = PendingRefusal {
            verdict: ArrivalVerdict::Scripted,
            status: refusal.status,
            form: &refusal.form,
            wait: Some(refusal.wait),
            scope: Scope {
                caller: Some(Arc::clone(&self.ask.caller)),
                route: Some(Arc::clone(&self.ask.route)),
            },
        };
        refusal.into_decision(self.moment)
    }
}

impl ArrivalDecision {
    fn from_response(answer: Arc<MockResponse>, verdict: ArrivalVerdict) -> Self {
        Self {
            number: 0,
            verdict,
            reply: Reply::Respond(answer),
            wait: None,
            late: Duration::ZERO,
            headers: HeaderMap::new(),
        }
    }

    /// Adds the headers of every response; headers of the response itself win.
    pub(crate) fn response(&self, answer: &MockResponse, request: &Parts, echo: &Echo) -> Response<Payload> {
        let mut response = answer.response(request, echo);
        for (name, value) in &self.headers {
            let headers = response.headers_mut();
            headers.entry(name).or_insert_with(|| value.clone());
        }
        response
    }
}

impl PendingRefusal<'_> {
    fn into_decision(self, moment: ClockPair) -> ArrivalDecision {
        let mut decision = ArrivalDecision::from_response(Arc::new(MockResponse::status(self.status)), self.verdict);
        let Some(wait) = self.wait else {
            return decision;
        };
        let formatted = self.form.format(wait, moment);
        if let Some(value) = formatted.value {
            decision.headers.insert(RETRY_AFTER, value);
        }
        decision.wait = formatted.wait.map(|wait| (self.scope, moment.now.saturating_add(wait)));
        decision
    }
}

/// Body of a response to a request without a valid key.
const UNAUTHORIZED: &str = "{\"error\":{\"message\":\"the key is missing or wrong\",\
                            \"type\":\"authentication_error\",\"code\":\"invalid_api_key\"}}\n";

/// Body of a throttle in the dialect `OpenAi`; libraries print its message.
const THROTTLED: &str = "{\"error\":{\"message\":\"the limit of this key has no quota for this request\",\
                         \"type\":\"rate_limit_error\",\"code\":\"rate_limit_exceeded\"}}\n";

/// Status of providers that ban.
const BANNED: u16 = 418;
