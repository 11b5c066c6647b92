//! `outflow bulk run` of a file that was run before: twice at once, with another configuration, after its
//! end, and for what failed.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::thread;

use serde_json::Value;

use super::bulk_run::{Desk, jobs, lines, results, wait_for_results};
use super::bulk_submit::answer;
use super::support::{Upstream, configured, document, run_in};
use crate::support::PATIENCE;

/// Another API at the same place, which goes slowly.
fn other(desk: &Desk) -> String {
    let url = &desk.upstream.url;
    format!("[apis.other]\nbase_url = \"{url}\"\nlimits = [\"2/s\"]\n")
}

/// So many jobs of that API.
fn of_other(count: usize) -> String {
    let line = |number| format!("{{\"api\":\"other\",\"path\":\"/other/{number}\"}}\n");
    (0..count).map(line).collect()
}

fn configure(desk: &Desk, text: &str) {
    fs::write(desk.path("outflow.toml"), text).expect("writable");
}

pub(super) fn killed(desk: &Desk, flags: &[&str], after: usize) {
    let mut process = desk.start(flags);
    wait_for_results(&mut process, &desk.path("out"), after);
    process.kill().expect("a signal");
    process.wait(PATIENCE).expect("it is gone");
}

fn ids(results: &[Value]) -> BTreeSet<&str> {
    let ids = results.iter().filter_map(|result| result["id"].as_str());
    ids.collect()
}

// 60 jobs at 20/s: the second start comes while the first is in the middle of it.
#[test]
fn a_second_start_is_refused_and_harms_nothing() {
    let desk = Desk::new("20/s", &jobs(&["acme"], 60));
    let flags = ["--out", "out"];
    let mut first = desk.start(&flags);
    wait_for_results(&mut first, &desk.path("out"), 10);
    for again in [&["--out", "./out"][..], &["--out", "elsewhere"]] {
        let second = desk.run(again);
        assert_eq!(second.code, Some(1), "{second:?}");
        assert!(
            second.talk.contains("another process runs this file"),
            "{second:?}"
        );
    }
    assert!(!desk.path("elsewhere").exists());
    let ended = first.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(0), "{:?}", first.lines());
    let results = results(&desk.path("out"));
    assert_eq!((results.len(), ids(&results).len()), (60, 60));
    assert_eq!(desk.upstream.end()["seen"], 60);
}

// 30 jobs at 20/s, and one of an API that nobody knows at first: killed in the middle, then with that API.
#[test]
fn a_line_that_was_left_out_is_done_once_its_api_is_known() {
    let text = jobs(&["acme"], 30) + &of_other(1);
    let desk = Desk::with(&["--limit", "1000/s"], "limits = [\"20/s\"]", &text);
    let flags = ["--skip-invalid", "--out", "out"];
    killed(&desk, &flags, 10);
    let config = desk.upstream.config("limits = [\"20/s\"]");
    configure(&desk, &(config + &other(&desk)));
    let ran = desk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&desk.path("out"))), (1..=31).collect());
}

// The first run is over with one of two lines; the second does the other, and the third nothing. The window
// is long: whoever has nothing to send need not wait for it.
#[test]
fn a_finished_run_takes_up_what_was_left_out_and_else_ends_at_once() {
    let text = jobs(&["acme"], 1) + &of_other(1);
    let desk = Desk::with(&["--limit", "1000/s"], "limits = [\"5/s\"]", &text);
    let flags = ["--skip-invalid", "--out", "out"];
    assert_eq!(desk.run(&flags).code, Some(0));
    assert_eq!(lines(&results(&desk.path("out"))), [1].into());
    let config = desk.upstream.config("limits = [\"5/s\"]") + &other(&desk);
    configure(&desk, &config);
    let ran = desk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&desk.path("out"))), [1, 2].into());
    configure(&desk, &config.replace("5/s", "5/min"));
    let again = desk.run(&flags);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.talk.contains("nothing was sent"), "{again:?}");
    assert!(!again.talk.contains("waiting"), "{again:?}");
    assert_eq!(desk.upstream.end()["seen"], 2);
}

