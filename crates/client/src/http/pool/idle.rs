//! Connections that wait for a request, by where they lead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::request_body::OutgoingBody;
use super::connection::run;
use super::{PoolOrigin, PooledConnection, SuspectFlag};

/// All connections that a request may take.
pub(super) struct IdlePool {
    kept: Mutex<KeptConnection>,
    /// The most that are kept for one place. Above what runs at once they are not worth keeping, and
    /// below it every burst would hang up on connections that the next one needs.
    most_idle: usize,
    /// Told when a connection was put back, while anybody makes one.
    pub(super) freed: Notify,
    /// How many are being made.
    pub(super) making: AtomicUsize,
}

#[derive(Default)]
struct KeptConnection {
    /// One for each origin: the API's own, and now and then where a redirect led.
    shelves: Vec<OriginPool>,
    sweeping: SweeperState,
}

/// Whether somebody looks after connections that nobody uses.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum SweeperState {
    #[default]
    No,
    Yes,
}

struct OriginPool {
    origin: Arc<PoolOrigin>,
    /// The one used last is taken first, so that those that are too many grow old.
    idle: Vec<IdleConnection>,
    shared: Option<PoolShared>,
}

struct IdleConnection {
    sender: http1::SendRequest<OutgoingBody>,
    since: Instant,
}

struct PoolShared {
    sender: http2::SendRequest<OutgoingBody>,
    doubt: SuspectFlag,
    used: Instant,
    /// Since when requests were handed to it without an answer to any.
    unanswered: Option<Instant>,
}

impl IdlePool {
    /// Empty ones, for so many connections to a place.
    pub(super) fn new(most_idle: usize) -> Self {
        Self {
            kept: Mutex::default(),
            most_idle,
            freed: Notify::new(),
            making: AtomicUsize::new(0),
        }
    }

    /// A connection that leads there and can be used at once.
    pub(super) fn take(&self, origin: &PoolOrigin, now: Instant) -> Option<PooledConnection> {
        let mut kept = self.lock();
        let here = kept.find(origin)?;
        if let Some(link) = here.shared(now) {
            return Some(link);
        }
        while let Some(idle) = here.idle.pop() {
            if idle.sender.is_ready() && is_fresh(idle.since, now) {
                return Some(PooledConnection::Single(idle.sender));
            }
        }
        None
    }

    /// Puts a connection back that was used, as soon as it can be used again.
    pub(super) fn give_back(self: &Arc<Self>, origin: &Arc<PoolOrigin>, link: PooledConnection) {
        // One that many use was never taken away, but now it is known to live.
        let PooledConnection::Single(mut sender) = link else {
            return self.on_response(origin);
        };
        if sender.is_ready() {
            return self.keep(origin, sender);
        }
        if sender.is_closed() {
            return;
        }
        // A body is still to come.
        let (shelves, origin) = (Arc::downgrade(self), Arc::clone(origin));
        run(async move {
            let ready = sender.ready().await.is_ok();
            if let Some(shelves) = shelves.upgrade().filter(|_| ready) {
                shelves.keep(&origin, sender);
            }
        });
    }

    /// Takes in a connection that was just made. Where many can use one, one is enough.
    pub(super) fn welcome(
        self: &Arc<Self>,
        origin: &Arc<PoolOrigin>,
        link: PooledConnection,
    ) -> PooledConnection {
        let PooledConnection::Shared(sender, doubt) = link else {
            return link;
        };
        let now = Instant::now();
        let mut kept = self.lock();
        let here = kept.shelf(origin);
        if let Some(known) = here.shared(now) {
            return known;
        }
        here.shared = Some(PoolShared {
            sender: sender.clone(),
            doubt: doubt.clone(),
            used: now,
            unanswered: Some(now),
        });
        self.spawn_sweeper(kept);
        self.notify_freed();
        PooledConnection::Shared(sender, doubt)
    }

    /// Somebody was answered over the connection that many use.
    fn on_response(&self, origin: &PoolOrigin) {
        let mut kept = self.lock();
        if let Some(shared) = kept.find(origin).and_then(|here| here.shared.as_mut()) {
            shared.unanswered = None;
        }
    }

    fn keep(self: &Arc<Self>, origin: &Arc<PoolOrigin>, sender: http1::SendRequest<OutgoingBody>) {
        let mut kept = self.lock();
        let here = kept.shelf(origin);
        if here.idle.len() >= self.most_idle {
            return;
        }
        here.idle.push(IdleConnection {
            sender,
            since: Instant::now(),
        });
        self.spawn_sweeper(kept);
        self.notify_freed();
    }

    fn notify_freed(&self) {
        if self.making.load(Ordering::Acquire) > 0 {
            self.freed.notify_waiters();
        }
    }

    /// Has somebody look after what is kept. The lock is free by then: a runtime that is ending drops
    /// the sweeper at once, and that takes the lock.
    fn spawn_sweeper(self: &Arc<Self>, mut kept: MutexGuard<'_, KeptConnection>) {
        let before = std::mem::replace(&mut kept.sweeping, SweeperState::Yes);
        drop(kept);
        if before == SweeperState::No {
            run(PoolSweeper(Arc::downgrade(self)).sweep());
        }
    }

