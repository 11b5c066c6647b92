//! Capped log files, and a queue that never blocks its sender.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use outflow::Observer;
use outflow::event::EventKind;
use outflow::log::{InvalidRolling, LineFormat, Log, LogSender, RollingFile};
use tracing::Level;

use super::settings;
use crate::support::sample_events::event;

/// The smallest allowed file cap.
const CAP: u64 = 128 * 1_024;

fn sizes(folder: &Path) -> Vec<(String, u64)> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .expect("a directory")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, entry.metadata().expect("its size").len())
        })
        .collect();
    found.sort();
    found
}

// A thousand bytes a line and ten times the size of three files.
#[test]
fn files_are_capped_in_size_and_number() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut file = RollingFile::new(folder.path().join("o.log"), CAP, 3).expect("valid");
    for number in 0..4_000 {
        let line = format!("{number:0999}\n");
        file.write_all(line.as_bytes()).expect("written");
        let found = sizes(folder.path());
        assert!(found.len() <= 3, "{found:?}");
        assert!(found.iter().all(|(_, bytes)| *bytes <= CAP), "{found:?}");
    }
    let names: Vec<_> = sizes(folder.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["o.log", "o.log.1", "o.log.2"]);
    // The files hold the newest lines, in order and without a gap.
    let mut kept = Vec::new();
    for name in ["o.log.2", "o.log.1", "o.log"] {
        let text = fs::read_to_string(folder.path().join(name)).expect("text");
        kept.extend(text.lines().map(|line| line.parse::<u32>().expect("a number")));
    }
    let first = kept[0];
    assert_eq!(kept, (first..4_000).collect::<Vec<_>>());
}

#[test]
fn a_single_file_is_capped_too() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut file = RollingFile::new(folder.path().join("o.log"), CAP, 1).expect("valid");
    for _ in 0..1_000 {
        file.write_all(&[b'x'; 1_000]).expect("written");
    }
    let found = sizes(folder.path());
    assert!(found.len() == 1 && found[0].1 <= CAP, "{found:?}");
}

// A restarted program neither overwrites earlier lines nor ignores their size.
#[test]
fn earlier_lines_are_kept_and_counted() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("o.log");
    fs::write(&path, vec![b'o'; 131_000]).expect("written");
    let mut file = RollingFile::new(&path, CAP, 2).expect("valid");
    file.write_all(&[b'n'; 1_000]).expect("written");
    assert_eq!(
        sizes(folder.path()),
        [("o.log".to_owned(), 1_000), ("o.log.1".to_owned(), 131_000)]
    );
}

#[cfg(unix)]
#[test]
fn only_its_user_reads_a_log() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("deep/o.log");
    let mut file = RollingFile::new(&path, CAP, 2).expect("valid");
    for _ in 0..200 {
        file.write_all(&[b'x'; 1_000]).expect("written");
    }
    for name in ["deep/o.log", "deep/o.log.1"] {
        let mode = fs::metadata(folder.path().join(name)).expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
}

// The directory is removed: lines after the next check are in a new file.
#[cfg(unix)]
#[test]
fn a_removed_directory_is_created_again() {
    let folder = tempfile::tempdir().expect("a directory");
    let logs = folder.path().join("logs");
    let mut file = RollingFile::new(logs.join("o.log"), CAP, 3).expect("valid");
    for round in 0..3 {
        for _ in 0..150 {
            file.write_all(&[b'x'; 1_000]).expect("written");
        }
        assert_eq!(sizes(&logs).len(), 2, "round {round}");
        fs::remove_dir_all(&logs).expect("removed");
    }
}

// Another thread removes the files continuously: nothing panics, no file exceeds the cap, and a
// failed write is reported.
#[test]
fn the_writer_survives_a_race_with_file_removal() {
    let folder = tempfile::tempdir().expect("a directory");
    let logs = folder.path().join("logs");
    let mut file = RollingFile::new(logs.join("o.log"), CAP, 2).expect("valid");
    let is_done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                _ = fs::remove_dir_all(&logs);
            }
        });
        let written = (0..2_000).filter(|_| file.write_all(&[b'x'; 1_000]).is_ok()).count();
        is_done.store(true, Ordering::Relaxed);
        written
    });
    assert!(written > 0, "no write came through");
    file.write_all(b"last\n").expect("the other thread has ended");
    assert!(sizes(&logs).iter().all(|(_, bytes)| *bytes <= CAP));
}

// A reader must find the beginning of a line, also after a partial write.
#[test]
fn an_unwritable_file_is_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("o.log");
    let mut file = RollingFile::new(&path, CAP, 2).expect("valid");
    file.write_all(&vec![b'x'; 131_072])
        .expect_err("larger than a file may be");
    file.write_all(b"fits\n").expect("written");
    assert_eq!(fs::read_to_string(&path).expect("text"), "fits\n");

    assert_eq!(
        RollingFile::new("/", CAP, 2).expect_err("no name"),
        InvalidRolling::NoName
    );
    assert_eq!(
        RollingFile::new("a", CAP - 1, 2).expect_err("too small"),
        InvalidRolling::TooSmall
    );
    assert_eq!(
        RollingFile::new("a", CAP, 0).expect_err("no file"),
        InvalidRolling::NoFile
    );
}

