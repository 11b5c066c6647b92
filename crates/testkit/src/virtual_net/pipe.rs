//! One direction of one connection: bytes in flight.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use outflow_sync::{Mutex, MutexGuard};
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::NetShared;
use crate::link_latency::Direction;

/// Bytes between a writer and a reader. Notices are delayed too: a writer notices a closed reader
/// one delay later.
pub(super) struct Pipe {
    net: Arc<NetShared>,
    pub(super) direction: Direction,
    flow: Mutex<Flow>,
}

/// Result of a read.
pub(super) enum ReadResult {
    /// Bytes, or the end if there are none.
    Bytes,
    /// Nothing yet; read again at this instant, or when woken.
    Nothing(Option<Instant>),
}

struct Flow {
    /// In the order of writing, which is the order of reading: a parcel that would arrive too early
    /// waits behind earlier ones.
    parcels: VecDeque<Parcel>,
    /// Bytes written and not read.
    unread: usize,
    /// Time at which the path has sent all written bytes.
    idle: Instant,
    /// Bytes in flight are held.
    stalled: bool,
    /// Time at which the reader sees the end.
    end: Option<Instant>,
    /// Time at which the writer notices the closed reader.
    reader_gone: Option<Instant>,
    /// Time at which both see the broken connection.
    broken: Option<Instant>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

struct Parcel {
    due: Instant,
    bytes: Vec<u8>,
    /// Number of bytes read.
    read: usize,
}

impl Pipe {
    pub(super) fn new(net: &Arc<NetShared>, direction: Direction) -> Self {
        let stalled = net.conditions.borrow().stalls(direction);
        Self {
            net: Arc::clone(net),
            direction,
            flow: Mutex::new(Flow::new(stalled)),
        }
    }

    /// Takes bytes up to the free part of the window.
    pub(super) fn write(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        let (delay, path) = {
            let world = &mut *self.net.world();
            let path = *world.link.path(self.direction);
            (path.delay(&mut world.chance), path)
        };
        let mut flow = self.flow();
        flow.writable(now)?;
        let room = WINDOW.saturating_sub(flow.unread).min(path.piece(bytes.len()));
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

    /// Returns bytes that have arrived.
    pub(super) fn read(&self, context: &Context<'_>, into: &mut ReadBuf<'_>) -> io::Result<ReadResult> {
        let now = Instant::now();
        let mut flow = self.flow();
        if flow.broken.is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if !flow.stalled {
            let before = into.filled().len();
            flow.take(now, into);
            let ended = flow.parcels.is_empty() && flow.end.is_some_and(|at| at <= now);
            if into.filled().len() > before || into.remaining() == 0 || ended {
                wake(&mut flow.writer);
                return Ok(ReadResult::Bytes);
            }
        }
        flow.reader = Some(context.waker().clone());
        Ok(ReadResult::Nothing(flow.next()))
    }

    /// Ends the writer's side.
    pub(super) fn finish(&self) {
        let due = self.arrival();
        let mut flow = self.flow();
        if flow.end.is_none() && flow.broken.is_none() {
            flow.end = Some(due);
            wake(&mut flow.reader);
        }
    }

    /// Closes the reader's side, which the writer notices at that instant.
    pub(super) fn close_reader(&self, at: Instant) {
        let mut flow = self.flow();
        flow.reader_gone = Some(at);
        flow.parcels.clear();
        flow.unread = 0;
        wake(&mut flow.writer);
    }

    /// Breaks the connection for both ends at that instant.
    pub(super) fn break_at(&self, at: Instant) {
        let mut flow = self.flow();
        let sooner = flow.broken.map_or(at, |broken| broken.min(at));
        flow.broken = Some(sooner);
        wake(&mut flow.reader);
        wake(&mut flow.writer);
    }

    /// Stalls all bytes in flight, or releases them: then they arrive no sooner than `due`.
    pub(super) fn stall(&self, stalled: bool, due: Instant) {
        let mut flow = self.flow();
        if flow.stalled && !stalled {
            flow.delay_until(due);
        }
        flow.stalled = stalled;
        wake(&mut flow.reader);
    }

    /// Returns the arrival time of something sent now.
    pub(super) fn arrival(&self) -> Instant {
        Instant::now() + self.net.delay(self.direction)
    }

    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock()
    }
}

impl Flow {
    fn new(stalled: bool) -> Self {
        let now = Instant::now();
        Self {
            parcels: VecDeque::new(),
            unread: 0,
            idle: now,
            stalled,
            end: None,
            reader_gone: None,
            broken: None,
            reader: None,
            writer: None,
        }
    }

    fn writable(&self, now: Instant) -> io::Result<()> {
        if self.broken.is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.end.is_some() || self.reader_gone.is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    /// Bytes without a reader are dropped when written.
    fn push(&mut self, due: Instant, bytes: Vec<u8>) {
        if self.reader_gone.is_some() || bytes.is_empty() {
            return;
        }
        self.unread += bytes.len();
        self.parcels.push_back(Parcel { due, bytes, read: 0 });
    }

    /// Takes from one piece at a time, as written.
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

    /// Returns the time of the next visible change.
    fn next(&self) -> Option<Instant> {
        let arrival = self.parcels.front().map(|parcel| parcel.due);
        let arrival = arrival.or(self.end).filter(|_| !self.stalled);
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

/// More than HTTP/2's first window for a connection, so that it does not limit a transfer, and
/// small enough to stall an endless body.
const WINDOW: usize = 256 * 1024;
