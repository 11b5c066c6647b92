//! One API as the client holds it: its door, its connections, its key and its retries.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use outflow_core::{Nanos, RetryBudget};

use super::builder::Unfit;
use super::credential::Shown;
use crate::api::{Api, CacheMode};
use crate::cache::{Cache, Flights};
use crate::error::Kind;
use crate::event::Events;
use crate::http::{Transport, Wiring};
use crate::upstream::{SharedTimer, Upstream};

/// What all outlets of a client have in common.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) wiring: &'a Wiring,
    pub(super) cache: Option<&'a Cache>,
}

/// An answer that equal calls share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Everything by which one API is called.
pub(crate) struct Outlet {
    pub(crate) api: Api,
    pub(crate) upstream: Upstream,
    pub(crate) transport: Transport,
    pub(crate) shown: Option<Shown>,
    /// Where its answers are kept, if they are.
    pub(crate) cache: Option<Cache>,
    /// Equal calls that are under way.
    pub(crate) flights: Flights<Result<Shared, Kind>>,
    retries: Mutex<RetryBudget>,
}

impl Outlet {
    pub(super) fn new(
        mut api: Api,
        timer: SharedTimer,
        events: Events,
        parts: Parts<'_>,
    ) -> Result<Self, Unfit> {
        // An attempt that was given up may arrive until its timeout, and no longer.
        api.rules.timeout = api.timeouts.attempt;
        let retries = RetryBudget::new(api.retry.budget, timer.now()).map_err(Unfit::Retries)?;
        let shown = match &api.credential {
            Some(credential) => Some(Shown::of(credential).ok_or(Unfit::Credential)?),
            None => None,
        };
        let transport = Transport::new(&api, parts.wiring).map_err(Unfit::Transport)?;
        let upstream = Upstream::new(&api.name, api.rules.clone(), timer, events);
        Ok(Self {
            upstream: upstream.map_err(Unfit::Rules)?,
            transport,
            shown,
            cache: parts
                .cache
                .filter(|_| api.cache != CacheMode::Off)
                .map(|cache| cache.stale_if_error(api.stale_if_error)),
            flights: Flights::new(),
            retries: Mutex::new(retries),
            api,
        })
    }

    /// Notes a call, which earns its share of a retry.
    pub(crate) fn earn(&self, now: Nanos) {
        self.budget(|budget| budget.deposit(now));
    }

    /// Takes one retry out of what was earned, or says that there is none.
    pub(crate) fn spend(&self, now: Nanos) -> bool {
        self.budget(|budget| budget.withdraw(now))
    }

    fn budget<R>(&self, act: impl FnOnce(&mut RetryBudget) -> R) -> R {
        act(&mut self.retries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
