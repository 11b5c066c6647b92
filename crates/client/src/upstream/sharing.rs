//! Limits that several processes share: leases under the lock, renewals outside it.
//!
//! Each scope has an account on a ledger, and a lease of its units here. A turn under the lock spends
//! units and collects renewals that are due; they are sent once the lock is free, and each answer is
//! another turn. So no call waits for a file or a server while the lease has units.

use std::sync::{Arc, Weak};
use std::time::Duration;

use outflow_core::{
    Cost, FactsObserver, LeaseAnswer, LeaseRequest, LeaseTerms, LedgerError, Nanos, QuotaLease, QuotaLedger,
};
use smol_str::{SmolStr, format_smolstr};

use super::fleet_share::{FleetShare, ShareEstimate};
use super::in_flight::ReceiptPair;
use super::limits::ScopeLimits;
use super::permit_pool::PermitPool;
use super::shared::SharedState;
use super::state::AdmissionState;
use crate::event::EventKind;

/// The ledger of an upstream's limits, and its account there.
#[derive(Clone, Debug)]
pub struct LimitSharing {
    /// The store of accounts.
    pub ledger: Arc<dyn QuotaLedger>,
    /// Name of the account: the API, its origin and its credential. Each group has an account below it.
    pub account: SmolStr,
    /// Term of a lease, and the time after which an unanswered renewal is repeated.
    pub ttl: Duration,
    /// Time for which a call in the mode `reject` waits for an answer of the ledger.
    pub patience: Duration,
}

impl LimitSharing {
    /// Shares through a ledger on this host, which answers within a millisecond.
    pub fn on_host(ledger: Arc<dyn QuotaLedger>, account: SmolStr) -> Self {
        Self {
            ledger,
            account,
            ttl: Duration::from_secs(2),
            patience: Duration::from_millis(5),
        }
    }
}

/// Scope of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AccountScope {
    Api,
    Group(u32),
}

/// A renewal to send once the lock is free.
#[derive(Debug)]
pub(super) struct PendingRenewal {
    pub(super) scope: AccountScope,
    /// Name of the group, if it is one's.
    pub(super) group: Option<SmolStr>,
    pub(super) request: Arc<LeaseRequest>,
}

/// Settings of new leases.
#[derive(Debug)]
pub(super) struct LeaseSource {
    ttl: Duration,
    pub(super) patience: Duration,
    random: fastrand::Rng,
}

impl LeaseSource {
    /// Shares limits with other processes from now on.
    pub(super) fn begin_lease(&mut self, limits: &mut ScopeLimits, timeout: Duration) {
        if limits.lease().is_none() {
            let terms = LeaseTerms {
                ttl: self.ttl,
                timeout,
                repeat: self.ttl / REPEATS_PER_TERM,
            };
            limits.begin_lease(terms, self.random.u64(..));
        }
    }
}

/// An unanswered renewal is repeated so soon that the lease survives several failures.
const REPEATS_PER_TERM: u32 = 40;

impl PermitPool {
    /// Collects the due renewals of a group and of the API, and arms the timer for later ones.
    #[inline]
    pub(super) fn check_leases(&mut self, group: u32, now: Nanos) {
        if self.leases.is_some() {
            self.collect_renewals(AccountScope::Group(group), now);
            self.collect_renewals(AccountScope::Api, now);
        }
    }

    fn collect_renewals(&mut self, scope: AccountScope, now: Nanos) {
        let Some(lease) = self.lease_of(scope) else {
            return;
        };
        let request = lease.next_renewal(now);
        let due = lease.due_at();
        self.effects.arm_timer(due);
        if let Some(request) = request {
            self.send_later(scope, request);
        }
    }

    fn send_later(&mut self, scope: AccountScope, request: Arc<LeaseRequest>) {
        let group = match scope {
            AccountScope::Api => None,
            AccountScope::Group(group) => Some(self.limits.group(group).name.clone()),
        };
        self.effects.renew(PendingRenewal { scope, group, request });
    }

    /// Begins to share the limits of a scope, unless it has none or shares them already. The account of the
    /// API has the facts of all groups, so it always exists.
    fn begin_lease(&mut self, scope: AccountScope) {
        let timeout = self.settings.timeout;
        let Self { limits, leases, .. } = self;
        let scope = match scope {
            AccountScope::Api => Some(&mut limits.shared),
            AccountScope::Group(group) => limits
                .group_mut(group)
                .used_limits()
                .filter(|limits| !limits.is_empty()),
        };
        if let (Some(source), Some(limits)) = (leases, scope) {
            source.begin_lease(limits, timeout);
        }
    }

