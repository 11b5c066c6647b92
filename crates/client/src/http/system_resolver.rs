//! System resolver with a limit on blocked threads.
//!
//! A system lookup cannot be interrupted: an abandoned one still blocks its thread. These threads
//! belong to the runtime and also serve files. So each API has a few lookup slots, and the thread,
//! not the caller, frees its slot. A dead resolver stops new connections of that API and nothing
//! else.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::resolve::{Resolve, Resolving};
use super::resolve_error::ResolveError;
use crate::tasks::run_blocking;

/// System resolver of one API.
#[derive(Clone)]
pub(super) struct SystemResolver {
    slots: Arc<Semaphore>,
    lookup: Arc<LookupFn>,
}

/// Blocking lookup.
type LookupFn = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

impl SystemResolver {
    pub(super) fn new() -> Self {
        Self::with_lookup(Arc::new(resolve_blocking))
    }

    fn with_lookup(lookup: Arc<LookupFn>) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_LOOKUPS));
        Self { slots, lookup }
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> Resolving {
        let (name, system) = (name.to_owned(), self.clone());
        Box::pin(async move {
            let slot = system.slots.acquire_owned().await;
            let slot = slot.map_err(|_| ResolveError::ServerFailed)?;
            let found = run_blocking(move || {
                let found = (system.lookup)(&name);
                drop(slot);
                found
            });
            let found = found.await.ok_or(ResolveError::ServerFailed)?;
            found.map_err(ResolveError::from)
        })
    }
}

fn resolve_blocking(name: &str) -> io::Result<Vec<IpAddr>> {
    let found = (name, 0).to_socket_addrs()?;
    Ok(found.map(|address| address.ip()).collect())
}

/// More connections are rarely opened to one API at once. A runtime has 512 blocking threads,
/// enough for the lookups of sixty APIs with a dead resolver.
const MAX_LOOKUPS: usize = 8;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use outflow_sync::Mutex;

    use super::*;

    /// Returns a resolver that blocks until the sender is dropped, and the number of its lookups.
    fn dead() -> (SystemResolver, mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (sender, receiver) = mpsc::channel::<()>();
        let (receiver, lookups) = (Mutex::new(receiver), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&lookups);
        let lookup = move |_: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
            // Ends when the sender is dropped, for later lookups too.
            let _ended = receiver.lock().recv();
            Ok(vec![IpAddr::from([192, 0, 2, 1])])
        };
        (SystemResolver::with_lookup(Arc::new(lookup)), sender, lookups)
    }

    // A hundred callers give up; blocking threads stay free for other work, and every slot is free
    // once the system responds again.
    #[tokio::test]
    async fn a_dead_resolver_blocks_only_a_few_threads() {
        let (system, sender, lookups) = dead();
        for _ in 0..100 {
            let lookup = system.resolve("api.example.com");
            let given_up = tokio::time::timeout(Duration::from_millis(1), lookup).await;
            assert!(given_up.is_err());
        }
        assert_eq!(run_blocking(|| 7).await, Some(7));
        assert!(lookups.load(Ordering::Relaxed) <= MAX_LOOKUPS, "{lookups:?}");
        drop(sender);
        let found = system.resolve("api.example.com").await;
        assert_eq!(found, Ok(vec![IpAddr::from([192, 0, 2, 1])]));
    }

    #[tokio::test]
    async fn localhost_resolves_to_loopback() {
        let found = SystemResolver::new().resolve("localhost").await.expect("known");
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert!(!found.is_empty());
    }
}
