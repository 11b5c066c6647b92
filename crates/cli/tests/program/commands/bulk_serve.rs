//! `outflow serve --bulk`, and the commands that talk with it.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::serve::{Served, serve};
use super::support::{Ran, Upstream, configured, run, run_in};
use crate::support::PATIENCE;

pub(super) struct Working {
    pub(super) folder: TempDir,
    pub(super) upstream: Upstream,
    pub(super) served: Served,
}

impl Working {
    pub(super) fn start(flags: &[&str], config: &str) -> Self {
        Self::with_engine("", flags, config)
    }

    pub(super) fn with_engine(engine: &str, flags: &[&str], config: &str) -> Self {
        let upstream = Upstream::start(flags);
        let api = upstream.config(config);
        let text = format!("[bulk]\ndir = \"kept\"\n{engine}\n{api}");
        let folder = configured(&text);
        let served = serve(&folder, &["--bulk"]);
        Self {
            folder,
            upstream,
            served,
        }
    }

    pub(super) fn jobs(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("writable");
    }

    pub(super) fn ask(&self, arguments: &[&str]) -> Ran {
        let all = [&["bulk"], arguments, &["--admin", &self.served.admin]].concat();
        run_in(self.folder.path(), &all)
    }

    pub(super) fn told(&self, arguments: &[&str]) -> String {
        let ran = self.ask(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.out
    }

    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        self.ask(&[arguments, &["--json"]].concat()).json(0)
    }
}

pub(super) fn jobs(tenant: &str, count: usize) -> String {
    let line = |number| {
        format!(
            "{{\"tenant\":\"{tenant}\",\"api\":\"up\",\"path\":\"/{number}\",\"max_retries\":0}}\n"
        )
    };
    (0..count).map(line).collect()
}

// 30 jobs of two tenants at 100/s: submitted twice, done once.
#[test]
fn a_file_is_submitted_watched_and_its_results_fetched() {
    let working = Working::start(&["--limit", "100/s"], "limits = [\"100/s\"]");
    working.jobs("jobs.ndjson", &(jobs("acme", 20) + &jobs("bolt", 10)));
    let submit = ["submit", "jobs.ndjson", "--action", "nightly"];
    let taken = working.told(&submit);
    assert!(
        taken.contains("30 jobs were accepted as action nightly"),
        "{taken}"
    );
    let watched = working.told(&["watch", "nightly"]);
    assert!(
        watched.contains("COMPLETED") && watched.contains("30 of 30"),
        "{watched}"
    );
    let results = working.told(&["results", "nightly"]);
    assert_eq!(results.lines().count(), 30, "{results}");
    let status = working.json(&["status", "nightly"]);
    assert_eq!(
        (&status["stage"], &status["jobs"]["done"]),
        (&"COMPLETED".into(), &30.into())
    );
    let all = working.told(&["status"]);
    assert!(all.contains("30 done") && all.contains("nightly"), "{all}");
    let again = working.json(&["submit", "jobs.ndjson", "--action", "again"]);
    assert_eq!(
        (&again["accepted"], &again["duplicates"]),
        (&0.into(), &30.into())
    );
    assert_eq!(working.upstream.end()["seen"], 30);
}

