//! The decision about a call that is not made, cache included.

use super::{CacheStage, is_asleep, is_cache_only, label};
use crate::cache::CacheLookup;
use crate::client::{ApiClient, CacheDirective, CallSpec};
use crate::error::Error;
use crate::event::CacheLabel;
use crate::send::prepared::{PreparedRequest, target_of};
use crate::upstream::CallDecision;

/// Returns what would happen to a call now. It takes nothing and sends nothing.
pub(crate) async fn explain(client: &ApiClient, spec: Box<CallSpec>) -> Result<CallDecision, Error> {
    if spec.cache != CacheDirective::Only {
        client.upstream.ask_ledger(target_of(client, &spec)?).await;
    }
    let now = client.upstream.now();
    let mut request = PreparedRequest::new(client, spec, now)?;
    let cache_request = request.cache_request.take();
    let (directive, options) = (request.spec.cache, request.acquire_options(now));
    let target = request.target;
    let decide = || client.upstream.decide(target, options);
    match (&client.cache, cache_request) {
        (Some(cache), Some(cache_request)) => {
            let stage = CacheStage {
                cache,
                client,
                cache_request,
                flight_key: None,
            };
            let time_left = request.deadline.map(|deadline| deadline.since(now));
            let is_asleep = || client.upstream.is_asleep(target);
            Ok(stage.explain(directive, time_left, is_asleep, decide).await)
        }
        _ if directive == CacheDirective::Only => Ok(CallDecision::Miss(None)),
        _ => Ok(decide()),
    }
}

impl CacheStage<'_> {
    /// Takes the steps of [`response`](Self::response) in their order, where `is_asleep` and `decide` are the
    /// upstream's part.
    async fn explain(
        &self,
        directive: CacheDirective,
        time_left: Option<std::time::Duration>,
        is_asleep: impl FnOnce() -> bool,
        decide: impl FnOnce() -> CallDecision,
    ) -> CallDecision {
        if directive == CacheDirective::Only {
            self.load_from_disk(time_left).await;
            return self.any_label().map_or(CallDecision::Miss(None), CallDecision::Cached);
        }
        match self.look_up(time_left).await {
            CacheLookup::Fresh(_) => CallDecision::Cached(CacheLabel::Hit),
            _ if self.query().is_only_if_cached() => CallDecision::Miss(None),
            CacheLookup::NotCacheable(_) => decide(),
            CacheLookup::Missing => self.substituted(decide(), false),
            CacheLookup::Stale { usable_on_error, .. } => match self.any_label() {
                Some(label) if is_asleep() => CallDecision::Cached(label),
                _ => self.substituted(decide(), usable_on_error),
            },
        }
    }

    /// Replaces a refusal by the stored response that would be served in its place.
    fn substituted(&self, decision: CallDecision, is_usable: bool) -> CallDecision {
        match decision {
            CallDecision::Refuse(refusal) if is_asleep(&refusal) => match self.any_label() {
                Some(label) => CallDecision::Cached(label),
                None if is_cache_only(&refusal) => CallDecision::Miss(Some(refusal.reason)),
                None if is_usable => CallDecision::Cached(CacheLabel::Stale),
                None => CallDecision::Refuse(refusal),
            },
            CallDecision::Refuse(_) if is_usable => CallDecision::Cached(CacheLabel::Stale),
            decision => decision,
        }
    }

    fn any_label(&self) -> Option<CacheLabel> {
        let stored = self.cache.lookup_any_in_memory(&self.query(), self.wall_now());
        stored.as_ref().map(label)
    }
}
