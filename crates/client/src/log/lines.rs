//! Lines on their way to a file: a bounded queue that never makes its sender wait.
//!
//! The disk fills up, the directory is deleted, whoever reads the pipe stops reading: none of it is
//! the request's business. What does not fit into the queue is dropped and counted, and the count is
//! told in a line as soon as one can be written. The queue is bounded in bytes and in lines, so that
//! neither a few long nor many short ones take the memory.
//!
//! The writing side is a loop that whoever owns the threads runs: nothing is started here.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::metrics::{Reading, Source};

/// Where lines are handed in. Clones hand into the same queue.
///
/// ```
/// use outflow::log::Lines;
///
/// let (lines, mut pump) = Lines::new(std::io::sink());
/// lines.send("{\"ready\":true}\n".to_owned());
/// lines.close();
/// pump.run();
/// assert_eq!(lines.dropped(), 0);
/// ```
#[derive(Clone)]
pub struct Lines {
    shared: Arc<Shared>,
    sender: SyncSender<Message>,
}

#[derive(Default)]
struct Shared {
    dropped: AtomicU64,
    held: AtomicUsize,
    closed: AtomicBool,
}

enum Message {
    Line(String),
    /// Look whether the queue was closed.
    Wake,
}

impl Lines {
    /// A queue, and the pump that writes it to `sink`.
    pub fn new(sink: impl Write + Send + 'static) -> (Self, LogPump) {
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = sync_channel(MOST_LINES);
        let pump = LogPump {
            shared: Arc::clone(&shared),
            receiver,
            sink: Box::new(sink),
            notice: None,
            told: 0,
        };
        (Self { shared, sender }, pump)
    }

    /// Hands in a line with its end, or drops it if there is no room. Never waits.
    pub fn send(&self, line: String) {
        let length = line.len();
        let held = self.shared.held.fetch_add(length, Ordering::AcqRel);
        let fits = held.saturating_add(length) <= MOST_BYTES;
        let is_open = !self.shared.closed.load(Ordering::Acquire);
        if !(fits && is_open && self.sender.try_send(Message::Line(line)).is_ok()) {
            self.shared.held.fetch_sub(length, Ordering::AcqRel);
            self.shared.dropped.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// How many lines were dropped so far, for want of room or because writing failed.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Acquire)
    }

    /// Takes no more lines; the pump writes what it has and returns.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        // If there is no room for it, the pump is awake and will look.
        _ = self.sender.try_send(Message::Wake);
    }
}

impl Source for Lines {
    fn read(&self, _: &mut dyn FnMut(&str, Reading)) {}

    fn lines_dropped(&self) -> u64 {
        self.dropped()
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}

/// Writes what is in the queue.
pub struct LogPump {
    shared: Arc<Shared>,
    receiver: Receiver<Message>,
    sink: Box<dyn Write + Send>,
    notice: Option<Notice>,
    /// How many dropped lines a line was written about.
    told: u64,
}

/// The line that says how many were dropped.
type Notice = Box<dyn Fn(u64) -> String + Send>;

impl LogPump {
    /// The same pump, which writes such a line after it had to drop some.
    #[must_use]
    pub(crate) fn telling_drops(mut self, notice: impl Fn(u64) -> String + Send + 'static) -> Self {
        self.notice = Some(Box::new(notice));
        self
    }

    /// Writes lines as they come, until the queue is closed or nobody can send any more. It waits and
    /// writes, so it belongs on a thread of its own; if a sink panics it can be run again.
    pub fn run(&mut self) {
        loop {
            self.drain();
            // Asked after the draining: a closing that found no room to wake us is seen here.
            if self.shared.closed.load(Ordering::Acquire) {
                return self.drain();
            }
            let Ok(first) = self.receiver.recv() else {
                return;
            };
            self.write_batch(first);
        }
    }

    /// Writes what is in the queue now and waits for nothing but the sink.
    pub fn drain(&mut self) {
        while let Ok(first) = self.receiver.try_recv() {
            self.write_batch(first);
        }
    }

    /// Writes a message and those behind it, as many as make a good write.
    fn write_batch(&mut self, first: Message) {
        let mut batch = Batch::default();
        let mut next = Some(first);
        while let Some(message) = next {
            if let Message::Line(line) = message {
                self.shared.held.fetch_sub(line.len(), Ordering::AcqRel);
                batch.push(&line);
            }
            next = (batch.text.len() < GOOD_WRITE)
                .then(|| self.receiver.try_recv().ok())
                .flatten();
        }
        if batch.write(&mut self.sink).is_err() {
            self.shared.dropped.fetch_add(batch.lines, Ordering::AcqRel);
        } else {
            self.tell_drops();
        }
    }

    fn tell_drops(&mut self) {
        let dropped = self.shared.dropped.load(Ordering::Acquire);
        let Some(notice) = self.notice.as_ref().filter(|_| dropped > self.told) else {
            return;
        };
        let mut batch = Batch::default();
        batch.push(&notice(dropped - self.told));
        if batch.write(&mut self.sink).is_ok() {
            self.told = dropped;
        }
    }
}

impl fmt::Debug for LogPump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogPump")
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Batch {
    text: String,
    lines: u64,
}

impl Batch {
    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.lines += 1;
    }

    fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        if self.lines == 0 {
            return Ok(());
        }
        sink.write_all(self.text.as_bytes())?;
        sink.flush()
    }
}

/// Seconds of lines at ten thousand calls a second: more than a disk that works ever falls behind.
const MOST_LINES: usize = 16_384;
/// As many lines of the usual length.
const MOST_BYTES: usize = 4 * 1_024 * 1_024;
/// One system call for about a hundred lines; more is not faster.
const GOOD_WRITE: usize = 32 * 1_024;