// 3 jobs, and one call more for the webhook. What the configuration says of all actions holds for those that
// say nothing.
#[test]
fn an_action_may_say_how_long_it_takes_and_whom_to_tell() {
    let working = Working::start(&[], "limits = [\"100/s\"]");
    working.jobs("jobs.ndjson", &jobs("acme", 3));
    let wrong = working.ask(&["submit", "jobs.ndjson", "--webhook", "nowhere"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.talk.contains("like `ours/hooks/bulk`"), "{wrong:?}");
    let unknown = working.ask(&["submit", "jobs.ndjson", "--webhook", "other/hook"]);
    assert_ne!(unknown.code, Some(0), "{unknown:?}");
    let said = ["--timeout", "2h", "--webhook", "up/hook", "--action", "a"];
    working.told(&[&["submit", "jobs.ndjson"], &said[..]].concat());
    working.told(&["watch", "a"]);
    assert_eq!(working.json(&["status", "a"])["timeout_ms"], 7_200_000);
    working.told(&[&["submit", "jobs.ndjson"], &said[..]].concat());
    let kept = working.told(&["results", "a"]);
    assert_eq!(kept.lines().count(), 3, "the same again changes nothing");
    working.jobs("more.ndjson", &jobs("bolt", 1));
    working.told(&["submit", "more.ndjson", "--action", "b"]);
    working.told(&["watch", "b"]);
    assert_eq!(working.json(&["status", "b"])["timeout_ms"], 3_600_000);
    assert_eq!(working.upstream.end()["seen"], 3 + 1 + 1);
}

#[test]
fn jobs_are_paused_resumed_and_cancelled() {
    let working = Working::start(&[], "limits = [\"100/s\"]");
    let paused = working.told(&["pause", "--tenant", "acme", "--reason", "a & b"]);
    assert!(paused.starts_with("paused"), "{paused}");
    assert!(
        paused.contains("no jobs of this tenant are known yet"),
        "{paused}"
    );
    for nobody in [
        &["resume", "--tenant", "nope"][..],
        &["cancel", "--tenant", "nope"],
        &["release", "nope"],
    ] {
        let ran = working.ask(nobody);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.talk.contains("\"nope\""), "{ran:?}");
    }
    working.jobs("jobs.ndjson", &jobs("acme", 5));
    working.told(&["submit", "jobs.ndjson", "--action", "a"]);
    let status = working.json(&["status"]);
    assert_eq!(
        (&status["jobs"]["queued"], &status["jobs"]["done"]),
        (&5.into(), &0.into())
    );
    assert!(working.told(&["status"]).contains("acme (paused)"));
    working.told(&["resume", "--tenant", "acme"]);
    working.told(&["watch", "a"]);
    let late = working.ask(&["pause", "--action", "a"]);
    assert_eq!(late.code, Some(1), "{late:?}");
    assert!(late.talk.contains("COMPLETED"), "{late:?}");
    let again = working.told(&["pause", "--tenant", "acme"]);
    assert!(!again.contains("known yet"), "{again}");
    working.jobs("more.csv", "tenant,api,path\nacme,up,/x\nacme,up,/y\n");
    working.told(&["submit", "more.csv", "--action", "b"]);
    let cancelled = working.told(&["cancel", "--action", "b"]);
    assert!(
        cancelled.starts_with("2 jobs were cancelled"),
        "{cancelled}"
    );
    let watched = working.ask(&["watch", "b"]);
    assert_eq!(watched.code, Some(3), "not all were done: {watched:?}");
    let released = working.told(&["release", "acme", "10"]);
    assert!(released.starts_with("0 jobs"), "{released}");
    assert_eq!(working.upstream.end()["seen"], 5);
}

#[test]
fn dead_letters_are_listed_retried_and_purged() {
    let working = Working::start(&["--fail", "100%"], "limits = [\"100/s\"]");
    working.jobs("jobs.ndjson", &jobs("acme", 2));
    working.told(&["submit", "jobs.ndjson", "--action", "a"]);
    let watched = working.ask(&["watch", "a"]);
    assert_eq!(watched.code, Some(3), "{watched:?}");
    let results = working.json(&["results", "a"]);
    let errors = results["results"].as_array().expect("a list").iter();
    let explained = |one: &Value| {
        let words = one["error"].as_str();
        words.is_some_and(|words| words.contains("answered 5"))
    };
    assert!(
        errors.clone().count() == 2 && errors.clone().all(explained),
        "{results}"
    );
    let listed = working.told(&["dead", "list"]);
    assert_eq!(listed.matches("the API answered 5").count(), 2, "{listed}");
    assert!(!listed.contains("--after"), "that is all: {listed}");
    let first = working.told(&["dead", "list", "--limit", "1"]);
    assert_eq!(first.matches("the API answered 5").count(), 1, "{first}");
    let more = "there are 2 in all: `--after ";
    assert!(first.contains(more) && first.contains("--limit"), "{first}");
    let purged = working.told(&["dead", "purge", "--tenant", "nobody"]);
    assert!(purged.starts_with("0 dead letters"), "{purged}");
    let retried = working.told(&["dead", "retry", "--all"]);
    assert!(retried.starts_with("2 jobs are queued again"), "{retried}");
    let ran = working.ask(&["dead", "retry"]);
    assert_eq!(ran.code, Some(2), "which are meant has to be said: {ran:?}");
}

