//! `outflow bulk submit`: all of a file, or nothing of it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use outflow_testkit::Deadline;

use super::bulk_serve::{BulkProgram, jobs};
use super::support::{folder, run_in};
use crate::support::PATIENCE;

fn program() -> BulkProgram {
    BulkProgram::start(&["--limit", "1000/s"], "limits = [\"1000/s\"]")
}

// 1,001 valid lines fill one batch and begin another; the second holds the invalid line.
#[test]
fn an_invalid_line_in_a_later_batch_stops_the_whole_file() {
    let program = program();
    let wrong = "{\"api\":\"nope\",\"path\":\"/\"}\n";
    program.jobs("jobs.ndjson", &(jobs("acme", 1_001) + wrong));
    let ran = program.run(&["submit", "jobs.ndjson", "--action", "a"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("jobs.ndjson:1002: no API"), "{ran:?}");
    assert!(ran.talk.contains("1 line is invalid"), "{ran:?}");
    let status = program.json(&["status"]);
    assert_eq!(status["jobs"]["total"], 0, "{status}");
    assert_eq!(status["actions"], serde_json::json!([]), "{status}");
    assert_eq!(program.mock.end()["seen"], 0);
}

#[test]
fn bulk_submit_reports_a_duplicate_id() {
    let program = program();
    let line = "{\"id\":\"one\",\"api\":\"up\",\"path\":\"/\"}\n";
    program.jobs("jobs.ndjson", &format!("{line}{line}"));
    let ran = program.run(&["submit", "jobs.ndjson"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let said = "jobs.ndjson:2: id: line 1 has the same";
    assert!(ran.talk.contains(said), "{ran:?}");
}

// 900 jobs of 20 KB are 18 MB, more than one request may hold. The tenant is paused, so nothing is sent.
#[test]
fn bulk_submit_splits_batches_by_bytes() {
    let program = program();
    program.output(&["pause", "--tenant", "acme"]);
    let body = "x".repeat(20_000);
    let line = |number| format!("{{\"tenant\":\"acme\",\"api\":\"up\",\"path\":\"/{number}\",\"body\":\"{body}\"}}\n");
    let text: String = (0..900).map(line).collect();
    program.jobs("jobs.ndjson", &text);
    let taken = program.json(&["submit", "jobs.ndjson", "--action", "a"]);
    assert_eq!(taken["accepted"], 900, "{taken}");
}

// The first file closes the action, which still has work when the second file comes.
#[test]
fn a_closed_action_refuses_more_jobs() {
    let program = program();
    program.output(&["pause", "--tenant", "acme"]);
    program.jobs("first.ndjson", &jobs("acme", 1));
    program.jobs("second.ndjson", &jobs("acme", 2));
    program.output(&["submit", "first.ndjson", "--action", "a"]);
    let ran = program.run(&["submit", "second.ndjson", "--action", "a"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("takes no more jobs"), "{ran:?}");
}

/// Reads a request to its end, answers it and returns its text.
pub(super) fn answer(mut stream: TcpStream, (status, body): (&str, &str)) -> String {
    stream.set_read_timeout(Some(PATIENCE)).expect("settable");
    let (mut text, mut piece) = (String::new(), [0; 16_384]);
    loop {
        let length = stream.read(&mut piece).expect("a request");
        text.push_str(str::from_utf8(&piece[..length]).expect("plain text"));
        let Some((head, came)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        let said = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if came.len() >= said.map_or(0, |said| said.parse().expect("a length")) {
            break;
        }
    }
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).expect("answered");
    text
}

// 1,001 jobs are two batches. Both pass the check, the store takes one, and the disk is full for the other.
#[test]
fn an_interrupted_submission_reports_its_progress_and_the_next_step() {
    let folder = folder();
    std::fs::write(folder.path().join("jobs.ndjson"), jobs("acme", 1_001)).expect("writable");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let admin = format!("http://{}", listener.local_addr().expect("an address"));
    let full = "{\"detail\":\"the disk is full\"}";
    let answers = [
        ("200 OK", "{}"),
        ("200 OK", "{}"),
        ("200 OK", "{\"jobs\":{\"queued\":0},\"queue_max\":9999}"),
        (
            "200 OK",
            "{\"accepted\":990,\"duplicates\":10,\"rejected\":0,\"jobs\":[]}",
        ),
        ("507 Insufficient Storage", full),
    ];
    let ran = thread::scope(|threads| {
        threads.spawn(|| {
            for one in answers {
                answer(listener.accept().expect("a connection").0, one);
            }
        });
        let submit = ["bulk", "submit", "jobs.ndjson", "--action", "a", "--admin", &admin];
        run_in(folder.path(), &submit)
    });
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let said = "1000 of 1001 jobs were accepted as action a, which stays open";
    for words in [said, "submit the file again", "the disk is full"] {
        assert!(ran.talk.contains(words), "{words}: {ran:?}");
    }
}

// The ids of the jobs follow from the file, so a second action contains none of them.
#[test]
fn bulk_submit_does_not_name_an_action_without_jobs() {
    let program = program();
    program.output(&["pause", "--tenant", "acme"]);
    program.jobs("jobs.ndjson", &jobs("acme", 3));
    program.output(&["submit", "jobs.ndjson", "--action", "first"]);
    let again = program.output(&["submit", "jobs.ndjson", "--action", "second"]);
    let said = "0 jobs were accepted, 3 submitted before, and no action was opened";
    assert!(again.contains(said), "{again}");
    assert!(!again.contains("watch"), "{again}");
    let document = program.json(&["submit", "jobs.ndjson", "--action", "second"]);
    assert_eq!(document["action"], serde_json::Value::Null, "{document}");
    let known = program.output(&["submit", "jobs.ndjson", "--action", "first"]);
    assert!(known.contains("bulk watch first"), "{known}");
}

// 2,500 jobs are three batches, and the queue has space for one and a half.
#[test]
fn a_full_queue_refuses_the_whole_file() {
    let config = "limits = [\"1000/s\"]";
    let program = BulkProgram::with_engine("queue_max = 1500", &[], config);
    program.output(&["pause", "--tenant", "acme"]);
    program.jobs("jobs.ndjson", &jobs("acme", 2_500));
    let ran = program.run(&["submit", "jobs.ndjson", "--action", "a"]);
    assert_eq!(ran.code, Some(75), "{ran:?}");
    for words in ["0 jobs were accepted", "space for 1500 of 2500 jobs", "bulk.queue_max"] {
        assert!(ran.out.contains(words), "{words}: {ran:?}");
    }
    let status = program.json(&["status"]);
    assert_eq!(status["jobs"]["total"], 0, "{status}");
    assert_eq!(status["actions"], serde_json::json!([]), "{status}");
}

// The queue holds 3 jobs, and the action has 2 of them. Of a file of 2 the queue takes one; the repeated
// command submits the other.
#[test]
fn a_partly_submitted_file_resumes() {
    let program = BulkProgram::with_engine("queue_max = 3", &[], "limits = [\"1000/s\"]");
    program.output(&["pause", "--tenant", "acme"]);
    program.jobs("first.ndjson", &jobs("acme", 2));
    program.jobs("second.ndjson", &("\n".to_owned() + &jobs("acme", 2)));
    program.output(&["submit", "first.ndjson", "--action", "a", "--keep-open"]);
    let second = ["submit", "second.ndjson", "--action", "a"];
    let ran = program.run(&second);
    assert_eq!(ran.code, Some(75), "{ran:?}");
    for words in [
        "1 job was accepted as action a, 1 was rejected",
        "stays open",
        "submit the file again",
    ] {
        assert!(ran.out.contains(words), "{words}: {ran:?}");
    }
    program.output(&["resume", "--tenant", "acme"]);
    let done = || Ok((program.json(&["status", "a"])["jobs"]["done"] == 3).then_some(()));
    let ended = Deadline::within(PATIENCE).poll(done).expect("asked");
    assert!(ended.is_some(), "the jobs run");
    let again = program.output(&second);
    let said = "1 job was accepted as action a, 1 submitted before";
    assert!(again.contains(said), "{again}");
    assert_eq!(program.json(&["status", "a"])["jobs"]["total"], 4);
}

// 150 lines name an unknown API; the program prints a hundred of them.
#[test]
fn bulk_submit_counts_more_invalid_lines_than_it_prints() {
    let program = program();
    let wrong = "{\"api\":\"nope\",\"path\":\"/\"}\n".repeat(150);
    program.jobs("jobs.ndjson", &wrong);
    let ran = program.run(&["submit", "jobs.ndjson"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.talk.matches("no API is called").count(), 100, "{ran:?}");
    for words in ["150 lines are invalid", "which are 100 of them"] {
        assert!(ran.talk.contains(words), "{words}: {ran:?}");
    }
}

#[test]
fn bulk_submit_prints_a_json_document_for_invalid_lines() {
    let program = program();
    for text in ["{\"api\":\"nope\",\"path\":\"/\"}\n", "{\"api\":\n", "\n"] {
        program.jobs("jobs.ndjson", text);
        let document = program.run(&["submit", "jobs.ndjson", "--json"]).json(2);
        assert_eq!(document["exit_code"], 2, "{document}");
        let because = document["because"][0].as_str().expect("a line");
        assert!(because.starts_with("jobs.ndjson:1: "), "{document}");
    }
}

// An id holds 128 bytes, and the file's name has 110 letters of two bytes each.
#[test]
fn bulk_submit_names_an_action_after_a_file_with_a_long_name() {
    let program = program();
    let name = "\u{fc}".repeat(110) + ".ndjson";
    program.jobs(&name, &jobs("acme", 1));
    let taken = program.json(&["submit", &name]);
    assert_eq!(taken["accepted"], 1, "{taken}");
    let action = taken["action"].as_str().expect("an action");
    assert!(action.len() <= 128 && action.starts_with('\u{fc}'), "{taken}");
}

#[test]
fn bulk_submit_rejects_an_action_without_time() {
    let program = program();
    program.jobs("jobs.ndjson", &jobs("acme", 1));
    for span in ["0s", "0.5ms"] {
        let ran = program.run(&["submit", "jobs.ndjson", "--timeout", span]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains("at least 1ms"), "{ran:?}");
    }
    assert_eq!(program.mock.end()["seen"], 0);
}
