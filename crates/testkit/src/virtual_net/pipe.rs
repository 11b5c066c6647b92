//! One direction of one connection: bytes that are under way.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::Shared;
use crate::link_latency::Direction;
use crate::net_conditions::Stall;

/// Bytes between a writer and a reader. News travels with the delay too: a writer learns that its
/// reader is gone no sooner than it could.
pub(super) struct Pipe {
    net: Arc<Shared>,
    direction: Direction,
    flow: Mutex<Flow>,
}

/// What a reader found.
pub(super) enum Found {
    /// Bytes, or the end if there are none.
    Bytes,
    /// Nothing yet; look again at this instant, or when woken.
    Nothing(Option<Instant>),
}

struct Flow {
    /// In the order in which they were written, and so they are read: one that would arrive too
    /// early waits behind those before it.
    parcels: VecDeque<Parcel>,
    /// Bytes that were written and not read.
    unread: usize,
    /// When the line has sent all that was written.
    idle: Instant,
    stall: Stall,
    /// When the reader sees the end.
    end: Option<Instant>,
    /// When the writer learns that nobody reads.
    deaf: Option<Instant>,
    /// When both see that the connection is broken.
    broken: Option<Instant>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

struct Parcel {
    due: Instant,
    bytes: Vec<u8>,
    /// How many of them were read.
    read: usize,
}

impl Pipe {
    pub(super) fn new(net: &Arc<Shared>, direction: Direction) -> Self {
        let stall = net.weather.borrow().stalls(direction);
        Self {
            net: Arc::clone(net),
            direction,
            flow: Mutex::new(Flow::new(stall)),
        }
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// Takes as much as the window has room for.
    pub(super) fn write(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        let (delay, path) = {
            let world = &mut *self.net.world();
            let path = *world.link.path(self.direction);
            (path.delay(&mut world.chance), path)
        };
        let mut flow = self.flow();
        flow.writable(now)?;
        let room = WINDOW
            .saturating_sub(flow.unread)
            .min(path.piece(bytes.len()));
        if room == 0 && !bytes.is_empty() {
            flow.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let taken = bytes.get(..room).unwrap_or_default().to_vec();
        flow.idle = flow.idle.max(now) + path.occupied(room);
        let due = flow.idle + delay;
        flow.push(due, taken);
        wake(&mut flow.reader);
        drop(flow);
        self.net.world().traffic.count(self.direction, room);
        Poll::Ready(Ok(room))
    }

    /// Gives what has arrived.
    pub(super) fn read(&self, context: &Context<'_>, into: &mut ReadBuf<'_>) -> io::Result<Found> {
        let now = Instant::now();
        let mut flow = self.flow();
        if flow.broken.is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if flow.stall == Stall::Flowing {
            let before = into.filled().len();
            flow.take(now, into);
            let ended = flow.parcels.is_empty() && flow.end.is_some_and(|at| at <= now);
            if into.filled().len() > before || into.remaining() == 0 || ended {
                wake(&mut flow.writer);
                return Ok(Found::Bytes);
            }
        }
        flow.reader = Some(context.waker().clone());
        Ok(Found::Nothing(flow.next()))
    }

    /// The writer has nothing more to say.
    pub(super) fn finish(&self) {
        let due = self.arrival();
        let mut flow = self.flow();
        if flow.end.is_none() && flow.broken.is_none() {
            flow.end = Some(due);
            wake(&mut flow.reader);
        }
    }

    /// The reader is gone, which the writer learns at that instant.
    pub(super) fn close_ear(&self, at: Instant) {
        let mut flow = self.flow();
        flow.deaf = Some(at);
        flow.parcels.clear();
        flow.unread = 0;
        wake(&mut flow.writer);
    }

    /// Both ends see a broken connection from that instant on.
    pub(super) fn break_at(&self, at: Instant) {
        let mut flow = self.flow();
        let sooner = flow.broken.map_or(at, |broken| broken.min(at));
        flow.broken = Some(sooner);
        wake(&mut flow.reader);
        wake(&mut flow.writer);
    }

    /// Holds all that is under way up, or lets it go on: then it arrives no sooner than `due`.
    pub(super) fn stall(&self, stall: Stall, due: Instant) {
        let mut flow = self.flow();
        if flow.stall == Stall::Held && stall == Stall::Flowing {
            flow.delay_until(due);
        }
        flow.stall = stall;
        wake(&mut flow.reader);
    }

    /// When something sent now arrives.
    pub(super) fn arrival(&self) -> Instant {
        Instant::now() + self.net.delay(self.direction)
    }

    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flow {
    fn new(stall: Stall) -> Self {
        let now = Instant::now();
        Self {
            parcels: VecDeque::new(),
            unread: 0,
            idle: now,
            stall,
            end: None,
            deaf: None,
            broken: None,
            reader: None,
            writer: None,
        }
    }

    fn writable(&self, now: Instant) -> io::Result<()> {
        if self.broken.is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.end.is_some() || self.deaf.is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    /// What nobody will read is gone as soon as it is written.
    fn push(&mut self, due: Instant, bytes: Vec<u8>) {
        if self.deaf.is_some() || bytes.is_empty() {
            return;
        }
        self.unread += bytes.len();
        self.parcels.push_back(Parcel {
            due,
            bytes,
            read: 0,
        });
    }

    /// From one piece at a time, as it was written.
    fn take(&mut self, now: Instant, into: &mut ReadBuf<'_>) {
        let Some(parcel) = self.parcels.front_mut().filter(|parcel| parcel.due <= now) else {
            return;
        };
        let rest = parcel.bytes.get(parcel.read..).unwrap_or_default();
        let (taken, left) = rest.split_at(rest.len().min(into.remaining()));
        into.put_slice(taken);
        self.unread -= taken.len();
        parcel.read += taken.len();
        if left.is_empty() {
            self.parcels.pop_front();
        }
    }

    /// When there may be something to see.
    fn next(&self) -> Option<Instant> {
        let arrival = self.parcels.front().map(|parcel| parcel.due);
        let arrival = arrival
            .or(self.end)
            .filter(|_| self.stall == Stall::Flowing);
        arrival.into_iter().chain(self.broken).min()
    }

    fn delay_until(&mut self, due: Instant) {
        for parcel in &mut self.parcels {
            parcel.due = parcel.due.max(due);
        }
        self.end = self.end.map(|at| at.max(due));
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// More than HTTP/2's first window for a connection, so that it is not what limits a transfer, and
/// little enough that an endless body is held up.
const WINDOW: usize = 256 * 1024;
