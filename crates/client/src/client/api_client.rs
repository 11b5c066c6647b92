//! One API as the client holds it: upstream, connections, credential and retry budget.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use outflow_core::{Nanos, QuotaLedger, RetryBudget};
use outflow_sync::Mutex;
use secrecy::ExposeSecret as _;
use smol_str::{SmolStr, format_smolstr};

use super::builder::InvalidClientReason;
use super::credential::AuthApplier;
use crate::api::{Api, CacheMode, TlsTrust};
use crate::cache::{Cache, SingleFlight};
use crate::error::ErrorKind;
use crate::event::Events;
use crate::http::{Transport, TransportDeps};
use crate::upstream::{LimitSharing, SharedTimer, Upstream};

/// Dependencies that all API clients share.
#[derive(Clone)]
pub(super) struct ClientDeps {
    pub(super) timer: SharedTimer,
    pub(super) events: Events,
    pub(super) transport_deps: TransportDeps,
    pub(super) cache: Option<Cache>,
    /// The accounts of limits that processes share.
    pub(super) ledger: Option<Arc<dyn QuotaLedger>>,
}

/// Response that equal calls share.
#[derive(Clone)]
pub(crate) struct SharedCall {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Everything that calls one API.
pub(crate) struct ApiClient {
    pub(crate) api: Arc<Api>,
    pub(crate) upstream: Upstream,
    pub(crate) transport: Arc<Transport>,
    pub(crate) auth: Option<AuthApplier>,
    /// Response cache, if enabled.
    pub(crate) cache: Option<Cache>,
    /// Equal calls in flight.
    pub(crate) flights: Arc<SingleFlight<Result<SharedCall, ErrorKind>>>,
    /// Shared with its predecessors and successors: spent retries stay spent.
    pub(crate) retries: Arc<Mutex<RetryBudget>>,
    ledger: Option<Arc<dyn QuotaLedger>>,
}

/// State of a removed API, in case it comes back.
#[derive(Clone)]
pub(super) struct RetiredApi {
    pub(super) upstream: Upstream,
    retries: Arc<Mutex<RetryBudget>>,
    /// From then on nothing of it counts.
    until: Nanos,
}

impl RetiredApi {
    /// Returns true if it has calls in flight, or if its usage, cooldowns or retries may still count.
    pub(super) fn is_needed(&self) -> bool {
        !self.upstream.is_idle() || self.upstream.now() < self.until
    }
}

impl ApiClient {
    /// Builds a client with a new upstream.
    pub(super) fn new(api: Api, deps: &ClientDeps) -> Result<Self, InvalidClientReason> {
        let api = Self::with_rules_timeout(api);
        let timer = Arc::clone(&deps.timer);
        let upstream = Upstream::new(&api.name, api.rules.clone(), timer, deps.events.clone());
        let client = Self::build(upstream.map_err(InvalidClientReason::Rules)?, api, deps)?;
        client.share_limits();
        Ok(client)
    }

    /// Builds a client with an existing upstream, which keeps its rules until
    /// [`apply`](Self::apply).
    pub(super) fn with_upstream(upstream: Upstream, api: Api, deps: &ClientDeps) -> Result<Self, InvalidClientReason> {
        Upstream::check_rules(&api.rules).map_err(InvalidClientReason::Rules)?;
        Self::build(upstream, api, deps)
    }

    /// Builds a client with an upstream whose rules are checked.
    fn build(upstream: Upstream, api: Api, deps: &ClientDeps) -> Result<Self, InvalidClientReason> {
        let retries = RetryBudget::new(api.retry.budget, deps.timer.now());
        let auth = match &api.credential {
            Some(credential) => Some(AuthApplier::from_credential(credential).ok_or(InvalidClientReason::Credential)?),
            None => None,
        };
        let transport = Transport::new(&api, &deps.transport_deps).map_err(InvalidClientReason::Transport)?;
        let cache = deps.cache.as_ref();
        Ok(Self {
            upstream,
            transport: Arc::new(transport),
            auth,
            cache: cache.filter(|_| api.cache != CacheMode::Off).map(|cache| {
                cache
                    .stale_if_error(api.stale_if_error)
                    .stale_offline(api.stale_offline)
            }),
            flights: Arc::new(SingleFlight::new()),
            retries: Arc::new(Mutex::new(retries.map_err(InvalidClientReason::Retries)?)),
            ledger: deps.ledger.clone(),
            api: Arc::new(api),
        })
    }