// Ten jobs of an API at 2/s wait when the run is killed, and the API is gone when it goes on.
#[test]
fn jobs_of_an_api_that_is_gone_are_told_and_kept() {
    let text = of_other(10) + &jobs(&["acme"], 40);
    let desk = Desk::with(&["--limit", "1000/s"], "limits = [\"20/s\"]", &text);
    let config = desk.upstream.config("limits = [\"20/s\"]");
    let both = format!("{config}{}", other(&desk));
    configure(&desk, &both);
    let flags = ["--skip-invalid", "--out", "out"];
    killed(&desk, &flags, 12);
    configure(&desk, &config);
    let ran = desk.run(&flags);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.talk.contains("waits in"), "{ran:?}");
    assert!(ran.talk.contains("for `other`"), "{ran:?}");
    configure(&desk, &both);
    let ran = desk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&desk.path("out"))), (1..=50).collect());
}

// Both lines fail for good; then the API is another, which works. One of them has a name of its own.
#[test]
fn what_failed_is_tried_anew_when_that_is_wanted() {
    let text = "{\"id\":\"order-7\",\"api\":\"up\",\"path\":\"/7\",\"max_retries\":0}\n\
                {\"api\":\"up\",\"path\":\"/8\",\"max_retries\":0}\n";
    let desk = Desk::with(&["--fail", "100%"], "limits = [\"100/s\"]", text);
    let flags = ["--out", "out"];
    let ran = desk.run(&flags);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.talk.contains("--retry-failed"), "{ran:?}");
    assert_eq!(lines(&results(&desk.path("out"))), [1, 2].into());
    let works = Upstream::start(&[]);
    configure(&desk, &works.config("limits = [\"100/s\"]"));
    assert_eq!(desk.run(&flags).code, Some(3), "nobody asked for it");
    let again = desk.run(&["--out", "out", "--retry-failed"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.talk.contains("2 jobs: 2 done"), "{again:?}");
    let results = results(&desk.path("out"));
    let anew: Vec<_> = results.iter().filter(|one| one["round"] == 2).collect();
    assert_eq!((results.len(), anew.len()), (4, 2));
    let named = anew.iter().find(|one| one["line"] == 1).expect("line 1");
    assert_eq!(
        (&named["id"], &named["ended"]),
        (&"order-7".into(), &"done".into())
    );
    let over = desk.run(&["--out", "out", "--retry-failed"]);
    assert_eq!(over.code, Some(0), "{over:?}");
    assert!(over.talk.contains("nothing was sent"), "{over:?}");
    assert_eq!(works.end()["seen"], 2);
}

// The key is said as a header, as a field, and not at all: then it is the job's name. Each line is refused for
// good twice.
#[test]
fn what_is_tried_anew_has_the_key_that_it_had() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address");
    let folder = configured(&format!("[apis.shop]\nbase_url = \"http://{place}\"\n"));
    let lines = [
        r#"{"api":"shop","method":"POST","path":"/1","headers":{"Idempotency-Key":"pay-77"},"body":"x"}"#,
        r#"{"api":"shop","method":"POST","path":"/2","idempotency_key":"pay-78"}"#,
        r#"{"id":"pay-79","api":"shop","method":"POST","path":"/3"}"#,
    ];
    fs::write(folder.path().join("jobs.ndjson"), lines.join("\n")).expect("writable");
    let keys = || {
        let mut keys = BTreeSet::new();
        for _ in 0..lines.len() {
            let stream = listener.accept().expect("a connection").0;
            let asked = answer(stream, ("400 Bad Request", "{}")).to_lowercase();
            let said = asked.lines();
            let said = said.filter_map(|line| line.strip_prefix("idempotency-key: "));
            keys.insert(said.collect::<Vec<_>>().join(" and "));
        }
        keys
    };
    let expected: BTreeSet<_> = ["pay-77", "pay-78", "pay-79"].map(str::to_owned).into();
    for more in [&[][..], &["--retry-failed"]] {
        let ran = thread::scope(|threads| {
            let sent = threads.spawn(keys);
            let run = ["bulk", "run", "jobs.ndjson", "--out", "out"];
            let ran = run_in(folder.path(), &[&run[..], more].concat());
            assert_eq!(sent.join().expect("all came"), expected, "{more:?}");
            ran
        });
        assert_eq!(ran.code, Some(3), "{ran:?}");
    }
}

