//! How soon others do what a dead worker had under way, and how little that delays everything.

use std::time::Duration;

use outflow::SystemClock;
use outflow::core::Clock as _;
use outflow_mock::{Fault, MockApi, Quota, Script, ScriptMatch};
use outflow_testkit::{Keep, Process, RedisOptions, RedisServer};
use tokio::time::{Instant, sleep};

use super::worker_processes::{End, Field, PATIENCE};

/// As long as workers are believed to live in these tests.
const LEASE: Duration = Duration::from_secs(2);

/// As late as it may be noticed that one does not.
const SWEEP: Duration = Duration::from_secs(1);

fn redis() -> RedisServer {
    let options = RedisOptions {
        keep: Keep::EverySecond,
        ..RedisOptions::default()
    };
    RedisServer::start(options).expect("a server")
}

/// When a worker was killed, when the next one began, and when it had taken back all that was under way.
/// Each is told by the one that it happened to, so that how late the test hears of it does not count.
#[derive(Debug)]
struct Recovery {
    died: Duration,
    began: Duration,
    back: Duration,
}

impl Recovery {
    /// Kills a worker with so many under way, which the API never answers, and starts another, which does
    /// all of them.
    async fn of(store: &str, many: u64) -> Self {
        let script = Script::new().rule(ScriptMatch::always().first(many), Fault::Hang);
        let strict = MockApi::builder().script(script).build();
        let field = Field::of(strict.expect("valid")).await;
        let (submit, crew) = (format!("submit={many}"), format!("crew={many}"));
        let mut victim = field.worker(store, &[&submit, &crew], None);
        field.has_seen(many).await;
        victim.kill().expect("killed");
        let died = SystemClock::new().wall().as_duration();
        // Its directory is nobody else's before it is gone.
        victim.wait(PATIENCE).expect("gone");
        let mut next = field.worker(store, &[&crew], None);
        let [began] = told(&mut next, "begins ");
        let (mut returned, mut back) = (0, 0);
        while returned < many {
            let [some, buried, at] = told(&mut next, "reaped ");
            assert_eq!(buried, 0, "each lost its worker once");
            (returned, back) = (returned + some, at);
        }
        field.has_seen(many * 2).await;
        let end = End::of(&mut next);
        let many = usize::try_from(many).expect("few");
        assert_eq!(
            (end.submitted, end.done, end.drift),
            (many, many, 0),
            "{end:?}"
        );
        field.all_done(many, many);
        Self {
            died,
            began: Duration::from_millis(began),
            back: Duration::from_millis(back),
        }
    }

    /// How long after a death everything stood in line again.
    fn after_death(&self) -> Duration {
        self.back.saturating_sub(self.died)
    }

    /// How long the next one needed for it from its beginning.
    fn after_start(&self) -> Duration {
        self.back.saturating_sub(self.began)
    }
}

/// The numbers in the next line of a worker that begins so.
fn told<const COUNT: usize>(worker: &mut Process, word: &str) -> [u64; COUNT] {
    let line = worker.wait_for_line(word, PATIENCE).expect("a line");
    let numbers = line.split_whitespace().skip(1);
    let numbers: Vec<u64> = numbers
        .map(|text| text.parse().expect("a number"))
        .collect();
    numbers.try_into().expect("as many as are asked for")
}

// A hundred under way. The lease is renewed up to the kill, every quarter of it, and a reaper is a second late at
// most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobs_of_a_dead_worker_are_under_way_again_after_its_lease() {
    let redis = redis();
    let span = Recovery::of(&redis.url(), 100).await.after_death();
    assert!(span <= LEASE + SWEEP, "{span:?}");
    assert!(
        span >= LEASE / 2,
        "nobody may have them while it is believed to live: {span:?}"
    );
}

// In one directory there can be no other: what its predecessor held is its own at once, whatever is left of
// the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_starts_again_does_not_hide_what_it_had_under_way() {
    let dir = tempfile::tempdir().expect("a directory");
    let recovery = Recovery::of(dir.path().to_str().expect("a path"), 100).await;
    assert!(recovery.after_start() <= SWEEP, "{recovery:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a thousand connections, measured"]
async fn stress_a_thousand_jobs_of_a_dead_worker_are_under_way_again() {
    let redis = redis();
    let shared = Recovery::of(&redis.url(), 1_000).await.after_death();
    let dir = tempfile::tempdir().expect("a directory");
    let own = Recovery::of(dir.path().to_str().expect("a path"), 1_000).await;
    let own = own.after_start();
    println!("1000 under way, lease {LEASE:?}: again after {shared:?} (redis), {own:?} (embedded)");
    assert!(shared <= LEASE + SWEEP, "{shared:?}");
    assert!(own <= SWEEP, "{own:?}");
}

