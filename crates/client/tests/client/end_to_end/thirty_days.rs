//! Thirty days of a client with every feature enabled, against an API with bad hours, in seconds.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outflow::core::{HealthState, Limit, Rate, Share};
use outflow::log::{Log, LogSettings, LogWriter, RollingFile};
use outflow::metrics::{ApiLabels, Metrics};
use outflow::{Api, Cache, CacheMode, CacheSettings, Group, Outflow, Route, Rules};
use outflow_mock::{Fault, MockApi, MockResponse, Quota, Script, ScriptMatch, ScriptedFault};
use outflow_testkit::{Background, VirtualTime};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::support::{TestBed, in_flight, report};
use crate::support::own_process::{MIB, is_alone, resident};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

fn rate(text: &str) -> Rate {
    text.parse().expect("valid")
}

/// Scripts an hour: most are good, and no two neighbours are alike.
fn hour_script(hour: u64) -> Script {
    let some = |percent, act: ScriptedFault| {
        Script::new().rule(ScriptMatch::always().by_chance(Share::percent(percent), hour), act)
    };
    match (hour % 11, hour % 7) {
        (3, _) => Script::new().rule(ScriptMatch::always(), Fault::ResetBeforeHead),
        (5, _) => some(50, MockResponse::status(503).into()),
        (7, _) => some(20, ScriptedFault::Late(15 * SECOND)),
        (9, _) => some(10, Fault::CutBody.into()),
        (_, 6) => some(2, outflow_mock::ThrottleResponse::new(429, 30 * SECOND).into()),
        _ => Script::new(),
    }
}

/// Returns the waves of an hour: many by day, one by night.
fn waves(hour: u64) -> u32 {
    match hour % 24 {
        8..20 => 6,
        20..23 => 3,
        _ => 1,
    }
}

/// Results as callers saw them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct CallTally {
    made: u64,
    answered: u64,
    failed: u64,
    left: u64,
}

/// Everything that lives for the month.
struct LongRun {
    bed: TestBed,
    client: Outflow,
    metrics: Arc<Metrics>,
    log: Log,
    pump: LogWriter,
    folder: TempDir,
    counts: CallTally,
}

impl LongRun {
    fn begin() -> Self {
        let page = MockResponse::ok("0123456789".repeat(100)).header("cache-control", "max-age=900");
        let mock = MockApi::builder()
            .remembering(10)
            .limit(Quota::sliding(rate("20/s")))
            .answer("/items/**", page.clone())
            .answer("/pages/**", page.header("etag", "\"v1\""));
        let bed = TestBed::near(mock);
        let cache = Cache::open(CacheSettings {
            memory: MIB,
            ..CacheSettings::default()
        });
        let client = bed.builder(rules).cache(cache.expect("in memory"));
        let client = client.build().expect("valid");
        let api = client.api("strict").expect("there");
        let metrics = Arc::new(Metrics::new([ApiLabels::from(api.as_ref())]));
        client.events().subscribe(metrics.clone());
        let folder = tempfile::tempdir().expect("a directory");
        let file = RollingFile::new(folder.path().join("o.log"), LOG_FILE, LOG_FILES);
        let settings = LogSettings::new(Arc::new(VirtualTime::new()));
        let (log, pump) = Log::new(settings, file.expect("valid"));
        client.events().subscribe(Arc::new(log.clone()));
        Self {
            bed,
            client,
            metrics,
            log,
            pump,
            folder,
            counts: CallTally::default(),
        }
    }

    async fn live(&mut self, hours: std::ops::Range<u64>) {
        for hour in hours {
            self.bed.mock.rewrite(hour_script(hour));
            let waves = waves(hour);
            for wave in 0..waves {
                self.wave(hour * 10 + u64::from(wave)).await;
                sleep((HOUR / waves).saturating_sub(20 * SECOND)).await;
            }
            self.client.upstream("strict").expect("there").prune();
            self.pump.drain();
        }
    }

    /// Starts twelve calls at once; the caller of one gives up.
    async fn wave(&mut self, number: u64) {
        let calls: Vec<_> = (0..12)
            .map(|place| {
                let call = self.client.get("strict", &path(number, place));
                let stays = if place == 11 { SECOND / 50 } else { HOUR };
                Background::start(timeout(stays, call.timeout(20 * SECOND).send()))
            })
            .collect();
        let wave = Background::start(sleep(20 * SECOND));
        for call in calls {
            self.counts.made += 1;
            match call.join().await {
                Ok(Ok(_)) => self.counts.answered += 1,
                Ok(Err(_)) => self.counts.failed += 1,
                Err(_) => self.counts.left += 1,
            }
        }
        wave.join().await;
    }

    /// Measures everything in the program that could grow.
    fn mark(&self) -> GrowthMark {
        let upstream = self.client.upstream("strict").expect("there");
        // Unused capacity of queues is no growth.
        upstream.prune();
        GrowthMark {
            resident: resident(),
            upstream: upstream.memory_bytes(),
            series: self.metrics.render().lines().count(),
            groups: report(&self.client).groups.len(),
        }
    }

