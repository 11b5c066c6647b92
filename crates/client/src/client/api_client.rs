//! One API as the client holds it: its door, its connections, its key and its retries.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use outflow_core::{Nanos, RetryBudget};

use super::builder::InvalidClientReason;
use super::credential::AuthApplier;
use crate::api::{Api, CacheMode, TlsTrust};
use crate::cache::{Cache, SingleFlight};
use crate::error::ErrorKind;
use crate::event::Events;
use crate::http::{Transport, TransportDeps};
use crate::upstream::{SharedTimer, Upstream};

/// What all outlets of a client have in common.
#[derive(Clone)]
pub(super) struct ClientDeps {
    pub(super) timer: SharedTimer,
    pub(super) events: Events,
    pub(super) wiring: TransportDeps,
    pub(super) cache: Option<Cache>,
}

/// An answer that equal calls share.
#[derive(Clone)]
pub(crate) struct SharedCall {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Everything by which one API is called.
pub(crate) struct ApiClient {
    pub(crate) api: Arc<Api>,
    pub(crate) upstream: Upstream,
    pub(crate) transport: Arc<Transport>,
    pub(crate) shown: Option<AuthApplier>,
    /// Where its answers are kept, if they are.
    pub(crate) cache: Option<Cache>,
    /// Equal calls that are under way.
    pub(crate) flights: Arc<SingleFlight<Result<SharedCall, ErrorKind>>>,
    /// Shared with the outlets before and after it: what was spent stays spent.
    retries: Arc<Mutex<RetryBudget>>,
}

/// What is kept of an outlet whose API was removed, should it come back.
#[derive(Clone)]
pub(super) struct RetiredApi {
    pub(super) upstream: Upstream,
    retries: Arc<Mutex<RetryBudget>>,
}

impl ApiClient {
    /// An outlet with a door of its own.
    pub(super) fn new(api: Api, parts: &ClientDeps) -> Result<Self, InvalidClientReason> {
        let api = Self::completed(api);
        let timer = Arc::clone(&parts.timer);
        let door = Upstream::new(&api.name, api.rules.clone(), timer, parts.events.clone());
        Self::made(door.map_err(InvalidClientReason::Rules)?, api, parts)
    }

    /// An outlet behind a door that there is. The door keeps its rules until this
    /// [takes effect](Self::take_effect).
    pub(super) fn behind(
        upstream: Upstream,
        api: Api,
        parts: &ClientDeps,
    ) -> Result<Self, InvalidClientReason> {
        Upstream::check_rules(&api.rules).map_err(InvalidClientReason::Rules)?;
        Self::made(upstream, api, parts)
    }

    /// An outlet behind a door that its rules fit.
    fn made(upstream: Upstream, api: Api, parts: &ClientDeps) -> Result<Self, InvalidClientReason> {
        let retries = RetryBudget::new(api.retry.budget, parts.timer.now());
        let shown = match &api.credential {
            Some(credential) => Some(
                AuthApplier::from_credential(credential).ok_or(InvalidClientReason::Credential)?,
            ),
            None => None,
        };
        let transport =
            Transport::new(&api, &parts.wiring).map_err(InvalidClientReason::Transport)?;
        let cache = parts.cache.as_ref();
        Ok(Self {
            upstream,
            transport: Arc::new(transport),
            shown,
            cache: cache
                .filter(|_| api.cache != CacheMode::Off)
                .map(|cache| cache.stale_if_error(api.stale_if_error)),
            flights: Arc::new(SingleFlight::new()),
            retries: Arc::new(Mutex::new(retries.map_err(InvalidClientReason::Retries)?)),
            api: Arc::new(api),
        })
    }

    /// The outlet of the same API as it is configured now: behind the same door, with the same budget,
    /// and on the same connections if nothing about them is different.
    pub(super) fn succeeded_by(
        &self,
        api: Api,
        parts: &ClientDeps,
    ) -> Result<Self, InvalidClientReason> {
        let mut next = Self::behind(self.upstream.clone(), api, parts)?;
        next.retries = Arc::clone(&self.retries);
        if self.reaches(&next.api) {
            next.transport = Arc::clone(&self.transport);
        }
        // Who calls with another key, or elsewhere, does not share an answer with those before.
        let same = self.reaches(&next.api) && self.api.credential == next.api.credential;
        if same && self.api.cache == next.api.cache {
            next.flights = Arc::clone(&self.flights);
        }
        Ok(next)
    }

    /// What is kept of it when its API is removed.
    pub(super) fn remains(&self) -> RetiredApi {
        RetiredApi {
            upstream: self.upstream.clone(),
            retries: Arc::clone(&self.retries),
        }
    }

    /// The outlet of an API that is back: what it used and spent before still counts.
    pub(super) fn returning(
        remains: RetiredApi,
        api: Api,
        parts: &ClientDeps,
    ) -> Result<Self, InvalidClientReason> {
        let mut next = Self::behind(remains.upstream, api, parts)?;
        next.retries = remains.retries;
        Ok(next)
    }

    /// Whether it serves the API as this says it, so that there is nothing to change.
    pub(super) fn serves(&self, api: &Api) -> bool {
        *self.api == *api && self.reaches(api)
    }

    /// Whether connections made by this lead where the API is now. A file of certificates may hold
    /// others under the same name.
    fn reaches(&self, api: &Api) -> bool {
        let (old, new) = (&self.api, api);
        let same_place = old.base_url == new.base_url && old.proxy == new.proxy;
        let same_trust = old.trust == new.trust && !matches!(new.trust, TlsTrust::File(_));
        same_place && same_trust && old.addresses == new.addresses && old.timeouts == new.timeouts
    }

    /// Has the door and the budget follow this configuration. What can be wrong with it was looked at
    /// when this was made.
    pub(super) fn take_effect(&self) {
        let _they_fit = self.upstream.reconfigure(&self.api.rules);
        self.upstream.restore();
        let (settings, now) = (self.api.retry.budget, self.upstream.now());
        self.budget(|budget| {
            if let Ok(next) = budget.under(settings, now) {
                *budget = next;
            }
        });
    }

    /// An attempt that was given up may arrive until its timeout, and no longer.
    pub(super) fn completed(mut api: Api) -> Api {
        api.rules.timeout = api.timeouts.attempt;
        api
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
