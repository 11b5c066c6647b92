//! Lines on their way to a file: a bounded queue that never makes its sender wait.
//!
//! The disk fills up, the directory is deleted, whoever reads the pipe stops reading: none of it is
//! the request's business. What does not fit into the queue is dropped and counted, and the count is
//! told in a line as soon as one can be written.
//!
//! The queue is one text with a longest length, not a channel of lines: to hand in a line is to append
//! it. The writing side is a loop that whoever owns the threads runs; after each write it rests for a
//! moment in which nobody wakes it. A line on a quiet day is written at once, a thousand that come
//! together are one write and one waking, which would otherwise cost more than the calls they tell of.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::metrics::{GaugeSnapshot, GaugeSource};

/// Where lines are handed in. Clones hand into the same queue.
///
/// ```
/// use outflow::log::Lines;
///
/// let (lines, mut pump) = Lines::new(std::io::sink());
/// lines.send("{\"ready\":true}\n");
/// lines.close();
/// pump.run();
/// assert_eq!(lines.dropped(), 0);
/// ```
#[derive(Clone)]
pub struct LogSender {
    end: Arc<SenderGuard>,
}

/// What all clones hold; with the last of them the queue closes.
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
    /// Rung for a pump that sleeps, and when the queue closes.
    bell: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct LineQueue {
    text: String,
    is_closed: bool,
    /// Whether the pump waits to be told of the next line.
    is_asleep: bool,
}

impl LogSender {
    /// A queue, and the pump that writes it to `sink`.
    pub fn new(sink: impl Write + Send + 'static) -> (Self, LogWriter) {
        let shared = Arc::new(QueueShared::default());
        let pump = LogWriter {
            shared: Arc::clone(&shared),
            batch: String::new(),
            done: 0,
            sink: Box::new(sink),
            notice: None,
            told: 0,
        };
        let end = Arc::new(SenderGuard { shared });
        (Self { end }, pump)
    }

    /// Hands in a line with its end, or drops it if there is no room. Never waits.
    pub fn send(&self, line: &str) {
        let shared = &self.end.shared;
        let mut queue = shared.lock();
        if queue.is_closed || queue.text.len().saturating_add(line.len()) > MOST_BYTES {
            shared.dropped.fetch_add(1, Ordering::AcqRel);
            return;
        }
        queue.text.push_str(line);
        if std::mem::take(&mut queue.is_asleep) {
            drop(queue);
            shared.bell.notify_one();
        }
    }

    /// How many lines were dropped so far, for want of room or because writing failed.
    pub fn dropped(&self) -> u64 {
        self.end.shared.dropped.load(Ordering::Acquire)
    }

    /// Takes no more lines; the pump writes what it has and returns.
    pub fn close(&self) {
        self.end.shared.close();
    }
}

impl QueueShared {
    fn lock(&self) -> MutexGuard<'_, LineQueue> {
        // Nothing that is done under this lock leaves it half done.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts lines that will not be written.
    fn lose(&self, lines: &str) {
        let lines = u64::try_from(lines.lines().count()).unwrap_or(u64::MAX);
        self.dropped.fetch_add(lines, Ordering::AcqRel);
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.bell.notify_all();
    }

