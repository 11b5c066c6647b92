//! Compares the counted size of the cache with its resident size, at three sizes of responses:
//! `cargo run -p outflow --release --example cache_memory`.
//!
//! Responses come from a mock on loopback, through the client. Each size has its own process, for memory that one
//! measurement frees would serve the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outflow::{Api, Cache, CacheMode, CacheSettings, Outflow, Rules};
use outflow_mock::{MockApi, MockResponse};
use outflow_testkit::Background;

/// Sizes of a counter, of a JSON object and of a page of a list.
const BODIES: [usize; 3] = [50, 2_000, 30_000];

const MIB: u64 = 1 << 20;

/// Counted bytes to reach: small differences of the allocator vanish in them.
const COUNTED: u64 = 96 * MIB;

/// Calls in flight, as a busy sidecar has them.
const CALLERS: usize = 16;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(bytes) = std::env::args().nth(1) {
        return measure(bytes.parse()?).await;
    }
    println!(
        "{:>8} {:>8} {:>12} {:>12} {:>18}",
        "body", "entries", "counted MiB", "resident MiB", "resident ÷ counted"
    );
    let this = std::env::current_exe()?;
    for bytes in BODIES {
        std::process::Command::new(&this).arg(bytes.to_string()).status()?;
    }
    Ok(())
}

async fn measure(bytes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let server = mock(bytes).listen().await?;
    let settings = CacheSettings {
        memory: 4 * COUNTED,
        ..CacheSettings::default()
    };
    let cache = Cache::open(settings)?;
    let mut api = Api::new("mock", server.url().parse()?);
    api.rules = Rules::unlimited();
    api.cache = CacheMode::Standard;
    let client = Outflow::builder().api(api).cache(cache.clone()).build()?;
    let next = Arc::new(AtomicU64::new(0));
    // Connections and tables exist before the measurement.
    fill(&client, &cache, &next, MIB).await?;
    let (counted, resident) = (cache.report().memory, resident()?);
    fill(&client, &cache, &next, COUNTED).await?;
    print(
        bytes,
        &cache,
        cache.report().memory - counted,
        self::resident()? - resident,
    );
    Ok(())
}

/// Calls new paths until the cache counts this many bytes.
async fn fill(client: &Outflow, cache: &Cache, next: &Arc<AtomicU64>, until: u64) -> Result<(), outflow::Error> {
    let callers = (0..CALLERS).map(|_| {
        let (client, cache, next) = (client.clone(), cache.clone(), Arc::clone(next));
        Background::start(async move {
            while cache.report().memory < until {
                let path = format!("/items/{}", next.fetch_add(1, Ordering::Relaxed));
                client.get("mock", &path).send().await?.bytes().await?;
            }
            Ok::<_, outflow::Error>(())
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.join().await?;
    }
    Ok(())
}

/// Builds a mock with the headers of a typical API.
fn mock(bytes: usize) -> MockApi {
    let page = MockResponse::ok("x".repeat(bytes))
        .header("cache-control", "max-age=3600")
        .header("etag", "\"33a64df551425fcc55e4d42a148795d9f25f89d4\"")
        .header("vary", "accept-encoding")
        .header("server", "nginx")
        .header("x-request-id", "c0ffee00-1111-2222-3333-444455556666")
        .header("x-ratelimit-remaining", "4999");
    let mock = MockApi::builder().remembering(10).answer("/**", page);
    mock.build().expect("no limits: valid")
}

fn print(bytes: usize, cache: &Cache, counted: u64, resident: u64) {
    let (entries, percent) = (cache.report().entries, resident * 100 / counted);
    println!(
        "{bytes:>8} {entries:>8} {:>12} {:>12} {percent:>16} %",
        counted / MIB,
        resident / MIB
    );
}

/// Returns the resident bytes of this process.
fn resident() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.ok_or("Linux shows the resident size in /proc")?;
    Ok(kibibytes.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
