//! Live stream of all events, as server-sent events.
//!
//! One stream carries all kinds of events, so that a page needs one connection. A call never waits for a reader:
//! events go into one bounded buffer. A slow reader loses the oldest events and gets their number. Without a
//! reader, an event costs one atomic load. All streams end at once when the program stops.

mod body;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outflow::{CancelToken, Event, Observer, SystemClock};
use outflow_core::Clock;
use outflow_sync::Mutex;
use serde_json::Value;
use smol_str::SmolStr;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{Interval, MissedTickBehavior, interval};

pub(crate) use body::EventBody;

use super::millis::stamp;
use super::snapshot::ProgramSnapshot;
use super::{Admin, event_json};

/// Source of the live stream: formats events and sends them to all readers.
#[derive(Debug)]
pub(crate) struct EventStream {
    lines: broadcast::Sender<Arc<EventLine>>,
    /// Number of the last line. Locked while a line is sent, so that numbers stay in order.
    number: Mutex<u64>,
    clock: SystemClock,
}

#[derive(Debug)]
struct EventLine {
    api: SmolStr,
    text: Bytes,
}

impl EventStream {
    /// Creates a stream without readers.
    pub(crate) fn new(clock: SystemClock) -> Self {
        Self {
            lines: broadcast::channel(BUFFERED_LINES).0,
            number: Mutex::default(),
            clock,
        }
    }

    /// Adds a reader, unless there are too many.
    pub(crate) fn subscribe(&self, request: StreamRequest, stop: CancelToken) -> Option<StreamReader> {
        if self.lines.receiver_count() >= MAX_READERS {
            return None;
        }
        let mut heartbeat = interval(HEARTBEAT_PERIOD);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(StreamReader {
            lines: self.lines.subscribe(),
            request,
            heartbeat,
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
    /// Sends an event that does not come from the client.
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
        let mut number = self.number.lock();
        *number += 1;
        let text = Bytes::from(format!("id: {number}\nevent: {name}\ndata: {facts}\n\n"));
        // The last reader may have left meanwhile.
        let _unread = self.lines.send(Arc::new(EventLine { api, text }));
    }
}

/// Options of a reader.
pub(crate) struct StreamRequest {
    /// API whose events are sent; `None` for all.
    pub(crate) api: Option<SmolStr>,
    /// Snapshots between the events, if any.
    pub(crate) snapshots: Option<SnapshotStream>,
}

/// Periodic snapshots in the stream, for a page that shows the whole program.
pub(crate) struct SnapshotStream {
    admin: Arc<Admin>,
    ticks: Interval,
}

impl SnapshotStream {
    /// Creates a stream with one snapshot now and one per period.
    pub(crate) fn every(period: Duration, admin: Arc<Admin>) -> Self {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { admin, ticks }
    }

    async fn next(&mut self) -> Bytes {
        self.ticks.tick().await;
        let snapshot = serde_json::to_value(ProgramSnapshot::from_admin(&self.admin));
        format_line("snapshot", &snapshot.unwrap_or_default())
    }
}

/// Reader of the live stream.
pub(crate) struct StreamReader {
    lines: broadcast::Receiver<Arc<EventLine>>,
    request: StreamRequest,
    heartbeat: Interval,
    stop: CancelToken,
}

impl StreamReader {
    /// Waits for the next line; returns `None` at the end of the program.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let snapshot = async {
                match &mut self.request.snapshots {
                    Some(snapshots) => snapshots.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                snapshot = snapshot => return Some(snapshot),
                line = self.lines.recv() => match line {
                    Ok(line) if self.request.api.as_ref().is_none_or(|api| *api == line.api) => {
                        return Some(line.text.clone());
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => {
                        let facts = serde_json::json!({ "event": "lagged", "missed": missed });
                        return Some(format_line("lagged", &facts));
                    }
                    Err(RecvError::Closed) => return None,
                },
                _ = self.heartbeat.tick() => return Some(Bytes::from_static(HEARTBEAT)),
            }
        }
    }
}

fn format_line(name: &str, facts: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {facts}\n\n"))
}

/// Comment, which every reader skips. The first is sent at once, so that a browser sees the connection.
const HEARTBEAT: &[u8] = b": here\n\n";

/// Often enough for proxies that close a connection after half a minute without bytes.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(15);

/// Ten seconds of a hundred calls per second, and about a megabyte.
const BUFFERED_LINES: usize = 1_024;

/// Enough for all operators with several windows; each costs a copy of the stream.
const MAX_READERS: usize = 64;
