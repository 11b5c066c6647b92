//! Bounded queue of lines that never blocks its sender.
//!
//! A full disk, a deleted directory or a stalled pipe must not affect a request. Lines that do not
//! fit are dropped and counted, and the count is reported in a line as soon as possible.
//!
//! The queue is one bounded text, not a channel of lines: sending appends. The writer is a loop on
//! a thread of the owner; after each write it pauses and is not woken. A single line is written at
//! once, and a thousand concurrent lines cost one write and one wakeup, which would otherwise cost
//! more than the calls.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outflow_sync::{Condvar, Mutex};

use crate::metrics::{GaugeSnapshot, GaugeSource};

/// Sender of lines. Clones share the queue.
///
/// ```
/// use outflow::log::LogSender;
///
/// let (lines, mut writer) = LogSender::new(std::io::sink());
/// lines.send("{\"ready\":true}\n");
/// lines.close();
/// writer.run();
/// assert_eq!(lines.dropped(), 0);
/// ```
#[derive(Clone)]
pub struct LogSender {
    end: Arc<SenderGuard>,
}

/// Shared by all clones; the last drop closes the queue.
struct SenderGuard {
    shared: Arc<QueueShared>,
}

impl Drop for SenderGuard {
    fn drop(&mut self) {
        self.shared.close();
    }
}

#[derive(Default)]
struct QueueShared {
    queue: Mutex<LineQueue>,
    /// Notified for a sleeping writer, and when the queue closes.
    wakeup: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct LineQueue {
    text: String,
    is_closed: bool,
    /// True if the writer waits for the next line.
    is_asleep: bool,
}

impl LogSender {
    /// Returns a queue and the writer of its lines.
    pub fn new(sink: impl Write + Send + 'static) -> (Self, LogWriter) {
        let shared = Arc::new(QueueShared::default());
        let writer = LogWriter {
            shared: Arc::clone(&shared),
            batch: String::new(),
            written: 0,
            sink: Box::new(sink),
            notice: None,
            reported: 0,
        };
        let end = Arc::new(SenderGuard { shared });
        (Self { end }, writer)
    }

    /// Queues a line with its end, or drops it if the queue is full. Never blocks.
    pub fn send(&self, line: &str) {
        let shared = &self.end.shared;
        let mut queue = shared.queue.lock();
        if queue.is_closed || queue.text.len().saturating_add(line.len()) > MAX_QUEUED {
            shared.dropped.fetch_add(1, Ordering::AcqRel);
            return;
        }
        queue.text.push_str(line);
        if std::mem::take(&mut queue.is_asleep) {
            drop(queue);
            shared.wakeup.notify_one();
        }
    }

    /// Returns the number of lines dropped because the queue was full or a write failed.
    pub fn dropped(&self) -> u64 {
        self.end.shared.dropped.load(Ordering::Acquire)
    }

    /// Closes the queue; the writer writes the queued lines and returns.
    pub fn close(&self) {
        self.end.shared.close();
    }
}

impl QueueShared {
    /// Counts lines that will not be written.
    fn count_dropped(&self, lines: &str) {
        let lines = u64::try_from(lines.lines().count()).unwrap_or(u64::MAX);
        self.dropped.fetch_add(lines, Ordering::AcqRel);
    }

    fn close(&self) {
        self.queue.lock().is_closed = true;
        self.wakeup.notify_all();
    }

    /// Waits for the next line. Returns false once the queue is closed and empty.
    fn wait_for_line(&self) -> bool {
        let mut queue = self.queue.lock();
        while queue.text.is_empty() && !queue.is_closed {
            queue.is_asleep = true;
            queue = self.wakeup.wait(queue);
        }
        queue.is_asleep = false;
        !queue.text.is_empty()
    }

    /// Pauses so that lines accumulate, unless the queue is closed.
    fn pause(&self) {
        let open = |queue: &mut LineQueue| !queue.is_closed;
        drop(self.wakeup.wait_while(self.queue.lock(), PAUSE, open));
    }
}

impl GaugeSource for LogSender {
    fn read(&self, _: &mut dyn FnMut(&str, GaugeSnapshot)) {}

    fn lines_dropped(&self) -> u64 {
        self.dropped()
    }
}

impl fmt::Debug for LogSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSender")
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}

/// Writer of queued lines.
pub struct LogWriter {
    shared: Arc<QueueShared>,
    /// Text being written; its buffer alternates with the queue's.
    batch: String,
    /// Bytes written of it.
    written: usize,
    sink: Box<dyn Write + Send>,
    notice: Option<Notice>,
    /// Dropped lines already reported.
    reported: u64,
}