    /// Estimates this process's share of the calls, so that throttle responses are judged by the calls of
    /// all processes.
    fn estimate_share(&mut self, scope: AccountScope, now: Nanos) {
        let limits = match scope {
            AccountScope::Api => Some(&mut self.limits.shared),
            AccountScope::Group(group) => self.limits.group_mut(group).used_limits(),
        };
        if let Some((ours, all)) = limits.and_then(|limits| limits.shared_use(now)) {
            self.fleet_share = ShareEstimate::new(FleetShare::new(ours, all), now);
        }
    }

    /// Returns the instant from which these receipts allow no sending.
    pub(super) fn lease_end(&self, group: u32, receipts: &ReceiptPair) -> Nanos {
        let own = self.limits.group(group).known_limits();
        let own = own.map_or(Nanos::MAX, |limits| limits.lease_deadline(receipts.own.as_ref()));
        own.min(self.limits.shared.lease_deadline(receipts.shared.as_ref()))
    }

    /// Returns true if only an answer of the ledger keeps a call from starting.
    pub(super) fn awaits_ledger(&self, group: u32, cost: Cost, now: Nanos) -> bool {
        let own = self.limits.group(group).known_limits();
        let own = own.is_some_and(|limits| limits.awaits_ledger(now, cost));
        own || self.limits.shared.awaits_ledger(now, cost)
    }

    /// Returns true if a call lacks units, and the ledger does not answer.
    pub(super) fn is_cut_off(&self, group: u32, cost: Cost, now: Nanos) -> bool {
        let own = self.limits.group(group).known_limits();
        own.is_some_and(|limits| limits.is_cut_off(now, cost)) || self.limits.shared.is_cut_off(now, cost)
    }

    /// Returns the time for which a call that does not want to wait waits for the ledger, if only its answer
    /// is missing.
    pub(super) fn patience(&self, group: u32, cost: Cost, now: Nanos) -> Option<Duration> {
        let source = self.leases.as_ref()?;
        self.awaits_ledger(group, cost, now).then_some(source.patience)
    }

    /// Returns the sentence about a ledger that does not answer, if one does not.
    pub(super) fn ledger_failure(&self) -> Option<String> {
        let groups = self.limits.groups.iter().filter_map(|group| group.known_limits());
        let mut scopes = groups.chain([&self.limits.shared]);
        let failure = scopes.find_map(|limits| limits.lease()?.failure());
        failure.map(|failure| format!("the ledger of the shared limits does not answer: {failure}"))
    }

    fn scopes(&self) -> impl Iterator<Item = AccountScope> + use<> {
        let groups = u32::try_from(self.limits.groups.len()).unwrap_or(u32::MAX);
        (0..groups).map(AccountScope::Group).chain([AccountScope::Api])
    }

    fn lease_of(&mut self, scope: AccountScope) -> Option<&mut QuotaLease> {
        let limits = match scope {
            AccountScope::Api => Some(&mut self.limits.shared),
            AccountScope::Group(group) if super::group_slot(group) < self.limits.groups.len() => {
                self.limits.group_mut(group).used_limits()
            }
            AccountScope::Group(_) => None,
        };
        limits?.lease_mut()
    }
}

impl AdmissionState {
    /// Begins to share the limits.
    fn begin_sharing(&mut self, sharing: &LimitSharing, now: Nanos) {
        self.pool.leases = Some(LeaseSource {
            ttl: sharing.ttl,
            patience: sharing.patience,
            random: fastrand::Rng::new(),
        });
        let scopes: Vec<_> = self.pool.scopes().collect();
        for scope in scopes {
            self.pool.begin_lease(scope);
        }
        self.serve_leases(now);
    }

    /// Reports everything to the account, and drops all leases.
    fn end_sharing(&mut self, now: Nanos) {
        self.leave_accounts(now);
        self.pool.leases = None;
        self.pool.limits.shared.end_lease();
        for group in &mut self.pool.limits.groups {
            if let Some(limits) = group.used_limits() {
                limits.end_lease();
            }
        }
    }

    /// Collects all renewals that are due.
    pub(super) fn serve_leases(&mut self, now: Nanos) {
        if self.pool.leases.is_none() {
            return;
        }
        let scopes: Vec<_> = self.pool.scopes().collect();
        for scope in scopes {
            self.pool.collect_renewals(scope, now);
        }
    }

