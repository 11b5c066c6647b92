//! Disk calls of a program, in order, as `strace` recorded them.
//!
//! A wrapper inside the program would record the same, but `SQLite` calls the system itself, and a
//! layer in between would be part of the test. Mapped memory is not recorded: `SQLite` maps one
//! file, `-shm`, which it rebuilds after every crash.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One recorded action of a program.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Made(PathBuf),
    MadeDir(PathBuf),
    Gone(PathBuf),
    Wrote {
        path: PathBuf,
        at: usize,
        bytes: Vec<u8>,
    },
    Cut(PathBuf, usize),
    Synced(PathBuf),
    /// Failed sync: the system forgets the unwritten data, and the next sync does not report it.
    Forgotten(PathBuf),
    /// Line that the program printed for the test.
    Said(String),
}

/// Runs one test of this program again under a variable, and returns its events. The system can
/// inject an error: `fsync:error=EIO:when=3` is the third sync of a thread.
pub(crate) fn trace_test(test: &str, (variable, value): (&str, &Path), refused: Option<&str>) -> Vec<Event> {
    let heard = tempfile::NamedTempFile::new().expect("a file");
    let refused = refused.map(|what| format!("inject={what}"));
    let status = Command::new("strace")
        .args(["-f", "-y", "-xx", "-s", "16000000", "-e", CALLS])
        .args(refused.iter().flat_map(|what| ["-e", what]))
        .arg("-o")
        .arg(heard.path())
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .args(["--test-threads", "1"])
        .env(variable, value)
        .stdout(Stdio::null())
        .status()
        .expect("strace is installed");
    assert!(status.success(), "the program failed: run it by itself");
    events(&fs::read_to_string(heard.path()).expect("a trace"))
}

/// Calls that change a file or its name, or sync it.
const CALLS: &str = "trace=openat,open,creat,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,\
                     renameat2,link,linkat,write,writev,pwrite64,pwritev,pwritev2,lseek,ftruncate,\
                     truncate,fallocate,fsync,fdatasync,sync_file_range,copy_file_range,sendfile";

fn events(text: &str) -> Vec<Event> {
    let (mut halves, mut reader) = (HashMap::new(), TraceReader::default());
    for line in text.lines() {
        let (pid, call) = line.split_once(' ').expect("a process and its call");
        let call = call.trim_start();
        if let Some(half) = call.strip_suffix("<unfinished ...>") {
            halves.insert(pid.to_owned(), half.trim_end().to_owned());
        } else if let Some(rest) = call.strip_prefix("<... ") {
            let half = halves.remove(pid).expect("its beginning");
            let rest = rest.split_once("resumed>").expect("its end").1;
            reader.read(&format!("{half}{rest}"));
        } else {
            reader.read(call);
        }
    }
    reader.events
}

/// Parser of recorded calls.
#[derive(Default)]
struct TraceReader {
    events: Vec<Event>,
    /// Offset of the next `write` of a file.
    offsets: HashMap<PathBuf, usize>,
    printed: Vec<u8>,
}

impl TraceReader {
    fn read(&mut self, call: &str) {
        let Some((call, answer)) = call.rsplit_once(" = ") else {
            return;
        };
        let (name, arguments) = call.split_once('(').expect("a call");
        let arguments = arguments.trim_end().trim_end_matches(')');
        if answer.starts_with('-') || answer.starts_with('?') {
            if matches!(name, "fsync" | "fdatasync") {
                self.events.push(Event::Forgotten(file(arguments)));
            }
            // Other failed calls changed nothing.
            return;
        }
        match name {
            "openat" => self.opened(arguments, answer),
            "mkdir" => self.events.push(Event::MadeDir(text(arguments))),
            "unlink" | "rmdir" => self.events.push(Event::Gone(text(arguments))),
            "write" | "pwrite64" => self.wrote(name, arguments),
            "lseek" => {
                let to = answer.trim().parse().expect("an offset");
                self.offsets.insert(file(arguments), to);
            }
            "ftruncate" => {
                let length = last(arguments);
                self.events.push(Event::Cut(file(arguments), length));
            }
            "fsync" | "fdatasync" => self.events.push(Event::Synced(file(arguments))),
            other => panic!("{other} is not understood: {arguments:.200}"),
        }
    }

    fn opened(&mut self, arguments: &str, answer: &str) {
        let path = file(answer);
        assert!(!arguments.contains("O_APPEND"), "{}", path.display());
        self.offsets.insert(path.clone(), 0);
        if arguments.contains("O_CREAT") {
            self.events.push(Event::Made(path.clone()));
        }
        if arguments.contains("O_TRUNC") {
            self.events.push(Event::Cut(path, 0));
        }
    }

    fn wrote(&mut self, name: &str, arguments: &str) {
        let (path, bytes) = (file(arguments), quoted(arguments));
        if arguments.starts_with("1<") {
            return self.said(&bytes);
        }
        let at = match name {
            "pwrite64" => last(arguments),
            _ => self.offsets.get(&path).copied().unwrap_or(0),
        };
        if name == "write" {
            self.offsets.insert(path.clone(), at + bytes.len());
        }
        self.events.push(Event::Wrote { path, at, bytes });
    }

    /// Only lines that begin with [`REPORTED`] are for the test.
    fn said(&mut self, bytes: &[u8]) {
        self.printed.extend(bytes);
        while let Some(end) = self.printed.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.printed.drain(..=end).collect();
            let line = String::from_utf8(line).expect("text");
            if let Some(words) = line.trim_end().strip_prefix(REPORTED) {
                self.events.push(Event::Said(words.to_owned()));
            }
        }
    }
}

/// Prefix of a program's lines for the test.
pub(crate) const REPORTED: &str = "reported ";

/// Returns the path behind a descriptor: `5</path>`.
fn file(arguments: &str) -> PathBuf {
    let begun = arguments.split_once('<').expect("a descriptor").1;
    let path = begun.split_once('>').expect("its path").0;
    PathBuf::from(String::from_utf8(bytes_of(path)).expect("a path"))
}

fn text(arguments: &str) -> PathBuf {
    PathBuf::from(String::from_utf8(quoted(arguments)).expect("a path"))
}

fn quoted(arguments: &str) -> Vec<u8> {
    let mut parts = arguments.split('"');
    let bytes = bytes_of(parts.nth(1).expect("bytes"));
    let rest = parts.next().unwrap_or_default();
    assert!(!rest.starts_with("..."), "they were not heard to the end");
    bytes
}

/// Decodes `\x2f\x74` to bytes.
fn bytes_of(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit");
    let pairs = text.as_bytes().chunks(4);
    pairs
        .map(|pair| u8::try_from(digit(pair[2]) * 16 + digit(pair[3])).expect("a byte"))
        .collect()
}

fn last(arguments: &str) -> usize {
    let number = arguments.rsplit(", ").next().expect("an argument");
    number.trim().parse().expect("a number")
}