    /// Waits for the next line. Without one there is none to come.
    fn awaits_line(&self) -> bool {
        let mut queue = self.lock();
        while queue.text.is_empty() && !queue.is_closed {
            queue.is_asleep = true;
            let woken = self.bell.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        queue.is_asleep = false;
        !queue.text.is_empty()
    }

    /// Lets lines gather, unless no more will come.
    fn wait_for_lines(&self) {
        let open = |queue: &mut LineQueue| !queue.is_closed;
        let rested = self.bell.wait_timeout_while(self.lock(), BREATH, open);
        drop(rested);
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
        f.debug_struct("Lines")
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}

/// Writes what is in the queue.
pub struct LogWriter {
    shared: Arc<QueueShared>,
    /// What is being written; its memory and the queue's change places.
    batch: String,
    /// How much of it was.
    done: usize,
    sink: Box<dyn Write + Send>,
    notice: Option<Notice>,
    /// How many dropped lines a line was written about.
    told: u64,
}

/// The line that says how many were dropped.
type Notice = Box<dyn Fn(u64) -> String + Send>;

impl LogWriter {
    /// The same pump, which writes such a line after it had to drop some.
    #[must_use]
    pub(crate) fn with_drop_notice(
        mut self,
        notice: impl Fn(u64) -> String + Send + 'static,
    ) -> Self {
        self.notice = Some(Box::new(notice));
        self
    }

    /// Writes lines as they come, until the queue is closed or nobody can send any more. It waits and
    /// writes, so it belongs on a thread of its own; if a sink panics it can be run again.
    pub fn run(&mut self) {
        while self.shared.awaits_line() {
            self.drain();
            self.shared.wait_for_lines();
        }
    }

    /// Writes what is in the queue now and waits for nothing but the sink.
    pub fn drain(&mut self) {
        // A sink that panicked may have written part of a piece: what was left then is not tried again.
        self.shared.lose(unwritten(&self.batch, self.done));
        self.batch.clear();
        self.done = 0;
        std::mem::swap(&mut self.batch, &mut self.shared.lock().text);
        loop {
            let piece = first_piece(unwritten(&self.batch, self.done));
            if piece.is_empty() {
                break;
            }
            if write(&mut self.sink, piece).is_err() {
                self.shared.lose(piece);
            }
            self.done += piece.len();
        }
        if self.batch.capacity() > MOST_KEPT {
            self.batch = String::new();
        }
        self.write_drops();
    }

    fn write_drops(&mut self) {
        let dropped = self.shared.dropped.load(Ordering::Acquire);
        let Some(notice) = self.notice.as_ref().filter(|_| dropped > self.told) else {
            return;
        };
        if write(&mut self.sink, &notice(dropped - self.told)).is_ok() {
            self.told = dropped;
        }
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogPump")
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

fn write(sink: &mut dyn Write, lines: &str) -> io::Result<()> {
    sink.write_all(lines.as_bytes())?;
    sink.flush()
}

fn unwritten(batch: &str, done: usize) -> &str {
    batch.get(done..).unwrap_or_default()
}

/// Whole lines that make a good write.
fn first_piece(text: &str) -> &str {
    let is_end = |byte: &u8| *byte == b'\n';
    let Some((good, behind)) = text.as_bytes().split_at_checked(GOOD_WRITE) else {
        return text;
    };
    let within = good.iter().rposition(is_end);
    // The first line is longer than that: it goes alone.
    let beyond = || Some(GOOD_WRITE + behind.iter().position(is_end)?);
    let whole = within.or_else(beyond).map_or(text.len(), |end| end + 1);
    text.get(..whole).unwrap_or(text)
}

/// As many lines as twenty thousand calls in a second make: more than a disk that works ever falls
/// behind.
const MOST_BYTES: usize = 4 * 1_024 * 1_024;
/// One system call for about a hundred lines; more is not faster.
const GOOD_WRITE: usize = 32 * 1_024;
/// What a busy moment needed is given back after it.
const MOST_KEPT: usize = 8 * GOOD_WRITE;
/// Short enough that whoever follows the log does not see it, long enough that a busy program wakes
/// its log a hundred times a second and not with every call.
const BREATH: Duration = Duration::from_millis(10);

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

    // Three lines are lost with the panic, and the fourth is written by the next run.
    #[test]
    fn what_a_sink_panicked_at_is_counted() {
        let (lines, mut pump) = LogSender::new(Fragile(false));
        lines.send("1\n2\n3\n");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pump.drain()));
        assert!(panicked.is_err());
        lines.send("4\n");
        pump.drain();
        assert_eq!(lines.dropped(), 3);
    }

    // Lines of 1,000 bytes: 32 of them fit into a write, and a line of two writes goes alone.
    #[test]
    fn a_write_is_of_whole_lines() {
        let line = format!("{}\n", "x".repeat(999));
        let many = line.repeat(40);
        assert_eq!(first_piece(&many).len(), 32_000);
        let long = format!("{}\n{line}", "y".repeat(2 * GOOD_WRITE));
        assert_eq!(first_piece(&long).len(), 2 * GOOD_WRITE + 1);
        let endless = "z".repeat(2 * GOOD_WRITE);
        assert_eq!(first_piece(&endless), endless);
    }
}
