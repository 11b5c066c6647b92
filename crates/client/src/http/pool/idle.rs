//! Idle connections by origin.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use outflow_sync::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::request_body::OutgoingBody;
use super::connection::run;
use super::{ConnectionMarks, PoolOrigin, PooledConnection};

/// Connections that a request may take.
pub(super) struct IdlePool {
    state: Mutex<IdleState>,
    /// Maximum per origin. More connections than concurrent calls are useless; fewer would close
    /// connections that the next burst needs.
    max_idle: usize,
    /// Notified when a connection comes back, while a caller opens one.
    pub(super) freed: Notify,
    /// Number of pending connects.
    pub(super) connecting: AtomicUsize,
}

#[derive(Default)]
struct IdleState {
    /// One per origin: the API's own, and sometimes a redirect's.
    origins: Vec<OriginPool>,
    has_sweeper: bool,
}

struct OriginPool {
    origin: Arc<PoolOrigin>,
    /// Last in, first out, so that surplus connections age.
    idle: Vec<IdleConnection>,
    shared: Option<SharedConnection>,
}

struct IdleConnection {
    sender: http1::SendRequest<OutgoingBody>,
    since: Instant,
}

struct SharedConnection {
    sender: http2::SendRequest<OutgoingBody>,
    marks: ConnectionMarks,
    used: Instant,
    /// Start of the current run of requests without a response.
    unanswered: Option<Instant>,
}

impl IdlePool {
    /// Returns an empty pool with a maximum per origin.
    pub(super) fn new(max_idle: usize) -> Self {
        Self {
            state: Mutex::default(),
            max_idle,
            freed: Notify::new(),
            connecting: AtomicUsize::new(0),
        }
    }

    /// Takes a usable connection to an origin.
    pub(super) fn take(&self, origin: &PoolOrigin, now: Instant) -> Option<PooledConnection> {
        let mut state = self.state.lock();
        let pool = state.find(origin)?;
        if let Some(connection) = pool.shared(now) {
            return Some(connection);
        }
        while let Some(idle) = pool.idle.pop() {
            if idle.sender.is_ready() && is_fresh(idle.since, now) {
                return Some(PooledConnection::Single(idle.sender, None));
            }
        }
        None
    }

    /// Stores a used connection as soon as it is ready again.
    pub(super) fn put_back(self: &Arc<Self>, origin: &Arc<PoolOrigin>, connection: PooledConnection) {
        // A shared connection was never taken out, but the response proves that it lives.
        let PooledConnection::Single(mut sender, _) = connection else {
            return self.on_response(origin);
        };
        if sender.is_ready() {
            return self.store(origin, sender);
        }
        if sender.is_closed() {
            return;
        }
        // The body is not complete yet.
        let (idle_pool, origin) = (Arc::downgrade(self), Arc::clone(origin));
        run(async move {
            let ready = sender.ready().await.is_ok();
            if let Some(idle_pool) = idle_pool.upgrade().filter(|_| ready) {
                idle_pool.store(&origin, sender);
            }
        });
    }

    /// Registers a new connection. One shared connection per origin is enough.
    pub(super) fn register(
        self: &Arc<Self>,
        origin: &Arc<PoolOrigin>,
        connection: PooledConnection,
    ) -> PooledConnection {
        let PooledConnection::Shared(sender, marks) = connection else {
            return connection;
        };
        let now = Instant::now();
        let mut state = self.state.lock();
        let pool = state.origin_pool(origin);
        if let Some(existing) = pool.shared(now) {
            return existing;
        }
        pool.shared = Some(SharedConnection {
            sender: sender.clone(),
            marks: marks.clone(),
            used: now,
            unanswered: Some(now),
        });
        self.spawn_sweeper(state);
        self.notify_freed();
        PooledConnection::Shared(sender, marks)
    }

    /// Drops the shared connection of an origin if it gets no new requests.
    pub(super) fn drop_suspect(&self, origin: &PoolOrigin) {
        let mut state = self.state.lock();
        if let Some(pool) = state.find(origin) {
            pool.shared.take_if(|shared| shared.marks.is_suspect());
        }
    }

