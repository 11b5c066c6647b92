//! `outflow bulk submit`: all of a file, or nothing of it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::bulk_serve::{Working, jobs};
use super::support::{folder, run_in};
use crate::support::PATIENCE;

fn working() -> Working {
    Working::start(&["--limit", "1000/s"], "limits = [\"1000/s\"]")
}

// 1,001 good lines fill one batch and begin another; the wrong one is in the second.
#[test]
fn a_wrong_line_far_behind_keeps_the_first_from_being_taken() {
    let working = working();
    let wrong = "{\"api\":\"nope\",\"path\":\"/\"}\n";
    working.jobs("jobs.ndjson", &(jobs("acme", 1_001) + wrong));
    let ran = working.ask(&["submit", "jobs.ndjson", "--action", "a"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.talk.contains("jobs.ndjson:1002: no API"), "{ran:?}");
    assert!(ran.talk.contains("1 line is invalid"), "{ran:?}");
    let status = working.json(&["status"]);
    assert_eq!(status["jobs"]["total"], 0, "{status}");
    assert_eq!(status["actions"], serde_json::json!([]), "{status}");
    assert_eq!(working.upstream.end()["seen"], 0);
}

#[test]
fn a_name_twice_in_a_file_is_told() {
    let working = working();
    let line = "{\"id\":\"one\",\"api\":\"up\",\"path\":\"/\"}\n";
    working.jobs("jobs.ndjson", &format!("{line}{line}"));
    let ran = working.ask(&["submit", "jobs.ndjson"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let said = "jobs.ndjson:2: id: line 1 has the same";
    assert!(ran.talk.contains(said), "{ran:?}");
}

// 900 jobs of 20 KB are 18 MB, more than a program takes at once. They are paused: nothing is sent.
#[test]
fn a_file_of_large_jobs_is_cut_by_its_bytes() {
    let working = working();
    working.told(&["pause", "--tenant", "acme"]);
    let body = "x".repeat(20_000);
    let line = |number| {
        format!(
            "{{\"tenant\":\"acme\",\"api\":\"up\",\"path\":\"/{number}\",\"body\":\"{body}\"}}\n"
        )
    };
    let text: String = (0..900).map(line).collect();
    working.jobs("jobs.ndjson", &text);
    let taken = working.json(&["submit", "jobs.ndjson", "--action", "a"]);
    assert_eq!(taken["accepted"], 900, "{taken}");
}

// The action is closed with its first file, and still has work when the second comes.
#[test]
fn an_action_that_takes_no_more_says_so() {
    let working = working();
    working.told(&["pause", "--tenant", "acme"]);
    working.jobs("first.ndjson", &jobs("acme", 1));
    working.jobs("second.ndjson", &jobs("acme", 2));
    working.told(&["submit", "first.ndjson", "--action", "a"]);
    let ran = working.ask(&["submit", "second.ndjson", "--action", "a"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("takes no more jobs"), "{ran:?}");
}

/// Reads a request to its end and answers it; what was asked.
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
        let said = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
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

// 1,001 jobs are two batches: both pass the check and have room, one is taken, and the disk is
// full for the other.
#[test]
fn a_submission_that_breaks_off_says_how_many_were_taken_and_what_to_do() {
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
        let submit = [
            "bulk",
            "submit",
            "jobs.ndjson",
            "--action",
            "a",
            "--admin",
            &admin,
        ];
        run_in(folder.path(), &submit)
    });
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let said = "1000 of 1001 jobs were accepted as action a, which stays open";
    for words in [said, "submit the file again", "the disk is full"] {
        assert!(ran.talk.contains(words), "{words}: {ran:?}");
    }
}

// The names of the jobs follow from the file: under a second action all three are known, and none is in it.
#[test]
fn an_action_that_got_no_job_is_not_pointed_at() {
    let working = working();
    working.told(&["pause", "--tenant", "acme"]);
    working.jobs("jobs.ndjson", &jobs("acme", 3));
    working.told(&["submit", "jobs.ndjson", "--action", "first"]);
    let again = working.told(&["submit", "jobs.ndjson", "--action", "second"]);
    let said = "0 jobs were accepted, 3 submitted before, and no action was opened";
    assert!(again.contains(said), "{again}");
    assert!(!again.contains("watch"), "{again}");
    let told = working.json(&["submit", "jobs.ndjson", "--action", "second"]);
    assert_eq!(told["action"], serde_json::Value::Null, "{told}");
    let known = working.told(&["submit", "jobs.ndjson", "--action", "first"]);
    assert!(known.contains("bulk watch first"), "{known}");
}

// 2,500 jobs are three batches, and the queue has room for the first and a half.
#[test]
fn a_file_that_the_queue_has_no_room_for_is_refused_whole() {
    let config = "limits = [\"1000/s\"]";
    let working = Working::with_engine("queue_max = 1500", &[], config);
    working.told(&["pause", "--tenant", "acme"]);
    working.jobs("jobs.ndjson", &jobs("acme", 2_500));
    let ran = working.ask(&["submit", "jobs.ndjson", "--action", "a"]);
    assert_eq!(ran.code, Some(75), "{ran:?}");
    for words in [
        "0 jobs were accepted",
        "space for 1500 of 2500 jobs",
        "bulk.queue_max",
    ] {
        assert!(ran.out.contains(words), "{words}: {ran:?}");
    }
    let status = working.json(&["status"]);
    assert_eq!(status["jobs"]["total"], 0, "{status}");
    assert_eq!(status["actions"], serde_json::json!([]), "{status}");
}

// The queue holds 3. The action has 2 of them when a file of 2 comes: one is taken, and the other when the
// same command is given again.
#[test]
fn a_file_that_was_taken_in_part_goes_on_where_it_stopped() {
    let working = Working::with_engine("queue_max = 3", &[], "limits = [\"1000/s\"]");
    working.told(&["pause", "--tenant", "acme"]);
    working.jobs("first.ndjson", &jobs("acme", 2));
    working.jobs("second.ndjson", &("\n".to_owned() + &jobs("acme", 2)));
    working.told(&["submit", "first.ndjson", "--action", "a", "--keep-open"]);
    let second = ["submit", "second.ndjson", "--action", "a"];
    let ran = working.ask(&second);
    assert_eq!(ran.code, Some(75), "{ran:?}");
    for words in [
        "1 job was accepted as action a, 1 was rejected",
        "stays open",
        "submit the file again",
    ] {
        assert!(ran.out.contains(words), "{words}: {ran:?}");
    }
    working.told(&["cancel", "--tenant", "acme"]);
    let again = working.told(&second);
    let said = "1 job was accepted as action a, 1 submitted before";
    assert!(again.contains(said), "{again}");
    assert_eq!(working.json(&["status", "a"])["jobs"]["total"], 4);
}

// 150 lines name an API that nobody knows; a program tells a hundred of them.
#[test]
fn all_wrong_lines_are_counted_even_if_not_all_are_told() {
    let working = working();
    let wrong = "{\"api\":\"nope\",\"path\":\"/\"}\n".repeat(150);
    working.jobs("jobs.ndjson", &wrong);
    let ran = working.ask(&["submit", "jobs.ndjson"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.talk.matches("no API is called").count(), 100, "{ran:?}");
    for words in ["150 lines are invalid", "which are 100 of them"] {
        assert!(ran.talk.contains(words), "{words}: {ran:?}");
    }
}

#[test]
fn whoever_reads_documents_gets_one_for_wrong_lines_too() {
    let working = working();
    for text in ["{\"api\":\"nope\",\"path\":\"/\"}\n", "{\"api\":\n", "\n"] {
        working.jobs("jobs.ndjson", text);
        let told = working.ask(&["submit", "jobs.ndjson", "--json"]).json(2);
        assert_eq!(told["exit_code"], 2, "{told}");
        let because = told["because"][0].as_str().expect("a line");
        assert!(because.starts_with("jobs.ndjson:1: "), "{told}");
    }
}

// A name holds 128 bytes, and the file's is of 110 letters of two bytes each.
#[test]
fn an_action_is_named_after_a_file_however_long_its_name_is() {
    let working = working();
    let name = "\u{fc}".repeat(110) + ".ndjson";
    working.jobs(&name, &jobs("acme", 1));
    let taken = working.json(&["submit", &name]);
    assert_eq!(taken["accepted"], 1, "{taken}");
    let action = taken["action"].as_str().expect("an action");
    assert!(
        action.len() <= 128 && action.starts_with('\u{fc}'),
        "{taken}"
    );
}

#[test]
fn an_action_that_has_no_time_at_all_is_refused() {
    let working = working();
    working.jobs("jobs.ndjson", &jobs("acme", 1));
    for span in ["0s", "0.5ms"] {
        let ran = working.ask(&["submit", "jobs.ndjson", "--timeout", span]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.talk.contains("at least 1ms"), "{ran:?}");
    }
    assert_eq!(working.upstream.end()["seen"], 0);
}
