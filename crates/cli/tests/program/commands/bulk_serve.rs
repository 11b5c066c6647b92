//! `outflow serve --bulk` and the commands that control it.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::serve::{ServeProcess, serve};
use super::support::{MockProcess, RunOutput, configured, run, run_in};
use crate::support::PATIENCE;

pub(super) struct BulkProgram {
    pub(super) folder: TempDir,
    pub(super) mock: MockProcess,
    pub(super) served: ServeProcess,
}

impl BulkProgram {
    pub(super) fn start(flags: &[&str], config: &str) -> Self {
        Self::with_engine("", flags, config)
    }

    pub(super) fn with_engine(engine: &str, flags: &[&str], config: &str) -> Self {
        let mock = MockProcess::start(flags);
        let api = mock.config(config);
        let text = format!("[bulk]\ndir = \"kept\"\n{engine}\n{api}");
        let folder = configured(&text);
        let served = serve(&folder, &["--bulk"]);
        Self { folder, mock, served }
    }

    pub(super) fn jobs(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("writable");
    }

    pub(super) fn run(&self, arguments: &[&str]) -> RunOutput {
        let all = [&["bulk"], arguments, &["--admin", &self.served.admin]].concat();
        run_in(self.folder.path(), &all)
    }

    pub(super) fn output(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.out
    }

    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--json"]].concat()).json(0)
    }
}

pub(super) fn jobs(tenant: &str, count: usize) -> String {
    let line =
        |number| format!("{{\"tenant\":\"{tenant}\",\"api\":\"up\",\"path\":\"/{number}\",\"max_retries\":0}}\n");
    (0..count).map(line).collect()
}

// 30 jobs of two tenants at 100/s: submitted twice, done once.
#[test]
fn bulk_commands_submit_watch_and_fetch_a_file() {
    let program = BulkProgram::start(&["--limit", "100/s"], "limits = [\"100/s\"]");
    program.jobs("jobs.ndjson", &(jobs("acme", 20) + &jobs("bolt", 10)));
    let submit = ["submit", "jobs.ndjson", "--action", "nightly"];
    let taken = program.output(&submit);
    assert!(taken.contains("30 jobs were accepted as action nightly"), "{taken}");
    let watched = program.output(&["watch", "nightly"]);
    assert!(
        watched.contains("COMPLETED") && watched.contains("30 of 30"),
        "{watched}"
    );
    let results = program.output(&["results", "nightly"]);
    assert_eq!(results.lines().count(), 30, "{results}");
    let status = program.json(&["status", "nightly"]);
    assert_eq!(
        (&status["stage"], &status["jobs"]["done"]),
        (&"COMPLETED".into(), &30.into())
    );
    let all = program.output(&["status"]);
    assert!(all.contains("30 done") && all.contains("nightly"), "{all}");
    let again = program.json(&["submit", "jobs.ndjson", "--action", "again"]);
    assert_eq!((&again["accepted"], &again["duplicates"]), (&0.into(), &30.into()));
    assert_eq!(program.mock.end()["seen"], 30);
}