    /// Notes a response on the shared connection.
    fn on_response(&self, origin: &PoolOrigin) {
        let mut state = self.state.lock();
        if let Some(shared) = state.find(origin).and_then(|pool| pool.shared.as_mut()) {
            shared.unanswered = None;
        }
    }

    fn store(self: &Arc<Self>, origin: &Arc<PoolOrigin>, sender: http1::SendRequest<OutgoingBody>) {
        let mut state = self.state.lock();
        let pool = state.origin_pool(origin);
        if pool.idle.len() >= self.max_idle {
            return;
        }
        pool.idle.push(IdleConnection {
            sender,
            since: Instant::now(),
        });
        self.spawn_sweeper(state);
        self.notify_freed();
    }

    fn notify_freed(&self) {
        if self.connecting.load(Ordering::Acquire) > 0 {
            self.freed.notify_waiters();
        }
    }

    /// Starts the sweeper unless it runs. Releases the lock first: a runtime that shuts down drops
    /// the sweeper at once, and the drop takes the lock.
    fn spawn_sweeper(self: &Arc<Self>, mut state: MutexGuard<'_, IdleState>) {
        let had_sweeper = std::mem::replace(&mut state.has_sweeper, true);
        drop(state);
        if !had_sweeper {
            run(PoolSweeper(Arc::downgrade(self)).sweep());
        }
    }

    /// Closes connections that are idle for too long. Returns true if any are left.
    fn sweep(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        for origin_pool in &mut state.origins {
            origin_pool
                .idle
                .retain(|idle| is_fresh(idle.since, now) && !idle.sender.is_closed());
            origin_pool.shared.take_if(|shared| !is_fresh(shared.used, now));
        }
        let in_use = |pool: &OriginPool| !pool.idle.is_empty() || pool.shared.is_some();
        state.origins.retain(in_use);
        state.has_sweeper = !state.origins.is_empty();
        state.has_sweeper
    }
}

impl IdleState {
    fn find(&mut self, origin: &PoolOrigin) -> Option<&mut OriginPool> {
        self.origins
            .iter_mut()
            .find(|origin_pool| origin_pool.origin.is(origin))
    }

    fn origin_pool(&mut self, origin: &Arc<PoolOrigin>) -> &mut OriginPool {
        let existing = self
            .origins
            .iter()
            .position(|origin_pool| origin_pool.origin.is(origin));
        let index = existing.unwrap_or(self.origins.len());
        if existing.is_none() {
            self.origins.push(OriginPool {
                origin: Arc::clone(origin),
                idle: Vec::new(),
                shared: None,
            });
        }
        #[expect(clippy::indexing_slicing, reason = "found or pushed above")]
        &mut self.origins[index]
    }
}

impl OriginPool {
    /// Returns the shared connection, if it is usable.
    fn shared(&mut self, now: Instant) -> Option<PooledConnection> {
        self.shared.take_if(|shared| !shared.is_usable(now));
        let shared = self.shared.as_mut()?;
        shared.used = now;
        shared.unanswered.get_or_insert(now);
        shared.marks.on_taken();
        Some(PooledConnection::Shared(shared.sender.clone(), shared.marks.clone()))
    }
}

impl SharedConnection {
    /// Returns true if one more request may use it. A dead path closes no connection, and a
    /// timed-out caller leaves it open for others. So a connection without any response is not
    /// trusted.
    fn is_usable(&self, now: Instant) -> bool {
        let silent = |since| now.saturating_duration_since(since) >= MAX_SILENCE;
        let responds = !self.unanswered.is_some_and(silent);
        let trusted = responds && !self.marks.is_suspect();
        trusted && self.sender.is_ready() && is_fresh(self.used, now)
    }
}

/// Closes idle connections while there are any. If its runtime ends first, the next stored
/// connection starts another sweeper.
struct PoolSweeper(Weak<IdlePool>);

