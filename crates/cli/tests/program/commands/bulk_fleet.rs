//! `outflow serve --bulk` in three processes that share one Redis and one mock API.

use std::fs;
use std::time::Duration;

use outflow_testkit::{Keep, Process, RedisOptions, RedisServer};
use tempfile::TempDir;

use super::support::{MockProcess, RunOutput, command, configured, fetch, run_in};
use crate::support::PATIENCE;

/// One of several programs that share a queue.
struct FleetMember {
    folder: TempDir,
    process: Process,
    admin: String,
}

impl FleetMember {
    fn start(config: &str, redis: &str) -> Self {
        let folder = configured(config);
        let serve = ["serve", "--bulk", "--listen", ":0", "--admin", ":0"];
        let mut command = command(folder.path(), &serve);
        command.env("REDIS_URL", redis);
        let mut process = Process::start(command).expect("it starts");
        let line = process.wait_for_line("operation ", PATIENCE);
        let line = line.expect("a banner");
        let admin = line.split_whitespace().nth(1).expect("a URL");
        let admin = admin.trim_end_matches('/').to_owned();
        Self { folder, process, admin }
    }

    fn run(&self, arguments: &[&str]) -> RunOutput {
        let all = [&["bulk"], arguments, &["--admin", &self.admin]].concat();
        run_in(self.folder.path(), &all)
    }

    fn done(&self) -> u64 {
        let status = self.run(&["status", "--json"]).json(0);
        status["jobs"]["done"].as_u64().expect("a number")
    }
}

fn jobs(count: usize) -> String {
    let line = |number: usize| {
        let tenant = ["acme", "bolt", "core"][number % 3];
        format!("{{\"tenant\":\"{tenant}\",\"api\":\"up\",\"path\":\"/{number}\"}}\n")
    };
    (0..count).map(line).collect()
}

// The three share 60 a second. One of them is killed when a fifth of the 300 jobs is done. Its worker pool
// has at most ten jobs in flight, which run again.
#[test]
fn three_programs_share_one_limit_and_survive_a_crash() {
    let options = RedisOptions {
        keep: Keep::UntilPowerLoss,
        ..RedisOptions::default()
    };
    let redis = RedisServer::start(options).expect("a server");
    let mock = MockProcess::start(&["--limit", "60/s"]);
    let api = mock.config("limits = [\"60/s\"]");
    let bulk = "[bulk]\nstore = \"redis\"\nredis.url_env = \"REDIS_URL\"\nlease = \"2s\"\n\
                heartbeat = \"500ms\"\nworkers = { min = 10, max = 10 }\n";
    let config = format!("{bulk}{api}");
    let mut fleet: Vec<FleetMember> = (0..3).map(|_| FleetMember::start(&config, &redis.url())).collect();
    fs::write(fleet[0].folder.path().join("jobs.ndjson"), jobs(300)).expect("writable");
    let taken = fleet[0].run(&["submit", "jobs.ndjson", "--action", "nightly"]);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    while fleet[0].done() < 60 {
        let lives = fleet[2].process.wait(Duration::from_millis(200));
        lives.expect_err("it still runs");
    }
    fleet[2].process.kill().expect("killed");
    let watched = fleet[0].run(&["watch", "nightly"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert!(watched.out.contains("300 of 300"), "{watched:?}");
    assert_eq!(fleet[1].done(), 300);
    let seen = mock.end();
    let calls = seen["seen"].as_u64().expect("a number");
    assert!((300..=310).contains(&calls), "{seen}");
    assert_eq!(seen["refused"], 0, "{seen}");
    let most = seen["limits"][0]["most_in_any_window"].as_u64();
    assert!(most.expect("a number") <= 60, "{seen}");
}

// A load balancer must not send jobs to a program that cannot store them.
#[test]
fn a_program_is_not_ready_while_its_store_is_away() {
    let mut redis = RedisServer::start(RedisOptions::default()).expect("a server");
    let config = "[bulk]\nstore = \"redis\"\nredis.url_env = \"REDIS_URL\"\n\
                  [apis.up]\nbase_url = \"http://127.0.0.1:9\"\n";
    let mut member = FleetMember::start(config, &redis.url());
    let ready = |member: &FleetMember| fetch(&format!("{}/readyz", member.admin));
    let (status, body) = ready(&member);
    assert_eq!(status, 200, "{body}");
    redis.kill().expect("killed");
    let (status, body) = ready(&member);
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("store_unavailable"), "{body}");
    redis.restart().expect("restarted");
    let is_back = (0..100).any(|_| {
        let lives = member.process.wait(Duration::from_millis(100));
        lives.is_err() && ready(&member).0 == 200
    });
    assert!(is_back, "{:?}", ready(&member));
}