// 3 jobs and one call for the webhook. An action without its own settings uses the configured ones.
#[test]
fn an_action_can_set_its_timeout_and_webhook() {
    let program = BulkProgram::start(&[], "limits = [\"100/s\"]");
    program.jobs("jobs.ndjson", &jobs("acme", 3));
    let wrong = program.run(&["submit", "jobs.ndjson", "--webhook", "nowhere"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.talk.contains("like `ours/hooks/bulk`"), "{wrong:?}");
    let unknown = program.run(&["submit", "jobs.ndjson", "--webhook", "other/hook"]);
    assert_ne!(unknown.code, Some(0), "{unknown:?}");
    let said = ["--timeout", "2h", "--webhook", "up/hook", "--action", "a"];
    program.output(&[&["submit", "jobs.ndjson"], &said[..]].concat());
    program.output(&["watch", "a"]);
    assert_eq!(program.json(&["status", "a"])["timeout_ms"], 7_200_000);
    program.output(&[&["submit", "jobs.ndjson"], &said[..]].concat());
    let kept = program.output(&["results", "a"]);
    assert_eq!(kept.lines().count(), 3, "the same again changes nothing");
    program.jobs("more.ndjson", &jobs("bolt", 1));
    program.output(&["submit", "more.ndjson", "--action", "b"]);
    program.output(&["watch", "b"]);
    assert_eq!(program.json(&["status", "b"])["timeout_ms"], 3_600_000);
    assert_eq!(program.mock.end()["seen"], 3 + 1 + 1);
}

#[test]
fn bulk_commands_pause_resume_and_cancel_jobs() {
    let program = BulkProgram::start(&[], "limits = [\"100/s\"]");
    let paused = program.output(&["pause", "--tenant", "acme", "--reason", "a & b"]);
    assert!(paused.starts_with("paused"), "{paused}");
    assert!(paused.contains("no jobs of this tenant are known yet"), "{paused}");
    for unknown in [
        &["resume", "--tenant", "nope"][..],
        &["cancel", "--tenant", "nope"],
        &["release", "nope"],
    ] {
        let ran = program.run(unknown);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.talk.contains("\"nope\""), "{ran:?}");
    }
    program.jobs("jobs.ndjson", &jobs("acme", 5));
    program.output(&["submit", "jobs.ndjson", "--action", "a"]);
    let status = program.json(&["status"]);
    assert_eq!(
        (&status["jobs"]["queued"], &status["jobs"]["done"]),
        (&5.into(), &0.into())
    );
    assert!(program.output(&["status"]).contains("acme (paused)"));
    program.output(&["resume", "--tenant", "acme"]);
    program.output(&["watch", "a"]);
    let late = program.run(&["pause", "--action", "a"]);
    assert_eq!(late.code, Some(1), "{late:?}");
    assert!(late.talk.contains("COMPLETED"), "{late:?}");
    let again = program.output(&["pause", "--tenant", "acme"]);
    assert!(!again.contains("known yet"), "{again}");
    program.jobs("more.csv", "tenant,api,path\nacme,up,/x\nacme,up,/y\n");
    program.output(&["submit", "more.csv", "--action", "b"]);
    let cancelled = program.output(&["cancel", "--action", "b"]);
    assert!(cancelled.starts_with("2 jobs were cancelled"), "{cancelled}");
    let watched = program.run(&["watch", "b"]);
    assert_eq!(watched.code, Some(3), "not all were done: {watched:?}");
    let released = program.output(&["release", "acme", "10"]);
    assert!(released.starts_with("0 jobs"), "{released}");
    assert_eq!(program.mock.end()["seen"], 5);
}

#[test]
fn bulk_dead_lists_retries_and_purges() {
    let program = BulkProgram::start(&["--fail", "100%"], "limits = [\"100/s\"]");
    program.jobs("jobs.ndjson", &jobs("acme", 2));
    program.output(&["submit", "jobs.ndjson", "--action", "a"]);
    let watched = program.run(&["watch", "a"]);
    assert_eq!(watched.code, Some(3), "{watched:?}");
    let results = program.json(&["results", "a"]);
    let errors = results["results"].as_array().expect("a list").iter();
    let explained = |one: &Value| {
        let words = one["error"].as_str();
        words.is_some_and(|words| words.contains("answered 5"))
    };
    assert!(
        errors.clone().count() == 2 && errors.clone().all(explained),
        "{results}"
    );
    let listed = program.output(&["dead", "list"]);
    assert_eq!(listed.matches("the API answered 5").count(), 2, "{listed}");
    assert!(!listed.contains("--after"), "that is all: {listed}");
    let first = program.output(&["dead", "list", "--limit", "1"]);
    assert_eq!(first.matches("the API answered 5").count(), 1, "{first}");
    let more = "there are 2 in all: `--after ";
    assert!(first.contains(more) && first.contains("--limit"), "{first}");
    let purged = program.output(&["dead", "purge", "--tenant", "unknown"]);
    assert!(purged.starts_with("0 dead letters"), "{purged}");
    let retried = program.output(&["dead", "retry", "--all"]);
    assert!(retried.starts_with("2 jobs are queued again"), "{retried}");
    let ran = program.run(&["dead", "retry"]);
    assert_eq!(ran.code, Some(2), "which are meant has to be said: {ran:?}");
    let nothing = program.run(&["dead", "retry", "--tenant", "unknown"]);
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    assert!(nothing.talk.contains("no dead letter was found"), "{nothing:?}");
}