// Ten jobs wait when the program is stopped, and are done by the next one.
#[test]
fn what_waits_outlives_the_program() {
    let mut working = Working::start(&[], "limits = [\"100/s\"]");
    working.told(&["pause", "--tenant", "acme"]);
    working.jobs("jobs.ndjson", &jobs("acme", 10));
    working.told(&["submit", "jobs.ndjson", "--action", "a"]);
    working.served.process.terminate().expect("a signal");
    let ended = working.served.process.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(0));
    working.served = serve(&working.folder, &["--bulk"]);
    working.told(&["resume", "--tenant", "acme"]);
    working.told(&["watch", "a"]);
    assert_eq!(working.upstream.end()["seen"], 10);
}

// 5 in 5 s, and 8 jobs: five are sent at once. What starts next knows nothing of them and waits.
#[test]
fn a_killed_program_is_followed_by_one_that_keeps_to_the_limit() {
    let mut working = Working::start(&["--limit", "5/5s"], "limits = [\"5/5s\"]");
    working.jobs("jobs.ndjson", &jobs("acme", 8));
    working.told(&["submit", "jobs.ndjson", "--action", "a"]);
    for _ in 0..200 {
        if working.json(&["status"])["jobs"]["done"] == 5 {
            break;
        }
    }
    working.served.process.kill().expect("a signal");
    working.served.process.wait(PATIENCE).expect("it is gone");
    working.served = serve(&working.folder, &["--bulk"]);
    working.told(&["watch", "a"]);
    let seen = working.upstream.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&8.into(), &0.into()));
}

#[test]
fn a_reload_changes_how_jobs_are_worked_on() {
    let working = Working::start(&[], "limits = [\"100/s\"]");
    assert_eq!(working.json(&["status"])["scheduler"], "permit");
    let file = working.folder.path().join("outflow.toml");
    let text = fs::read_to_string(&file).expect("readable");
    let text = text.replace("[bulk]\n", "[bulk]\nscheduler = \"fixed\"\n");
    fs::write(&file, text).expect("writable");
    let reload = ["reload", "--admin", &working.served.admin];
    let reloaded = run_in(working.folder.path(), &reload);
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    assert_eq!(working.json(&["status"])["scheduler"], "fixed");
}

#[test]
fn two_programs_do_not_work_in_one_directory() {
    let working = Working::start(&[], "limits = [\"100/s\"]");
    let serve = ["serve", "--bulk", "--listen", ":0", "--admin", ":0"];
    let second = run_in(working.folder.path(), &serve);
    assert_eq!(second.code, Some(1), "{second:?}");
}

#[test]
fn a_program_without_an_engine_says_how_to_get_one() {
    let folder = configured("[apis.a]\nbase_url = \"http://127.0.0.1:9\"\n");
    let served = serve(&folder, &[]);
    fs::write(folder.path().join("jobs.ndjson"), jobs("acme", 1)).expect("writable");
    for arguments in [
        &["bulk", "status"][..],
        &["bulk", "submit", "jobs.ndjson"],
        &["bulk", "watch", "a"],
        &["bulk", "results", "a"],
        &["bulk", "pause", "--tenant", "acme"],
        &["bulk", "dead", "list"],
        &["bulk", "release", "acme"],
    ] {
        let ran = run_in(
            folder.path(),
            &[arguments, &["--admin", &served.admin]].concat(),
        );
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.talk.contains("outflow serve --bulk"), "{ran:?}");
    }
}

#[test]
fn without_a_program_they_say_how_to_start_one() {
    let ran = run(&["bulk", "status", "--admin", "127.0.0.1:9"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.talk.contains("outflow serve"), "{ran:?}");
    let ran = run(&["bulk", "pause", "--admin", "127.0.0.1:9"]);
    assert_eq!(ran.code, Some(2), "whose jobs has to be said: {ran:?}");
}