// One link exists before, one appears while the file is written.
#[cfg(unix)]
#[test]
fn a_log_is_not_written_through_a_link() {
    let folder = tempfile::tempdir().expect("a directory");
    let (path, victim) = (folder.path().join("o.log"), folder.path().join("victim"));
    fs::write(&victim, "precious\n").expect("written");
    let mut file = RollingFile::new(&path, CAP, 2).expect("valid");
    file.write_all(b"before\n").expect("written");
    fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(&victim, &path).expect("a link");
    file.write_all(b"line\n").expect_err("a link");
    let text = fs::read_to_string(&victim).expect("text");
    assert_eq!(text, "precious\n");
    let again = RollingFile::new(&path, CAP, 2);
    assert_eq!(again.expect_err("a link"), InvalidRolling::Link);
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_access_a_log_and_its_directory() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("logs/o.log");
    let mut file = RollingFile::new(&path, CAP, 2).expect("valid");
    file.write_all(b"line\n").expect("written");
    let mode = |path: &Path| fs::metadata(path).expect("its mode").permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().expect("logs")), 0o700);
    assert_eq!(mode(&path), 0o600);
}

// One block fits into a file: five files, then two.
#[test]
fn a_lower_file_count_removes_files() {
    let folder = tempfile::tempdir().expect("a directory");
    let block = vec![b'x'; 100_000];
    for files in [5, 2] {
        let path = folder.path().join("o.log");
        let mut file = RollingFile::new(path, CAP, files).expect("valid");
        for _ in 0..8 {
            file.write_all(&block).expect("written");
        }
    }
    let found = sizes(folder.path());
    assert_eq!(found.len(), 2, "{found:?}");
}

// The device that is always full.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_only_costs_lines() {
    let file = RollingFile::new("/dev/full", CAP, 2).expect("valid");
    let (log, mut pump) = Log::new(settings(LineFormat::Logfmt, Level::INFO), file);
    for _ in 0..10 {
        log.observe(&event("a", EventKind::Malformed { headers: 1 }));
    }
    log.close();
    pump.run();
    assert_eq!(log.dropped(), 10);
}

// An unread pipe: 64 KiB fit into it, then the writer blocks while lines arrive.
#[test]
fn a_stalled_reader_costs_lines_and_blocks_no_sender() {
    const SENT: u64 = 60_000;
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let (log, mut pump) = Log::new(settings(LineFormat::Logfmt, Level::INFO), writer);
    let mut text = String::new();
    let dropped = std::thread::scope(|scope| {
        scope.spawn(move || pump.run());
        for _ in 0..SENT {
            log.observe(&event("a", EventKind::Malformed { headers: 1 }));
        }
        // All lines are accepted or dropped by now, and no byte was read.
        let dropped = log.dropped();
        log.close();
        reader.read_to_string(&mut text).expect("text");
        dropped
    });
    assert!(dropped > 0, "everything fitted: the pipe did not stall");
    let reported: u64 = text
        .lines()
        .filter_map(|line| line.split_once("event=lines_dropped count="))
        .filter_map(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok())
        .sum();
    let lines = text.matches("event=malformed_headers").count();
    assert_eq!(reported, dropped, "each is reported once");
    assert_eq!(u64::try_from(lines).expect("few") + dropped, SENT);
}

// The queue overflows by five and then by three lines: each overflow is reported by itself.
#[test]
fn each_overflow_is_reported_once() {
    let (log, mut pump, page) = super::log(LineFormat::Logfmt, Level::INFO);
    for dropped in [5, 8] {
        while log.dropped() < dropped {
            log.observe(&event("a", EventKind::Malformed { headers: 1 }));
        }
        pump.drain();
    }
    pump.drain();
    let text = page.text();
    let reported: Vec<_> = text.split("lvl=WARN comp=log event=lines_dropped ").skip(1).collect();
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(reported[0].starts_with("count=5 seq=") && reported[1].starts_with("count=3 seq="));
    assert_eq!(log.dropped(), 8);
}

// The queue is bounded in bytes: 4 MiB of long lines are far fewer than its short ones.
#[test]
fn long_lines_do_not_exhaust_the_memory() {
    let (lines, mut pump) = LogSender::new(std::io::sink());
    for _ in 0..100 {
        lines.send(&"x".repeat(100_000));
    }
    assert_eq!(lines.dropped(), 100 - 41);
    pump.drain();
    lines.send(&"x".repeat(100_000));
    assert_eq!(lines.dropped(), 100 - 41, "there is room again");
}

#[test]
fn lines_sent_before_the_end_are_written() {
    let page = super::LogPage::default();
    let (lines, mut pump) = LogSender::new(page.clone());
    lines.send("one\n");
    lines.close();
    lines.send("late\n");
    pump.run();
    pump.run();
    assert_eq!(page.text(), "one\n");
    assert_eq!(lines.dropped(), 1);
}

#[test]
fn the_writer_ends_when_its_last_sender_is_dropped() {
    let page = super::LogPage::default();
    let (lines, mut pump) = LogSender::new(page.clone());
    lines.send("one\n");
    drop(lines);
    pump.run();
    assert_eq!(page.text(), "one\n");
}
