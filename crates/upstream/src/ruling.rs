//! What is decided about a request when it arrives: its verdict, and what will be said to it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{DATE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use outflow_core::{HttpDate, Moment, Nanos};

use crate::answer::Answer;
use crate::api::{Shared, State};
use crate::arrival::Verdict;
use crate::enforce::{Ask, Judgement, Scope};
use crate::fault::Fault;
use crate::payload::Payload;
use crate::refusal::Tell;
use crate::script::{Act, Asked};

/// The decision about one request.
#[derive(Debug)]
pub(crate) struct Ruling {
    pub(crate) number: u64,
    pub(crate) verdict: Verdict,
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
    Say(Arc<Answer>),
    Break(Fault),
}

/// A no, on its way to become a ruling.
struct No<'a> {
    verdict: Verdict,
    status: u16,
    tell: &'a Tell,
    wait: Option<Duration>,
    scope: Scope,
}

impl Ruling {
    /// Judges a request: bans first, then limits, then the script.
    pub(crate) fn of(
        shared: &Shared,
        state: &mut State,
        request: &Parts,
        ask: &Ask,
        moment: Moment,
    ) -> Self {
        let mut ruling = Self::decided(shared, state, request, ask, moment);
        if !shared.manners.dialects.is_empty() {
            let standings = state.enforcer.standings(ask, moment);
            for dialect in &shared.manners.dialects {
                dialect.tell(&standings, moment, &mut ruling.headers);
            }
        }
        if let Ok(date) = HeaderValue::try_from(HttpDate::of(moment.wall).to_string()) {
            ruling.headers.insert(DATE, date);
        }
        ruling
    }

    fn decided(
        shared: &Shared,
        state: &mut State,
        request: &Parts,
        ask: &Ask,
        moment: Moment,
    ) -> Self {
        if let Some(until) = state.bans.banned(&ask.caller, moment.now) {
            return Self::banned(ask, until, moment);
        }
        let refused = match state.enforcer.judge(ask, moment) {
            Judgement::Allowed => {
                state.bans.passed(&ask.caller);
                return Self::allowed(shared, state, request, ask, moment);
            }
            Judgement::Refused(refused) => refused,
        };
        if let Some(until) = state.bans.strike(&ask.caller, moment.now) {
            return Self::banned(ask, until, moment);
        }
        let (status, tell) = &shared.manners.refusing;
        let no = No {
            verdict: Verdict::Refused(refused.quota),
            status: *status,
            tell,
            wait: refused.until.map(|until| until.since(moment.now)),
            scope: refused.scope,
        };
        no.at(moment)
    }

    fn banned(ask: &Ask, until: Nanos, moment: Moment) -> Self {
        let no = No {
            verdict: Verdict::Banned,
            status: BANNED,
            tell: &Tell::Seconds,
            wait: Some(until.since(moment.now)),
            scope: Scope {
                caller: Some(Arc::clone(&ask.caller)),
                route: None,
            },
        };
        no.at(moment)
    }

    fn allowed(
        shared: &Shared,
        state: &mut State,
        request: &Parts,
        ask: &Ask,
        moment: Moment,
    ) -> Self {
        let path = request.uri.path();
        let asked = Asked {
            method: &request.method,
            path,
            caller: &ask.caller,
            at: Nanos::ZERO.saturating_add(moment.now.since(shared.started)),
        };
        let act = state.script.act(&asked);
        let page = Arc::clone(state.page(path).unwrap_or(&shared.manners.usual));
        match act {
            None => Self::saying(page, Verdict::Allowed),
            Some(Act::Answer(answer)) => Self::saying(Arc::new(answer), Verdict::Scripted),
            Some(Act::Late(late)) => Self {
                late,
                ..Self::saying(page, Verdict::Scripted)
            },
            Some(Act::Break(fault)) => Self {
                reply: Reply::Break(fault),
                ..Self::saying(page, Verdict::Scripted)
            },
            Some(Act::Refuse(refusal)) => {
                let no = No {
                    verdict: Verdict::Scripted,
                    status: refusal.status,
                    tell: &refusal.tell,
                    wait: Some(refusal.wait),
                    scope: Scope {
                        caller: Some(Arc::clone(&ask.caller)),
                        route: Some(Arc::clone(&ask.route)),
                    },
                };
                no.at(moment)
            }
        }
    }

    fn saying(answer: Arc<Answer>, verdict: Verdict) -> Self {
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
        answer: &Answer,
        asked: &HeaderMap,
        echo: impl FnOnce() -> Bytes,
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
    fn at(self, moment: Moment) -> Ruling {
        let mut ruling = Ruling::saying(Arc::new(Answer::status(self.status)), self.verdict);
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