    /// Takes over the answer to a renewal, and dispatches the waiters that it serves.
    fn deposit(
        &mut self,
        scope: AccountScope,
        request: &Arc<LeaseRequest>,
        answer: Result<LeaseAnswer, LedgerError>,
        now: Nanos,
    ) {
        let Some(lease) = self.pool.lease_of(scope) else {
            return;
        };
        let was_failing = lease.is_failing();
        let facts = match answer {
            Ok(answer) => lease.deposit(now, request, answer),
            Err(error) => {
                lease.fail(now, request, &error);
                None
            }
        };
        if was_failing != lease.is_failing() {
            let reason = lease.failure().map(SmolStr::new);
            self.pool.effects.emit(EventKind::Ledger { reason });
        }
        if let Some(facts) = facts {
            self.apply_facts(&facts, now);
            if request.facts.is_some() {
                // Another process wrote first: these facts are offered again beside its own.
                self.pool.offer_facts(now);
            }
        }
        self.pool.estimate_share(scope, now);
        self.dispatch(now);
        self.refuse_impatient(now);
        self.refuse_late_for_account(scope, now);
        self.pool.collect_renewals(scope, now);
    }

    /// Refuses the waiters whose deadline is before the instant at which the account has units again.
    fn refuse_late_for_account(&mut self, scope: AccountScope, now: Nanos) {
        let lease = self.pool.lease_of(scope).filter(|lease| !lease.covers(now, Cost::ONE));
        let Some(opens_at) = lease.map(|lease| lease.opens_at(now)).filter(|at| *at > now) else {
            return;
        };
        match scope {
            AccountScope::Api => {
                for circuit in self.pool.circuits.indexes() {
                    self.refuse_late_waiters(circuit, opens_at, now);
                }
            }
            AccountScope::Group(group) => self.refuse_late_group(group, opens_at, now),
        }
    }

    /// Asks for the facts that other processes changed. The account of the API has those of all groups.
    fn refresh_facts(&mut self, now: Nanos) {
        if let Some(lease) = self.pool.limits.shared.lease_mut() {
            lease.refresh();
        }
        self.pool.collect_renewals(AccountScope::Api, now);
    }

    /// Returns all units, reports all arrivals and collects the last renewals.
    fn leave_accounts(&mut self, now: Nanos) {
        let scopes: Vec<_> = self.pool.scopes().collect();
        for scope in scopes {
            let request = self.pool.lease_of(scope).and_then(|lease| lease.leave(now));
            if let Some(request) = request {
                self.pool.send_later(scope, request);
            }
        }
    }

    /// Returns true if the lease of an unsent attempt has ended: its units may be with another process.
    pub(super) fn is_lease_over(&self, attempt: usize, now: Nanos) -> bool {
        self.pool
            .in_flight
            .get(attempt)
            .is_some_and(|known| now >= self.pool.lease_end(known.group, &known.receipts))
    }
}

impl SharedState {
    /// Shares the limits with all processes that use this account, and no longer those of another account.
    pub(super) fn begin_sharing(&self, sharing: LimitSharing) {
        let old = self.sharing.load_full();
        if old.as_ref().is_some_and(|old| old.account == sharing.account) {
            return;
        }
        if old.is_some() {
            self.with(AdmissionState::end_sharing);
        }
        let sharing = Arc::new(sharing);
        self.sharing.store(Some(Arc::clone(&sharing)));
        let observer: Weak<dyn FactsObserver> = Weak::<Self>::clone(&self.weak);
        sharing.ledger.watch(&sharing.account, observer);
        self.with(|state, now| state.begin_sharing(&sharing, now));
    }

    pub(super) fn leave_accounts(&self) {
        self.with(AdmissionState::leave_accounts);
    }

    pub(super) fn is_lease_over(&self, attempt: usize) -> bool {
        self.with(|state, now| state.is_lease_over(attempt, now))
    }

    /// Sends a renewal; its answer is another turn under the lock.
    pub(super) fn send_renewal(&self, renewal: PendingRenewal) {
        let Some(sharing) = self.sharing.load_full() else {
            return;
        };
        let PendingRenewal { scope, group, request } = renewal;
        let account = match group {
            None => sharing.account.clone(),
            Some(group) => format_smolstr!("{}/{group}", sharing.account),
        };
        let weak = Weak::clone(&self.weak);
        let sent = Arc::clone(&request);
        let reply = Box::new(move |answer| {
            if let Some(shared) = weak.upgrade() {
                shared.with(|state, now| state.deposit(scope, &sent, answer, now));
            }
        });
        sharing.ledger.renew(&account, request, reply);
    }
}

impl FactsObserver for SharedState {
    fn facts_changed(&self, _account: &str) {
        self.with(AdmissionState::refresh_facts);
    }
}
