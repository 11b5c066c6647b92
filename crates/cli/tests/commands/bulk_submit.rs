//! `outflow bulk submit`: all of a file, or nothing of it.

use super::bulk_serve::{Working, jobs};

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
    assert!(ran.talk.contains("1 line is wrong"), "{ran:?}");
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

// The names of the jobs follow from the file: under a second action all three are known, and none is in it.
#[test]
fn an_action_that_got_no_job_is_not_pointed_at() {
    let working = working();
    working.told(&["pause", "--tenant", "acme"]);
    working.jobs("jobs.ndjson", &jobs("acme", 3));
    working.told(&["submit", "jobs.ndjson", "--action", "first"]);
    let again = working.told(&["submit", "jobs.ndjson", "--action", "second"]);
    let said = "0 jobs were taken, 3 had been before, and no action was opened";
    assert!(again.contains(said), "{again}");
    assert!(!again.contains("watch"), "{again}");
    let told = working.json(&["submit", "jobs.ndjson", "--action", "second"]);
    assert_eq!(told["action"], serde_json::Value::Null, "{told}");
    let known = working.told(&["submit", "jobs.ndjson", "--action", "first"]);
    assert!(known.contains("bulk watch first"), "{known}");
}
