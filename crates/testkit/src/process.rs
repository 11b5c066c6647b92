//! Child programs that a test starts, watches, stops and kills.
//!
//! Only a crash tests a crash: a real process and a real `kill -9`. Each runs in its own process
//! group, so that its children end with it. A watchdog kills the group when the test's own process
//! ends in any way: a killed test runs no destructors. The interface blocks, because its tests have
//! nothing else to do; every wait has a bound.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};

use crate::deadline::Deadline;

/// Running program, killed with its children when this is dropped.
///
/// ```
/// use std::process::Command;
/// use std::time::Duration;
/// use outflow_testkit::Process;
///
/// # fn main() -> std::io::Result<()> {
/// let mut command = Command::new("sh");
/// command.args(["-c", "echo ready; sleep 60"]);
/// let mut process = Process::start(command)?;
/// process.wait_for_line("ready", Duration::from_secs(5))?;
/// process.kill()?;
/// assert!(!process.wait(Duration::from_secs(5))?.success());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Process {
    child: Child,
    watchdog: Child,
    ended: Option<ExitStatus>,
    incoming: Receiver<Line>,
    lines: Vec<Line>,
    /// Number of lines that were waited for already.
    passed: usize,
}

/// Line that a program printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Stream of the line.
    pub to: Output,
    /// The line, without its end.
    pub text: String,
}

/// Stream of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// To the standard output.
    Out,
    /// To the standard error.
    Err,
}

impl Process {
    /// Starts the command with its output captured and no input.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::null());
        let (mut process, send) = Self::spawn(command)?;
        capture(process.child.stdout.take(), Output::Out, send)?;
        Ok(process)
    }

    /// Starts a command with piped input and output; only its standard error is captured.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_talking(mut command: Command) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        command.stdin(Stdio::piped());
        let (mut process, _) = Self::spawn(command)?;
        let pipes = process.child.stdin.take().zip(process.child.stdout.take());
        let (to, from) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((process, to, from))
    }

    fn spawn(mut command: Command) -> io::Result<(Self, Sender<Line>)> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (send, incoming) = channel();
        capture(child.stderr.take(), Output::Err, send.clone())?;
        let watchdog = watch_over(child.id()).inspect_err(|_| {
            // An unwatched process must not run; if it cannot be killed, it has ended.
            let _ended = child.kill();
        })?;
        let process = Self {
            child,
            watchdog,
            ended: None,
            incoming,
            lines: Vec::new(),
            passed: 0,
        };
        Ok((process, send))
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that contains this text, after the last one that was waited for, and
    /// returns it.
    ///
    /// # Errors
    /// If there is none in time, or the program closed its output; the message holds its output.
    pub fn wait_for_line(&mut self, text: &str, within: Duration) -> io::Result<String> {
        let deadline = Deadline::within(within);
        loop {
            while let Some(line) = self.lines.get(self.passed) {
                self.passed += 1;
                if line.text.contains(text) {
                    return Ok(line.text.clone());
                }
            }
            match self.incoming.recv_timeout(deadline.remaining()) {
                Ok(line) => self.lines.push(line),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.complaint(io::ErrorKind::TimedOut, text));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.complaint(io::ErrorKind::UnexpectedEof, text));
                }
            }
        }
    }

    /// Returns all lines so far, in order.
    pub fn lines(&mut self) -> &[Line] {
        self.lines.extend(self.incoming.try_iter());
        &self.lines
    }

    /// Returns all lines once its outputs are closed or the time is over: the last lines arrive a
    /// little after its end.
    pub fn last_lines(&mut self, within: Duration) -> &[Line] {
        let deadline = Deadline::within(within);
        while let Ok(line) = self.incoming.recv_timeout(deadline.remaining()) {
            self.lines.push(line);
        }
        &self.lines
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it has not ended in time.
    pub fn wait(&mut self, within: Duration) -> io::Result<ExitStatus> {
        let ended = Deadline::within(within).poll(|| self.status())?;
        ended.ok_or_else(|| self.complaint(io::ErrorKind::TimedOut, "its end"))
    }

    /// Returns its exit status, if it has ended.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Kills it and its children, like a crash or the system's memory killer.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn kill(&mut self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Asks it to end, as a supervisor does.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn terminate(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends the hang-up signal, on which programs without a terminal reload their configuration.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn hang_up(&mut self) -> io::Result<()> {
        self.signal(Signal::HUP)
    }

    /// Stops it like a paused machine: its sockets stay open and do not respond.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn freeze(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Continues it.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn thaw(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Limits the size of files that it writes, like a full disk; `None` removes the limit.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn limit_files(&self, bytes: Option<u64>) -> io::Result<()> {
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit)?;
        Ok(())
    }

    /// An ended process gets no signal: its id may belong to another by now.
    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.status()?.is_none() {
            kill_process_group(Pid::from_child(&self.child), signal)?;
        }
        Ok(())
    }

    fn complaint(&mut self, kind: io::ErrorKind, waited_for: &str) -> io::Error {
        let lines: Vec<_> = self.lines().iter().map(|line| line.text.clone()).collect();
        let printed = lines.join("\n");
        io::Error::new(kind, format!("no sign of {waited_for:?}; it printed:\n{printed}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that can be neither killed nor waited for is left alone.
        let _gone = self.kill();
        let _reaped = self.child.wait();
        let _gone = self.watchdog.kill();
        let _reaped = self.watchdog.wait();
    }
}

/// Starts the watchdog: it kills the group when its input closes, which the system guarantees. It
/// has its own group, so that signals to the test's group do not end it first.
fn watch_over(group: u32) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", "read -r _; kill -s KILL -- \"-$1\"", "watchdog"])
        .arg(group.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a full pipe without a reader blocks the program; the thread ends with the pipe"
)]
fn capture(from: Option<impl Read + Send + 'static>, to: Output, send: Sender<Line>) -> io::Result<()> {
    let Some(from) = from else {
        return Ok(());
    };
    let read = move || {
        for bytes in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            // The receiver is gone once the process was dropped.
            let _unheard = send.send(Line { to, text });
        }
    };
    thread::Builder::new().name("capture".to_owned()).spawn(read)?;
    Ok(())
}
