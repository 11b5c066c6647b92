//! Reload of a client in use, all of it or nothing.
//!
//! The plan first builds everything that can fail: it checks rules, prepares connections and keys.
//! Applying it cannot fail: each upstream changes its rules in one step, and later calls use the
//! new API clients. No lock spans two upstreams, so a call never waits for a reload. Calls in
//! progress end with the old configuration.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use super::api_client::{ApiClient, ClientDeps};
use super::api_table::{ApiClients, ApiTable};
use super::builder::{InvalidClient, InvalidClientReason};
use crate::api::Api;

/// Changes of a reload.
///
/// ```
/// use outflow::{Api, Outflow};
///
/// let github = || Ok::<_, Box<dyn std::error::Error>>(Api::new("github", "https://api.github.com".parse()?));
/// let client = Outflow::builder().api(github()?).build()?;
/// let mut patient = github()?;
/// patient.retry.count = 5;
/// let other = Api::new("local", "http://localhost:8080".parse()?);
/// let changes = client.reload([patient, other])?;
/// assert_eq!(changes.to_string(), "added local; changed github");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReloadChanges {
    /// New APIs, or APIs that are back.
    pub added: Vec<SmolStr>,
    /// Removed APIs: waiters were refused, attempts in flight end as usual.
    pub removed: Vec<SmolStr>,
    /// Changed APIs, and keys of the bulk section such as `bulk.timeout`.
    pub changed: Vec<SmolStr>,
    /// Keys whose new value needs a restart.
    pub restart: Vec<String>,
}

impl ReloadChanges {
    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        let same = self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty();
        same && self.restart.is_empty()
    }
}

impl fmt::Display for ReloadChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing changed");
        }
        let keys: Vec<SmolStr> = self.restart.iter().map(SmolStr::new).collect();
        let lists = [
            ("added", &self.added),
            ("removed", &self.removed),
            ("changed", &self.changed),
            ("after a restart", &keys),
        ];
        let mut separator = "";
        for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "{separator}{what} {}", names.join(", "))?;
            separator = "; ";
        }
        Ok(())
    }
}

/// New table of API clients that is not yet in effect.
pub(super) struct ReloadPlan {
    clients: ApiClients,
    reconfigured: Vec<Arc<ApiClient>>,
    changes: ReloadChanges,
}

impl ReloadPlan {
    /// Builds everything that these APIs need.
    pub(super) fn new(apis: Vec<Api>, table: &ApiTable, deps: &ClientDeps) -> Result<Self, InvalidClient> {
        let old = table.all();
        let mut plan = Self {
            clients: ApiClients::default(),
            reconfigured: Vec::new(),
            changes: ReloadChanges::default(),
        };
        let mut errors = Vec::new();
        for api in apis {
            let name = api.name.clone();
            if plan.clients.contains_key(&name) {
                errors.push((name, InvalidClientReason::DuplicateName));
            } else if let Err(reason) = plan.add(api, &old, table, deps) {
                errors.push((name, reason));
            }
        }
        if !errors.is_empty() {
            return Err(InvalidClient::new(errors));
        }
        let removed = old.keys().filter(|name| !plan.clients.contains_key(*name));
        plan.changes.removed = removed.cloned().collect();
        plan.changes.removed.sort_unstable();
        Ok(plan)
    }

    fn add(
        &mut self,
        api: Api,
        old: &ApiClients,
        table: &ApiTable,
        deps: &ClientDeps,
    ) -> Result<(), InvalidClientReason> {
        let (name, api) = (api.name.clone(), ApiClient::with_rules_timeout(api));
        let previous = old.get(&name);
        if let Some(previous) = previous.filter(|previous| previous.is_unchanged(&api)) {
            self.clients.insert(name, Arc::clone(previous));
            return Ok(());
        }
        let client = match (previous, table.find_retired(&name)) {
            (Some(previous), _) => {
                self.note_change(&name, previous, &api);
                Arc::new(previous.reconfigured(api, deps)?)
            }
            (None, Some(retired)) => {
                self.changes.added.push(name.clone());
                Arc::new(ApiClient::restore(retired, api, deps)?)
            }
            (None, None) => {
                self.changes.added.push(name.clone());
                self.clients.insert(name, Arc::new(ApiClient::new(api, deps)?));
                return Ok(());
            }
        };
        self.reconfigured.push(Arc::clone(&client));
        self.clients.insert(name, client);
        Ok(())
    }

    fn note_change(&mut self, name: &SmolStr, previous: &ApiClient, api: &Api) {
        if *previous.api != *api {
            self.changes.changed.push(name.clone());
        }
        if previous.upstream.health_scope() != api.rules.health_scope {
            self.changes.restart.push(format!("apis.{name}.health_scope"));
        }
    }

    /// Returns the APIs after the reload.
    pub(super) fn apis(&self) -> impl Iterator<Item = &Api> {
        self.clients.values().map(|client| client.api.as_ref())
    }

    /// Closes all upstreams, because the client is closed.
    pub(super) fn close(&self) {
        for client in self.clients.values() {
            client.upstream.close();
        }
    }

    /// Applies the plan.
    pub(super) fn apply(self, table: &ApiTable) -> ReloadChanges {
        for client in &self.reconfigured {
            client.apply();
        }
        table.replace(self.clients);
        self.changes
    }
}