// Both lines have the same name, and the first is the one that is sent.
#[test]
fn a_name_that_is_given_twice_is_that_of_the_first_line() {
    let line = "{\"id\":\"a\",\"api\":\"up\",\"path\":\"/\",\"max_retries\":0}\n";
    let text = format!("{line}{line}");
    let desk = Desk::with(&["--fail", "100%"], "limits = [\"100/s\"]", &text);
    let flags = ["--skip-invalid", "--out", "out"];
    assert_eq!(desk.run(&flags).code, Some(3));
    assert_eq!(lines(&results(&desk.path("out"))), [1].into());
    let works = Upstream::start(&[]);
    configure(&desk, &works.config("limits = [\"100/s\"]"));
    let again = desk.run(&[&flags[..], &["--retry-failed"]].concat());
    assert_eq!(again.code, Some(0), "{again:?}");
    let results = results(&desk.path("out"));
    let last = results.last().expect("a result");
    let expected = (&1.into(), &2.into(), &"a".into());
    assert_eq!((&last["line"], &last["round"], &last["id"]), expected);
    assert_eq!(works.end()["seen"], 1);
}

// The first line has the name and is wrong; the second is right.
#[test]
fn a_wrong_line_does_not_keep_its_name_from_a_right_one() {
    let text = "{\"id\":\"a\",\"api\":\"nope\",\"path\":\"/\"}\n\
                {\"id\":\"a\",\"api\":\"up\",\"path\":\"/\"}\n";
    let desk = Desk::new("100/s", text);
    let ran = desk.run(&["--skip-invalid", "--out", "out"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(lines(&results(&desk.path("out"))), [2].into());
    assert_eq!(desk.upstream.end()["seen"], 1);
}

// 12 jobs at 10 in 3 s: the first ten go at once, and the second sitting waits for most of 3 s before it sends
// two. It takes no second for them.
#[test]
fn the_wait_for_windows_of_before_is_no_part_of_the_pace() {
    let desk = Desk::new("10/3s", &jobs(&["acme"], 12));
    killed(&desk, &["--out", "out"], 10);
    let ran = desk.run(&["--out", "out", "--json"]);
    assert!(ran.talk.contains("waiting"), "{ran:?}");
    let report = ran.json(0);
    assert_eq!(report["in_this_sitting"], 2, "{report}");
    let actual = report["actual_ms"].as_u64().expect("a number");
    assert!(actual < 1_800, "{actual} ms");
}

// 8 jobs at 5 in 20 s, killed when five are done: the second sitting waits long enough to be interrupted.
#[test]
fn whoever_reads_documents_gets_one_when_the_wait_is_interrupted() {
    let desk = Desk::new("5/20s", &jobs(&["acme"], 8));
    killed(&desk, &["--out", "out"], 5);
    let mut waits = desk.start(&["--out", "out", "--json"]);
    waits.wait_for_line("waiting", PATIENCE).expect("it waits");
    waits.terminate().expect("a signal");
    let ended = waits.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(130));
    let report = document(&mut waits);
    assert_eq!(
        (&report["finished"], &report["jobs"]),
        (&false.into(), &5.into())
    );
    assert_eq!(report["in_this_sitting"], 0, "{report}");
}

#[test]
fn results_go_to_the_output_by_the_usual_sign() {
    let desk = Desk::new("100/s", &jobs(&["acme"], 2));
    let ran = desk.run(&["--out", "-"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 2), "{ran:?}");
    assert!(!desk.path("-").exists());
}

// 5 jobs that are done: neither an emptied database nor a directory without one is a file that nobody ran.
#[test]
fn a_run_whose_jobs_are_gone_is_refused_and_nothing_is_sent_again() {
    let desk = Desk::new("1000/s", &jobs(&["acme"], 5));
    let flags = ["--dir", "mine", "--out", "out"];
    let ran = desk.run(&flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let gone = |what: &str| {
        let again = desk.run(&flags);
        assert_eq!(again.code, Some(1), "{again:?}");
        assert!(again.talk.contains(what), "{again:?}");
        assert!(again.talk.contains("restore"), "{again:?}");
    };
    let kept = desk.path("mine/jobs");
    fs::write(kept.join("jobs.db"), b"").expect("emptied");
    gone("jobs.db is empty or gone");
    fs::remove_dir_all(&kept).expect("removed");
    gone("the jobs of this run are missing");
    gone("the jobs of this run are missing");
    assert_eq!(desk.upstream.end()["seen"], 5);
}