/// Jobs of three tenants at ten a second each, so many times as fast, by three workers of which one of two is
/// killed now and then.
struct Course {
    scale: u32,
    jobs: usize,
    kills: usize,
    /// How far kills are apart.
    every: Duration,
    /// By how many milliseconds a window is widened: half of it is how late a call may be at the API.
    guard: u32,
}

/// What became of it.
struct Headline {
    span: Duration,
    refused: usize,
    most: u64,
}

impl Course {
    /// 15,000 of them: 500 s over the scale at best; and twenty kills.
    fn headline(scale: u32) -> Self {
        Self {
            scale,
            jobs: 15_000,
            kills: 20,
            every: Duration::from_secs(22) / scale,
            guard: 5,
        }
    }

    async fn run(&self) -> Headline {
        let Self { scale, jobs, .. } = *self;
        let redis = redis();
        let (all, each) = (format!("{}/s", 30 * scale), format!("{}/s", 10 * scale));
        let rate = all.parse().expect("a rate");
        let strict = MockApi::builder().limit(Quota::sliding(rate).shared());
        let field = Field::of(strict.build().expect("valid")).await;
        let (limit, tenant) = (format!("limit={all}"), format!("tenant-limit={each}"));
        let guard = format!("guard-ms={}", self.guard);
        let usual = ["tenants=3", "crew=50", "lease-ms=1000", &guard];
        let words = [&usual[..], &["recoveries=100", &limit, &tenant]].concat();
        let submit = format!("submit={jobs}");
        let with_jobs = [&words[..], &[&submit]].concat();
        let url = redis.url();
        let begun = Instant::now();
        let mut first = field.worker(&url, &with_jobs, None);
        first.wait_for_line("acked 10", PATIENCE).expect("taken");
        let mut others: Vec<Process> = (0..2).map(|_| field.worker(&url, &words, None)).collect();
        for kill in 0..self.kills {
            sleep(self.every).await;
            let victim = &mut others[kill % 2];
            assert_eq!(victim.status().expect("known"), None, "nothing is left");
            victim.kill().expect("killed");
            *victim = field.worker(&url, &words, None);
        }
        let line = first.wait_for_line("end ", Duration::from_mins(5));
        let (span, line) = (begun.elapsed(), line.expect("an end"));
        let done = format!("done={jobs} ");
        assert!(line.contains(&done) && line.contains("drift=0"), "{line}");
        field.all_done(jobs, self.kills * 50);
        let audit = field.strict.audit();
        let most = audit.most_in_any_window(Duration::from_secs(1));
        let (calls, refused) = (audit.count(), audit.refused());
        println!(
            "{jobs} jobs, scale {scale}, {} kills: {span:?}, {calls} calls, {refused} refused, {most} in a second",
            self.kills
        );
        Headline {
            span,
            refused,
            most,
        }
    }
}

// 480 jobs at sixty a second, so eight seconds at best, with six kills in the first seven: nothing is refused
// and nothing lost, also where tests beside it take the processor for some hundredths of a second. How long it takes
// with the usual guard is for the long runs to say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_a_fleet_at_its_limit_have_nothing_refused_and_lose_nothing() {
    let course = Course {
        scale: 2,
        jobs: 480,
        kills: 6,
        every: Duration::from_millis(1_100),
        guard: 100,
    };
    let headline = course.run().await;
    assert_eq!(headline.refused, 0, "{} in a second", headline.most);
    assert!(headline.most <= 60, "{}", headline.most);
    assert!(
        headline.span >= Duration::from_secs(7),
        "{:?}",
        headline.span
    );
}

// At its stated rates: 500 s at best, and 520 with the kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nine minutes, measured"]
async fn stress_twenty_kills_delay_the_headline_by_twenty_seconds_at_most() {
    let headline = Course::headline(1).run().await;
    assert_eq!(headline.refused, 0, "{} in a second", headline.most);
    assert!(headline.most <= 30, "{}", headline.most);
    assert!(
        headline.span <= Duration::from_secs(520),
        "{:?}",
        headline.span
    );
}

// Ten times as fast: 50 s at best. Whatever happens nothing is refused; how long it takes depends on the machine,
// because who comes late for an instant gives it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a minute, measured"]
async fn stress_twenty_kills_delay_the_headline_by_little() {
    let headline = Course::headline(10).run().await;
    assert_eq!(headline.refused, 0, "{} in a second", headline.most);
    assert!(headline.most <= 300, "{}", headline.most);
    assert!(
        headline.span <= Duration::from_secs(80),
        "{:?}",
        headline.span
    );
}