    /// Builds the client for a changed configuration of the API: with this upstream and budget, and
    /// with these connections if nothing about them differs.
    pub(super) fn reconfigured(&self, api: Api, deps: &ClientDeps) -> Result<Self, InvalidClientReason> {
        let mut next = Self::with_upstream(self.upstream.clone(), api, deps)?;
        next.retries = Arc::clone(&self.retries);
        if self.has_same_route(&next.api) {
            next.transport = Arc::clone(&self.transport);
        }
        // Calls with another key or to another address do not share responses with earlier ones.
        let is_shareable = self.has_same_route(&next.api) && self.api.credential == next.api.credential;
        if is_shareable && self.api.cache == next.api.cache {
            next.flights = Arc::clone(&self.flights);
        }
        Ok(next)
    }

    /// Returns the state to keep when the API is removed.
    pub(super) fn retire(&self) -> RetiredApi {
        RetiredApi {
            upstream: self.upstream.clone(),
            retries: Arc::clone(&self.retries),
            until: self.upstream.now().saturating_add(self.longest_memory()),
        }
    }

    /// Returns the time after which nothing of now counts: each window twice, as a fixed one may start late.
    fn longest_memory(&self) -> Duration {
        let rules = &self.api.rules;
        let groups = rules.groups.iter().flat_map(|group| group.limits.iter());
        let windows = rules.limits.iter().chain(groups).map(|limit| limit.rate().per());
        let longest = windows.max().unwrap_or_default().saturating_mul(2);
        longest.max(self.api.retry.budget.ttl).max(LEAST_MEMORY)
    }

    /// Builds the client of an API that is back: its usage and spent retries still count.
    pub(super) fn restore(retired: RetiredApi, api: Api, deps: &ClientDeps) -> Result<Self, InvalidClientReason> {
        let mut next = Self::with_upstream(retired.upstream, api, deps)?;
        next.retries = retired.retries;
        Ok(next)
    }

    /// Returns true if nothing changes under this configuration.
    pub(super) fn is_unchanged(&self, api: &Api) -> bool {
        *self.api == *api && self.has_same_route(api)
    }

    /// Returns true if the connections also fit this configuration. A certificate file may have new
    /// content under its old name.
    fn has_same_route(&self, api: &Api) -> bool {
        let (old, new) = (&self.api, api);
        let has_same_address = old.base_url == new.base_url && old.proxy == new.proxy;
        let has_same_trust = old.trust == new.trust && !matches!(new.trust, TlsTrust::File(_));
        has_same_address && has_same_trust && old.addresses == new.addresses && old.timeouts == new.timeouts
    }

    /// Applies the configuration to the upstream and the budget. It was checked when this client
    /// was built.
    pub(super) fn apply(&self) {
        let _they_fit = self.upstream.reconfigure(&self.api.rules);
        self.share_limits();
        self.upstream.restore();
        let (settings, now) = (self.api.retry.budget, self.upstream.now());
        let mut budget = self.retries.lock();
        if let Ok(next) = budget.under(settings, now) {
            *budget = next;
        }
    }

    /// Shares the limits with the processes that call the same API with the same key.
    fn share_limits(&self) {
        if let Some(ledger) = &self.ledger {
            let account = account_name(&self.api, &**ledger);
            self.upstream.share(LimitSharing::new(Arc::clone(ledger), account));
        }
    }

    /// Sets the rules' timeout: an abandoned attempt may arrive until its own timeout.
    pub(super) fn with_rules_timeout(mut api: Api) -> Api {
        api.rules.timeout = api.timeouts.attempt;
        api
    }
}

/// Returns the account that an API's limits have: its own name for it, or the API's name, origin and credential. A
/// fingerprint stands for the credential.
fn account_name(api: &Api, ledger: &dyn QuotaLedger) -> SmolStr {
    if let Some(account) = &api.account {
        return account.clone();
    }
    let credential = api.credential.as_ref().map(|known| known.secret.expose_secret());
    let origin = format!(
        "{}://{} {}",
        api.base_url.scheme(),
        api.base_url.authority(),
        credential.unwrap_or_default()
    );
    format_smolstr!("{}-{:016x}", api.name, ledger.fingerprint(origin.as_bytes()))
}

/// A day: longer than cooldowns and sleeps in use.
const LEAST_MEMORY: Duration = Duration::from_hours(24);
