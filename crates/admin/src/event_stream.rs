//! The live stream: every event, to everybody who listens, as server-sent events.
//!
//! One stream carries all kinds, so that a page needs one connection. A request never waits for a
//! reader: events go into one bounded buffer, and a reader that is too slow loses the oldest and is
//! told how many. Nobody listening costs one load. Streams end when the program stops, at once.

mod body;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use outflow::{CancelToken, Event, Observer, SystemClock};
use outflow_core::Clock;
use serde_json::Value;
use smol_str::SmolStr;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{Interval, MissedTickBehavior, interval};

pub(crate) use body::EventBody;

use super::millis::stamp;
use super::snapshot::ProgramSnapshot;
use super::{Admin, event_json};

/// Where events become lines, and lines find their readers.
#[derive(Debug)]
pub(crate) struct EventStream {
    lines: broadcast::Sender<Arc<EventLine>>,
    /// The number of the last line. Held while a line is sent, so that numbers come in their order.
    number: Mutex<u64>,
    clock: SystemClock,
}

#[derive(Debug)]
struct EventLine {
    api: SmolStr,
    text: Bytes,
}

impl EventStream {
    /// Nobody listens yet.
    pub(crate) fn new(clock: SystemClock) -> Self {
        Self {
            lines: broadcast::channel(KEPT).0,
            number: Mutex::default(),
            clock,
        }
    }

    /// A new reader, unless there are too many.
    pub(crate) fn listen(&self, wish: StreamRequest, stop: CancelToken) -> Option<ListenerState> {
        if self.lines.receiver_count() >= MOST_READERS {
            return None;
        }
        let mut pulse = interval(PULSE);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(ListenerState {
            lines: self.lines.subscribe(),
            wish,
            pulse,
            stop,
        })
    }
}

impl Observer for EventStream {
    fn observe(&self, event: &Event) {
        if self.lines.receiver_count() == 0 {
            return;
        }
        let (name, facts) = event_json::to_json(event);
        self.send(event.api.clone(), name, facts);
    }
}

impl EventStream {
    /// Tells something that is no event of a call.
    pub(crate) fn publish(&self, api: SmolStr, name: &'static str, facts: impl FnOnce() -> Value) {
        if self.lines.receiver_count() > 0 {
            self.send(api, name, facts());
        }
    }

    fn send(&self, api: SmolStr, name: &'static str, mut facts: Value) {
        if let Some(facts) = facts.as_object_mut() {
            facts.insert("at".to_owned(), stamp(self.clock.wall()).into());
            facts.insert("event".to_owned(), name.into());
        }
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let text = Bytes::from(format!("id: {number}\nevent: {name}\ndata: {facts}\n\n"));
        // The last reader may have left in between.
        let _unread = self.lines.send(Arc::new(EventLine { api, text }));
    }
}

/// What a reader wants.
#[derive(Debug)]
pub(crate) struct StreamRequest {
    /// The events of this API alone.
    pub(crate) api: Option<SmolStr>,
    /// A snapshot now and then.
    pub(crate) snapshots: Option<SnapshotStream>,
}

/// Snapshots in the stream, for a page that shows the whole.
pub(crate) struct SnapshotStream {
    admin: Arc<Admin>,
    ticks: Interval,
}

impl SnapshotStream {
    /// One now, and then one every so often.
    pub(crate) fn every(period: Duration, admin: Arc<Admin>) -> Self {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { admin, ticks }
    }

    async fn next(&mut self) -> Bytes {
        self.ticks.tick().await;
        let snapshot = serde_json::to_value(ProgramSnapshot::from_admin(&self.admin));
        line("snapshot", &snapshot.unwrap_or_default())
    }
}

impl std::fmt::Debug for SnapshotStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshots").finish_non_exhaustive()
    }
}

/// One who listens.
#[derive(Debug)]
pub(crate) struct ListenerState {
    lines: broadcast::Receiver<Arc<EventLine>>,
    wish: StreamRequest,
    pulse: Interval,
    stop: CancelToken,
}

impl ListenerState {
    /// What comes next; `None` at the end of the program.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let snapshot = async {
                match &mut self.wish.snapshots {
                    Some(snapshots) => snapshots.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                snapshot = snapshot => return Some(snapshot),
                line = self.lines.recv() => match line {
                    Ok(line) if self.wish.api.as_ref().is_none_or(|api| *api == line.api) => {
                        return Some(line.text.clone());
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => {
                        return Some(line_of_lag(missed));
                    }
                    Err(RecvError::Closed) => return None,
                },
                _ = self.pulse.tick() => return Some(Bytes::from_static(HEARTBEAT)),
            }
        }
    }
}

fn line_of_lag(missed: u64) -> Bytes {
    line(
        "lagged",
        &serde_json::json!({ "event": "lagged", "missed": missed }),
    )
}

fn line(name: &str, facts: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {facts}\n\n"))
}

/// A comment, which every reader skips. The first comes at once, so that a browser knows it is in.
const HEARTBEAT: &[u8] = b": here\n\n";

/// Often enough for proxies that close what is silent for half a minute.
const PULSE: Duration = Duration::from_secs(15);

/// Ten seconds of a hundred calls a second, and about a megabyte if nobody reads.
const KEPT: usize = 1_024;

/// Every operator with every window open; each costs a copy of the stream.
const MOST_READERS: usize = 64;