// Ten jobs wait when the program stops; the next program runs them.
#[test]
fn waiting_jobs_survive_a_restart() {
    let mut program = BulkProgram::start(&[], "limits = [\"100/s\"]");
    program.output(&["pause", "--tenant", "acme"]);
    program.jobs("jobs.ndjson", &jobs("acme", 10));
    program.output(&["submit", "jobs.ndjson", "--action", "a"]);
    program.served.process.terminate().expect("a signal");
    let ended = program.served.process.wait(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(0));
    program.served = serve(&program.folder, &["--bulk"]);
    program.output(&["resume", "--tenant", "acme"]);
    program.output(&["watch", "a"]);
    assert_eq!(program.mock.end()["seen"], 10);
}

// 5 in 5 s and 8 jobs: five are sent at once. The next process does not know of them and waits.
#[test]
fn a_program_after_a_crash_respects_the_limit() {
    let mut program = BulkProgram::start(&["--limit", "5/5s"], "limits = [\"5/5s\"]");
    program.jobs("jobs.ndjson", &jobs("acme", 8));
    program.output(&["submit", "jobs.ndjson", "--action", "a"]);
    for _ in 0..200 {
        if program.json(&["status"])["jobs"]["done"] == 5 {
            break;
        }
    }
    program.served.process.kill().expect("a signal");
    program.served.process.wait(PATIENCE).expect("it is gone");
    program.served = serve(&program.folder, &["--bulk"]);
    program.output(&["watch", "a"]);
    let seen = program.mock.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&8.into(), &0.into()));
}

#[test]
fn a_reload_changes_the_scheduler() {
    let program = BulkProgram::start(&[], "limits = [\"100/s\"]");
    assert_eq!(program.json(&["status"])["scheduler"], "permit");
    let file = program.folder.path().join("outflow.toml");
    let text = fs::read_to_string(&file).expect("readable");
    let text = text.replace("[bulk]\n", "[bulk]\nscheduler = \"fixed\"\n");
    fs::write(&file, text).expect("writable");
    let reload = ["reload", "--admin", &program.served.admin];
    let reloaded = run_in(program.folder.path(), &reload);
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    assert_eq!(program.json(&["status"])["scheduler"], "fixed");
}

#[test]
fn a_second_engine_refuses_a_locked_directory() {
    let program = BulkProgram::start(&[], "limits = [\"100/s\"]");
    let serve = ["serve", "--bulk", "--listen", ":0", "--admin", ":0"];
    let second = run_in(program.folder.path(), &serve);
    assert_eq!(second.code, Some(1), "{second:?}");
}

#[test]
fn bulk_commands_without_an_engine_say_how_to_start_one() {
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
        let ran = run_in(folder.path(), &[arguments, &["--admin", &served.admin]].concat());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.talk.contains("outflow serve --bulk"), "{ran:?}");
    }
}

#[test]
fn commands_without_a_running_program_say_how_to_start_one() {
    let ran = run(&["bulk", "status", "--admin", "127.0.0.1:9"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.talk.contains("outflow serve"), "{ran:?}");
    let ran = run(&["bulk", "pause", "--admin", "127.0.0.1:9"]);
    assert_eq!(ran.code, Some(2), "whose jobs has to be said: {ran:?}");
}
