//! `outflow bulk run` of a file that was run before: twice at once, with another configuration, after its
//! end, and for what failed.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::bulk::{Desk, jobs, lines, results, wait_for_results};
use super::support::{PATIENCE, Upstream};

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

fn killed(desk: &Desk, flags: &[&str], after: usize) {
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
        assert!(second.talk.contains("being run already"), "{second:?}");
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
    gone("the jobs of this run are gone");
    gone("the jobs of this run are gone");
    assert_eq!(desk.upstream.end()["seen"], 5);
}