    /// Sums all series of this name whose labels contain this text.
    fn counted(&self, name: &str, label: &str) -> u64 {
        let page = self.metrics.render();
        let series = page.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?.strip_prefix('{')?;
            let (labels, value) = rest.rsplit_once("} ")?;
            let ours = labels.contains("api=\"strict\"") && labels.contains(label);
            ours.then(|| value.parse::<u64>().expect("a count"))
        });
        series.sum()
    }

    /// Counts calls that ended with one of these classes.
    fn ended(&self, classes: &[&str]) -> u64 {
        let name = "external_request_duration_seconds_count";
        let of = |class: &&str| self.counted(name, &format!("status=\"{class}\""));
        classes.iter().map(of).sum()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct GrowthMark {
    resident: u64,
    upstream: usize,
    series: usize,
    groups: usize,
}

fn rules(api: &mut Api) {
    api.rules = Rules::with_limit(rate("20/s"));
    for (name, path) in [("items", "/items/**"), ("orders", "/orders/**")] {
        let limits = vec![Limit::sliding(rate("15/s"))];
        api.rules.groups.push(Group::new(name, limits));
        api.rules.routes.push(Route {
            methods: Vec::new(),
            pattern: path.parse().expect("valid"),
            group: name.into(),
            cost: None,
        });
    }
    api.cache = CacheMode::Standard;
}

/// Returns a recurring path, or one that never recurs.
fn path(number: u64, place: u64) -> String {
    match place % 4 {
        0 => format!("/pages/{}", (number + place) % 20),
        1 => format!("/orders/{number}-{place}"),
        _ => format!("/items/{number}-{place}?page={number}"),
    }
}

fn bytes_in(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).expect("there");
    files
        .map(|file| file.expect("there").metadata().expect("there").len())
        .sum()
}

const LOG_FILE: u64 = 128 * 1024;
const LOG_FILES: u32 = 3;

// About 26,000 calls over 720 hours, a third of them bad. From day ten on the cache is full and
// the log has rolled, so later growth would never end. Twenty days may add 4 MiB of pages that the
// allocator keeps. An abandoned call may have ended first.
#[tokio::test(start_paused = true)]
async fn thirty_days_leave_a_client_unchanged() {
    if !is_alone("end_to_end::thirty_days::thirty_days_leave_a_client_unchanged") {
        return;
    }
    let mut month = LongRun::begin();
    month.live(0..240).await;
    let tenth = month.mark();
    month.live(240..720).await;
    month.bed.mock.rewrite(Script::new());
    for _ in 0..60 {
        sleep(60 * SECOND).await;
        month.wave(u64::MAX / 100).await;
    }
    let last = month.mark();
    assert!(last.resident <= tenth.resident + 4 * MIB, "{tenth:?} {last:?}");
    assert!(last.upstream <= tenth.upstream + 4_096, "{tenth:?} {last:?}");
    assert_eq!((last.series, last.groups), (tenth.series, tenth.groups));

    let upstream = report(&month.client);
    assert_eq!((upstream.waiting, in_flight(&month.client)), (0, 0));
    let states: Vec<_> = upstream.health.iter().map(|one| one.snapshot.state).collect();
    assert_eq!(states, [HealthState::Normal]);
    let response = month.client.get("strict", "/orders/last").send().await;
    assert_eq!(response.expect("a response").status(), 200);

    assert_counts_agree(&month);
    month.log.close();
    month.pump.run();
    assert!(bytes_in(month.folder.path()) <= LOG_FILE * u64::from(LOG_FILES));
    assert_eq!(month.log.dropped(), 0);
}

/// Asserts that callers, the program and the API count the same calls.
fn assert_counts_agree(month: &LongRun) {
    // The test made the last call itself.
    let CallTally {
        made,
        answered,
        failed,
        left,
    } = month.counts;
    assert!(
        answered > made / 2 && failed > 1_000 && left > 300,
        "{:?}",
        month.counts
    );
    assert_eq!(month.counted("external_requests_total", ""), made + 1);
    assert_eq!(month.ended(&["2xx", "3xx", "4xx", "429", "5xx"]), answered + 1);
    assert_eq!(month.ended(&["timeout", "network", "blocked"]), failed);
    assert_eq!(month.counted("outflow_abandoned_total", ""), left);

    let (attempts, given_up) = (
        month.counted("requests_total", ""),
        month.counted("requests_total", "code=\"cancelled\""),
    );
    let arrived = month.bed.mock.totals().seen;
    assert!(
        (attempts - given_up..=attempts).contains(&arrived),
        "{attempts} attempts, {given_up} given up, {arrived} arrived"
    );
    let admitted = month.counted("outflow_admitted_total", "");
    let refunded = month.counted("outflow_refunded_total", "");
    assert_eq!(admitted - refunded, attempts, "admitted calls without refund are sent");
}