impl PoolSweeper {
    async fn sweep(mut self) {
        loop {
            tokio::time::sleep(MAX_IDLE).await;
            let has_idle = self.0.upgrade().map(|pool| pool.sweep(Instant::now()));
            if has_idle != Some(true) {
                self.0 = Weak::new();
                return;
            }
        }
    }
}

impl Drop for PoolSweeper {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.state.lock().has_sweeper = false;
        }
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < MAX_IDLE
}

/// Below the shortest keep-alive timeout of servers, so that the client closes first.
const MAX_IDLE: Duration = Duration::from_secs(15);

/// If responses take longer, an extra connection now and then costs little in comparison.
const MAX_SILENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, DuplexStream};

    use super::*;

    fn origin() -> Arc<PoolOrigin> {
        let index = http::Uri::from_static("https://a.example/");
        Arc::new(PoolOrigin::from_uri(&index).expect("an origin"))
    }

    /// Returns a shared connection and its other end, which stays silent.
    async fn shared() -> (PooledConnection, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(1_024);
        let connection = PooledConnection::shared(hyper_util::rt::TokioIo::new(ours)).await;
        (connection.expect("a handshake"), theirs)
    }

    // A dead path closes no connection. First used at 0 s without a response, it is handed out
    // until 5 s; after a response, until 5 s after the next request.
    #[tokio::test(start_paused = true)]
    async fn a_shared_connection_without_responses_gets_no_new_requests() {
        let (idle_pool, origin) = (Arc::new(IdlePool::new(1)), origin());
        let (connection, _theirs) = shared().await;
        let (connection, begun) = (idle_pool.register(&origin, connection), Instant::now());
        let take = |secs| idle_pool.take(&origin, begun + Duration::from_secs(secs));
        assert!(take(4).is_some());
        idle_pool.put_back(&origin, connection);
        assert!(take(6).is_some() && take(10).is_some(), "one response came");
        assert!(take(11).is_none(), "no response for five seconds");
        assert!(take(12).is_none(), "and it does not come back");
    }

    // Two requests hold it; the pool alone would hold it for fifteen seconds more.
    #[tokio::test(start_paused = true)]
    async fn a_distrusted_connection_closes_with_its_last_request() {
        let (idle_pool, origin) = (Arc::new(IdlePool::new(1)), origin());
        let (connection, mut theirs) = shared().await;
        let one = idle_pool.register(&origin, connection);
        let other = idle_pool.take(&origin, Instant::now()).expect("shared");
        one.distrust();
        idle_pool.drop_suspect(&origin);
        drop(one);
        let mut sent = Vec::new();
        let second = Duration::from_secs(1);
        let open = tokio::time::timeout(second, theirs.read_to_end(&mut sent)).await;
        assert!(open.is_err(), "a request holds it");
        drop(other);
        let closed = tokio::time::timeout(second, theirs.read_to_end(&mut sent)).await;
        assert!(closed.is_ok());
    }

    /// Stores a connection on drop, as a task does when its runtime ends.
    struct StoreOnDrop(Arc<IdlePool>, Option<http1::SendRequest<OutgoingBody>>);

    impl Drop for StoreOnDrop {
        fn drop(&mut self) {
            if let Some(sender) = self.1.take() {
                self.0.store(&origin(), sender);
            }
        }
    }

    // A runtime that shuts down drops new tasks at once: also a sweeper, while a connection is
    // being state.
    #[test]
    fn a_runtime_can_end_while_a_connection_comes_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let idle_pool = Arc::new(IdlePool::new(1));
        let existing = Arc::clone(&idle_pool);
        runtime.block_on(async move {
            let (ours, _theirs) = tokio::io::duplex(1_024);
            let connection = PooledConnection::single(hyper_util::rt::TokioIo::new(ours)).await;
            let Ok(PooledConnection::Single(sender, _)) = connection else {
                unreachable!("a connection of one")
            };
            let late = StoreOnDrop(existing, Some(sender));
            run(async move {
                let _late = late;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
        });
        drop(runtime);
        assert!(!idle_pool.state.lock().has_sweeper, "another may start");
    }
}