/// Formats the line about dropped lines.
type Notice = Box<dyn Fn(u64) -> String + Send>;

impl LogWriter {
    /// Sets the line to write after lines were dropped.
    #[must_use]
    pub(crate) fn with_drop_notice(mut self, notice: impl Fn(u64) -> String + Send + 'static) -> Self {
        self.notice = Some(Box::new(notice));
        self
    }

    /// Writes lines until the queue is closed or the last sender is gone. It blocks, so it belongs
    /// on a thread of its own; after a panic of the sink it can run again.
    pub fn run(&mut self) {
        while self.shared.wait_for_line() {
            self.drain();
            self.shared.pause();
        }
    }

    /// Writes the queued lines. Blocks only on the sink.
    pub fn drain(&mut self) {
        // A sink that panicked may have written part of a piece, so the rest is not tried again.
        self.shared.count_dropped(unwritten(&self.batch, self.written));
        self.batch.clear();
        self.written = 0;
        std::mem::swap(&mut self.batch, &mut self.shared.queue.lock().text);
        loop {
            let piece = first_piece(unwritten(&self.batch, self.written));
            if piece.is_empty() {
                break;
            }
            if write(&mut self.sink, piece).is_err() {
                self.shared.count_dropped(piece);
            }
            self.written += piece.len();
        }
        if self.batch.capacity() > MAX_BUFFER {
            self.batch = String::new();
        }
        self.write_drops();
    }

    fn write_drops(&mut self) {
        let dropped = self.shared.dropped.load(Ordering::Acquire);
        let Some(notice) = self.notice.as_ref().filter(|_| dropped > self.reported) else {
            return;
        };
        if write(&mut self.sink, &notice(dropped - self.reported)).is_ok() {
            self.reported = dropped;
        }
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter")
            .field("reported", &self.reported)
            .finish_non_exhaustive()
    }
}

fn write(sink: &mut dyn Write, lines: &str) -> io::Result<()> {
    sink.write_all(lines.as_bytes())?;
    sink.flush()
}

fn unwritten(batch: &str, written: usize) -> &str {
    batch.get(written..).unwrap_or_default()
}

/// Returns the complete lines of one write.
fn first_piece(text: &str) -> &str {
    let is_end = |byte: &u8| *byte == b'\n';
    let Some((good, rest)) = text.as_bytes().split_at_checked(MAX_WRITE) else {
        return text;
    };
    let inside = good.iter().rposition(is_end);
    // The first line exceeds a write: it goes alone.
    let beyond = || Some(MAX_WRITE + rest.iter().position(is_end)?);
    let length = inside.or_else(beyond).map_or(text.len(), |end| end + 1);
    text.get(..length).unwrap_or(text)
}

/// Lines of twenty thousand calls in one second: a working disk never falls behind by more.
const MAX_QUEUED: usize = 4 * 1_024 * 1_024;
/// One system call for about a hundred lines; more is not faster.
const MAX_WRITE: usize = 32 * 1_024;
/// Memory of a burst is released after it.
const MAX_BUFFER: usize = 8 * MAX_WRITE;
/// Too short for a reader of the log to notice. A busy program wakes its writer a hundred times a
/// second and not with every call.
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics at its first write.
    struct Fragile(bool);

    impl Write for Fragile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(std::mem::replace(&mut self.0, true), "the first");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // Three lines are lost with the panic, and the next run writes the fourth.
    #[test]
    fn lines_lost_in_a_panic_of_the_sink_are_counted() {
        let (lines, mut writer) = LogSender::new(Fragile(false));
        lines.send("1\n2\n3\n");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.drain()));
        assert!(panicked.is_err());
        lines.send("4\n");
        writer.drain();
        assert_eq!(lines.dropped(), 3);
    }

    // Lines of 1,000 bytes: 32 fit into a write, and a line of two writes goes alone.
    #[test]
    fn a_write_holds_complete_lines() {
        let line = format!("{}\n", "x".repeat(999));
        let many = line.repeat(40);
        assert_eq!(first_piece(&many).len(), 32_000);
        let long = format!("{}\n{line}", "y".repeat(2 * MAX_WRITE));
        assert_eq!(first_piece(&long).len(), 2 * MAX_WRITE + 1);
        let endless = "z".repeat(2 * MAX_WRITE);
        assert_eq!(first_piece(&endless), endless);
    }
}
