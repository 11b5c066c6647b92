//! The system's resolver, and how many threads may wait for it.
//!
//! The system answers when it likes and cannot be interrupted: a lookup that nobody waits for any more
//! still holds its thread. Those threads are the runtime's and serve files too. So each API has a few
//! places for lookups, and a place is given back by the thread and not by whoever asked: a dead
//! resolver stops that API's new connections and nothing else.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::resolve::{Resolve, Resolving};
use super::resolve_error::ResolveError;
use crate::tasks::aside;

/// The system's resolver, for one API.
#[derive(Clone)]
pub(super) struct SystemResolver {
    places: Arc<Semaphore>,
    look: Arc<Look>,
}

/// Asks the system, and waits for it.
type Look = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

impl SystemResolver {
    pub(super) fn new() -> Self {
        Self::with_lookup(Arc::new(resolve_blocking))
    }

    fn with_lookup(look: Arc<Look>) -> Self {
        let places = Arc::new(Semaphore::new(PLACES));
        Self { places, look }
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> Resolving {
        let (name, system) = (name.to_owned(), self.clone());
        Box::pin(async move {
            let place = system.places.acquire_owned().await;
            let place = place.map_err(|_| ResolveError::ServerFailed)?;
            let found = aside(move || {
                let found = (system.look)(&name);
                drop(place);
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

/// More new connections than these are rarely made to one API at once; a runtime has 512 such threads,
/// enough for the lookups of sixty APIs whose resolver is dead.
const PLACES: usize = 8;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use super::*;

    /// A system that answers nobody until it is told to, and how many wait for it.
    fn dead() -> (SystemResolver, mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (alive, told) = mpsc::channel::<()>();
        let (told, asked) = (Mutex::new(told), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&asked);
        let look = move |_: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
            // Ends when the other half is dropped, for whoever comes then too.
            let _ended = told.lock().unwrap_or_else(PoisonError::into_inner).recv();
            Ok(vec![IpAddr::from([192, 0, 2, 1])])
        };
        (SystemResolver::with_lookup(Arc::new(look)), alive, asked)
    }

    // A hundred ask and give up; a thread for other work is free all the while, and when the system
    // lives again so is every place.
    #[tokio::test]
    async fn a_dead_resolver_takes_a_few_threads_and_no_more() {
        let (system, alive, asked) = dead();
        for _ in 0..100 {
            let asking = system.resolve("api.example.com");
            let given_up = tokio::time::timeout(Duration::from_millis(1), asking).await;
            assert!(given_up.is_err());
        }
        assert_eq!(aside(|| 7).await, Some(7));
        assert!(asked.load(Ordering::Relaxed) <= PLACES, "{asked:?}");
        drop(alive);
        let found = system.resolve("api.example.com").await;
        assert_eq!(found, Ok(vec![IpAddr::from([192, 0, 2, 1])]));
    }

    #[tokio::test]
    async fn this_machine_knows_itself() {
        let found = SystemResolver::new()
            .resolve("localhost")
            .await
            .expect("known");
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert!(!found.is_empty());
    }
}
