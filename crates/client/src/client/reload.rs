//! Another configuration for a client that is in use, all of it or nothing.
//!
//! First everything is made that can fail: rules are looked at, connections prepared, keys put into
//! their places. Then what was made is put into effect, which cannot fail: each door changes its rules in
//! one step of its own, and calls that begin from then on take the new outlets. No lock is held from one
//! door to the next, so a call never waits for a reload. Calls that are under way end as they began.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use super::api_client::{ApiClient, ClientDeps};
use super::api_table::{ApiTable, Outlets};
use super::builder::{InvalidClient, InvalidClientReason};
use crate::api::Api;

/// What a reload changed.
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
    /// APIs that are new, or are again.
    pub added: Vec<SmolStr>,
    /// APIs that are gone: whoever waited was refused, what is in flight ends as it would have.
    pub removed: Vec<SmolStr>,
    /// APIs that differ from before, and keys of the engine's section, such as `bulk.timeout`.
    pub changed: Vec<SmolStr>,
    /// Keys whose new value takes effect when the program is started again, and not before.
    pub restart: Vec<String>,
}

impl ReloadChanges {
    /// True if everything is as it was.
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
        let mut before = "";
        for (what, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "{before}{what} {}", names.join(", "))?;
            before = "; ";
        }
        Ok(())
    }
}

/// A new set of outlets, made and not yet in effect.
pub(super) struct ReloadPlan {
    outlets: Outlets,
    renewed: Vec<Arc<ApiClient>>,
    changes: ReloadChanges,
}

impl ReloadPlan {
    /// Makes everything that these APIs need.
    pub(super) fn new(
        apis: Vec<Api>,
        roster: &ApiTable,
        parts: &ClientDeps,
    ) -> Result<Self, InvalidClient> {
        let old = roster.all();
        let mut plan = Self {
            outlets: Outlets::default(),
            renewed: Vec::new(),
            changes: ReloadChanges::default(),
        };
        let mut unfit = Vec::new();
        for api in apis {
            let name = api.name.clone();
            if plan.outlets.contains_key(&name) {
                unfit.push((name, InvalidClientReason::Twice));
            } else if let Err(why) = plan.add(api, &old, roster, parts) {
                unfit.push((name, why));
            }
        }
        if !unfit.is_empty() {
            return Err(InvalidClient::new(unfit));
        }
        let gone = old.keys().filter(|name| !plan.outlets.contains_key(*name));
        plan.changes.removed = gone.cloned().collect();
        plan.changes.removed.sort_unstable();
        Ok(plan)
    }

    fn add(
        &mut self,
        api: Api,
        old: &Outlets,
        roster: &ApiTable,
        parts: &ClientDeps,
    ) -> Result<(), InvalidClientReason> {
        let (name, api) = (api.name.clone(), ApiClient::completed(api));
        let before = old.get(&name);
        if let Some(before) = before.filter(|before| before.serves(&api)) {
            self.outlets.insert(name, Arc::clone(before));
            return Ok(());
        }
        let former = || roster.former(&name);
        let outlet = match (before, former()) {
            (Some(before), _) => {
                self.note_change(&name, before, &api);
                Arc::new(before.succeeded_by(api, parts)?)
            }
            (None, Some(remains)) => {
                self.changes.added.push(name.clone());
                Arc::new(ApiClient::returning(remains, api, parts)?)
            }
            (None, None) => {
                self.changes.added.push(name.clone());
                self.outlets
                    .insert(name, Arc::new(ApiClient::new(api, parts)?));
                return Ok(());
            }
        };
        self.renewed.push(Arc::clone(&outlet));
        self.outlets.insert(name, outlet);
        Ok(())
    }

    fn note_change(&mut self, name: &SmolStr, before: &ApiClient, api: &Api) {
        if *before.api != *api {
            self.changes.changed.push(name.clone());
        }
        if before.upstream.health_scope() != api.rules.health_scope {
            self.changes
                .restart
                .push(format!("apis.{name}.health_scope"));
        }
    }

    /// The APIs as they will be.
    pub(super) fn apis(&self) -> impl Iterator<Item = &Api> {
        self.outlets.values().map(|outlet| outlet.api.as_ref())
    }

    /// Lets nobody through any of its doors, for the client is being closed.
    pub(super) fn close(&self) {
        for outlet in self.outlets.values() {
            outlet.upstream.close();
        }
    }

    /// Puts it into effect.
    pub(super) fn apply(self, roster: &ApiTable) -> ReloadChanges {
        for outlet in &self.renewed {
            outlet.take_effect();
        }
        roster.replace(self.outlets);
        self.changes
    }
}