    /// Lets go of connections that nobody used for too long; says whether any are left.
    fn sweep(&self, now: Instant) -> SweeperState {
        let mut kept = self.lock();
        for shelf in &mut kept.shelves {
            shelf
                .idle
                .retain(|idle| is_fresh(idle.since, now) && !idle.sender.is_closed());
            shelf.shared.take_if(|shared| !is_fresh(shared.used, now));
        }
        let in_use = |shelf: &OriginPool| !shelf.idle.is_empty() || shelf.shared.is_some();
        kept.shelves.retain(in_use);
        if kept.shelves.is_empty() {
            kept.sweeping = SweeperState::No;
        }
        kept.sweeping
    }

    /// Nothing under the lock leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, KeptConnection> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptConnection {
    fn find(&mut self, origin: &PoolOrigin) -> Option<&mut OriginPool> {
        self.shelves
            .iter_mut()
            .find(|shelf| shelf.origin.is(origin))
    }

    fn shelf(&mut self, origin: &Arc<PoolOrigin>) -> &mut OriginPool {
        let known = self
            .shelves
            .iter()
            .position(|shelf| shelf.origin.is(origin));
        let place = known.unwrap_or(self.shelves.len());
        if known.is_none() {
            self.shelves.push(OriginPool {
                origin: Arc::clone(origin),
                idle: Vec::new(),
                shared: None,
            });
        }
        #[expect(clippy::indexing_slicing, reason = "found, or made a moment ago")]
        &mut self.shelves[place]
    }
}

impl OriginPool {
    /// The connection that many use, if there is one.
    fn shared(&mut self, now: Instant) -> Option<PooledConnection> {
        self.shared.take_if(|shared| !shared.is_usable(now));
        let shared = self.shared.as_mut()?;
        shared.used = now;
        shared.unanswered.get_or_insert(now);
        Some(PooledConnection::Shared(
            shared.sender.clone(),
            shared.doubt.clone(),
        ))
    }
}

impl PoolShared {
    /// Whether one more may go over it. A way that swallows everything closes no connection, and whoever
    /// gives up leaves this one open for the others: without an answer to anybody it is not trusted.
    fn is_usable(&self, now: Instant) -> bool {
        let silent = |since| now.saturating_duration_since(since) >= SILENT;
        let heard = !self.unanswered.is_some_and(silent);
        let trusted = heard && !self.doubt.is_cast();
        trusted && self.sender.is_ready() && is_fresh(self.used, now)
    }
}

/// Looks after connections for as long as there are any. It may end before that with the runtime it
/// was started in, and then another one has to.
struct PoolSweeper(Weak<IdlePool>);

impl PoolSweeper {
    async fn sweep(mut self) {
        loop {
            tokio::time::sleep(IDLE).await;
            let left = self.0.upgrade().map(|known| known.sweep(Instant::now()));
            if left != Some(SweeperState::Yes) {
                self.0 = Weak::new();
                return;
            }
        }
    }
}

impl Drop for PoolSweeper {
    fn drop(&mut self) {
        if let Some(shelves) = self.0.upgrade() {
            shelves.lock().sweeping = SweeperState::No;
        }
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < IDLE
}

/// Below the shortest that servers keep a silent connection for, so that we hang up first.
const IDLE: Duration = Duration::from_secs(15);

/// Where answers take longer than that, another connection now and then costs little beside them.
const SILENT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;

    use super::*;

    fn origin() -> Arc<PoolOrigin> {
        let place = http::Uri::from_static("https://a.example/");
        Arc::new(PoolOrigin::from_uri(&place).expect("an origin"))
    }

    /// A connection of many, and its other end, which says nothing.
    async fn shared() -> (PooledConnection, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(1_024);
        let link = PooledConnection::shared(hyper_util::rt::TokioIo::new(ours)).await;
        (link.expect("a handshake"), theirs)
    }

    // Nobody closes what a dead way swallows. Asked at 0 s and without an answer it is given away until
    // 5 s; once somebody was answered, until 5 s after the next request.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_answers_nobody_is_not_given_to_others() {
        let (shelves, origin) = (Arc::new(IdlePool::new(1)), origin());
        let (link, _theirs) = shared().await;
        let (link, begun) = (shelves.welcome(&origin, link), Instant::now());
        let take = |secs| shelves.take(&origin, begun + Duration::from_secs(secs));
        assert!(take(4).is_some());
        shelves.give_back(&origin, link);
        assert!(take(6).is_some() && take(10).is_some(), "one was answered");
        assert!(take(11).is_none(), "nobody for five seconds");
        assert!(take(12).is_none(), "and it does not come back");
    }

    /// Puts a connection back when it is dropped, as a task does that ends with its runtime.
    struct Late(Arc<IdlePool>, Option<http1::SendRequest<OutgoingBody>>);

    impl Drop for Late {
        fn drop(&mut self) {
            if let Some(sender) = self.1.take() {
                self.0.keep(&origin(), sender);
            }
        }
    }

    // Whatever is started in a runtime that ends is dropped on the spot: a sweeper too, in the middle of
    // putting a connection back.
    #[test]
    fn a_runtime_can_end_while_a_connection_comes_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let shelves = Arc::new(IdlePool::new(1));
        let known = Arc::clone(&shelves);
        runtime.block_on(async move {
            let (ours, _theirs) = tokio::io::duplex(1_024);
            let link = PooledConnection::single(hyper_util::rt::TokioIo::new(ours)).await;
            let Ok(PooledConnection::Single(sender)) = link else {
                unreachable!("a connection of one")
            };
            let late = Late(known, Some(sender));
            run(async move {
                let _late = late;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
        });
        drop(runtime);
        assert!(shelves.lock().sweeping == SweeperState::No, "another may");
    }
}
