//! Connections that wait for a request, by where they lead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::outgoing::Outgoing;
use super::link::run;
use super::{Link, Origin};

/// All connections that a request may take.
#[derive(Default)]
pub(super) struct Shelves {
    kept: Mutex<Kept>,
    /// Told when a connection was put back, while anybody makes one.
    pub(super) freed: Notify,
    /// How many are being made.
    pub(super) making: AtomicUsize,
}

#[derive(Default)]
struct Kept {
    /// One for each origin: the API's own, and now and then where a redirect led.
    shelves: Vec<Shelf>,
    sweeping: Sweeping,
}

/// Whether somebody looks after connections that nobody uses.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Sweeping {
    #[default]
    No,
    Yes,
}

struct Shelf {
    origin: Arc<Origin>,
    /// The one used last is taken first, so that those that are too many grow old.
    idle: Vec<Idle>,
    shared: Option<Shared>,
}

struct Idle {
    sender: http1::SendRequest<Outgoing>,
    since: Instant,
}

struct Shared {
    sender: http2::SendRequest<Outgoing>,
    used: Instant,
}

impl Shelves {
    /// A connection that leads there and can be used at once.
    pub(super) fn take(&self, origin: &Origin, now: Instant) -> Option<Link> {
        let mut kept = self.lock();
        let shelf = kept.find(origin)?;
        if let Some(link) = shelf.shared(now) {
            return Some(link);
        }
        while let Some(idle) = shelf.idle.pop() {
            if idle.sender.is_ready() && is_fresh(idle.since, now) {
                return Some(Link::Single(idle.sender));
            }
        }
        None
    }

    /// Puts a connection back that was used, as soon as it can be used again.
    pub(super) fn give_back(self: &Arc<Self>, origin: &Arc<Origin>, link: Link) {
        // One that many use was never taken away.
        let Link::Single(mut sender) = link else {
            return;
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
    pub(super) fn welcome(self: &Arc<Self>, origin: &Arc<Origin>, link: Link) -> Link {
        let Link::Shared(sender) = link else {
            return link;
        };
        let now = Instant::now();
        let mut kept = self.lock();
        let shelf = kept.shelf(origin);
        if let Some(known) = shelf.shared(now) {
            return known;
        }
        shelf.shared = Some(Shared {
            sender: sender.clone(),
            used: now,
        });
        self.look_after(&mut kept);
        drop(kept);
        self.tell_freed();
        Link::Shared(sender)
    }

    fn keep(self: &Arc<Self>, origin: &Arc<Origin>, sender: http1::SendRequest<Outgoing>) {
        let mut kept = self.lock();
        let shelf = kept.shelf(origin);
        if shelf.idle.len() >= MOST_IDLE {
            return;
        }
        shelf.idle.push(Idle {
            sender,
            since: Instant::now(),
        });
        self.look_after(&mut kept);
        drop(kept);
        self.tell_freed();
    }

    fn tell_freed(&self) {
        if self.making.load(Ordering::Acquire) > 0 {
            self.freed.notify_waiters();
        }
    }

    fn look_after(self: &Arc<Self>, kept: &mut Kept) {
        if kept.sweeping == Sweeping::No {
            kept.sweeping = Sweeping::Yes;
            run(sweep(Arc::downgrade(self)));
        }
    }

    /// Lets go of connections that nobody used for too long; says whether any are left.
    fn sweep(&self, now: Instant) -> Sweeping {
        let mut kept = self.lock();
        for shelf in &mut kept.shelves {
            shelf
                .idle
                .retain(|idle| is_fresh(idle.since, now) && !idle.sender.is_closed());
            shelf.shared.take_if(|shared| !is_fresh(shared.used, now));
        }
        let in_use = |shelf: &Shelf| !shelf.idle.is_empty() || shelf.shared.is_some();
        kept.shelves.retain(in_use);
        if kept.shelves.is_empty() {
            kept.sweeping = Sweeping::No;
        }
        kept.sweeping
    }

    /// Nothing under the lock leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn find(&mut self, origin: &Origin) -> Option<&mut Shelf> {
        self.shelves
            .iter_mut()
            .find(|shelf| shelf.origin.is(origin))
    }

    fn shelf(&mut self, origin: &Arc<Origin>) -> &mut Shelf {
        let known = self
            .shelves
            .iter()
            .position(|shelf| shelf.origin.is(origin));
        let place = known.unwrap_or(self.shelves.len());
        if known.is_none() {
            self.shelves.push(Shelf {
                origin: Arc::clone(origin),
                idle: Vec::new(),
                shared: None,
            });
        }
        #[expect(clippy::indexing_slicing, reason = "found, or made a moment ago")]
        &mut self.shelves[place]
    }
}

impl Shelf {
    /// The connection that many use, if there is one.
    fn shared(&mut self, now: Instant) -> Option<Link> {
        let usable = |shared: &mut Shared| shared.sender.is_ready() && is_fresh(shared.used, now);
        self.shared.take_if(|shared| !usable(shared));
        let shared = self.shared.as_mut()?;
        shared.used = now;
        Some(Link::Shared(shared.sender.clone()))
    }
}

/// Looks after connections for as long as there are any.
async fn sweep(shelves: Weak<Shelves>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let left = shelves.upgrade().map(|known| known.sweep(Instant::now()));
        if left != Some(Sweeping::Yes) {
            return;
        }
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < IDLE
}

/// Below the shortest that servers keep a silent connection for, so that we hang up first.
const IDLE: Duration = Duration::from_secs(15);

/// More than run at once by default; above it connections are not worth keeping.
const MOST_IDLE: usize = 32;
