//! Size limits hold under any input.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use outflow::cache::{Cache, CacheSettings, CacheableResponse, NotStored, StoreDecision};

use super::support::{TestRequest, at, headers_from, lookup};
use crate::support::own_process::{MIB, is_alone, resident};

fn settings(memory: u64) -> CacheSettings {
    CacheSettings {
        memory,
        ..CacheSettings::default()
    }
}

/// Offers a body of this many bytes.
fn offer(cache: &Cache, request: &TestRequest, bytes: usize) -> StoreDecision {
    let headers = headers_from("cache-control: max-age=60");
    let response = CacheableResponse {
        status: StatusCode::OK,
        headers: &headers,
        body: Bytes::from(vec![b'x'; bytes]),
        delay: Duration::ZERO,
    };
    cache.offer(&request.query(), response, at(0))
}

// A million paths and a cache for about two thousand: the counted size stays within the limit, and
// the key list does not grow.
#[test]
fn memory_stays_flat_over_a_million_paths() {
    let most = 1 << 20;
    let cache = Cache::open(settings(most)).expect("a cache");
    let mut request = TestRequest::page();
    for path in 0..1_000_000_u32 {
        request.uri = format!("https://api.example.com/{path}").parse().expect("a URI");
        assert_eq!(offer(&cache, &request, 10), StoreDecision::Stored);
        if path % 10_000 == 0 {
            assert!(cache.report().memory <= most, "{:?}", cache.report());
        }
    }
    let report = cache.report();
    assert!(report.memory <= most && report.memory > most / 2, "{report:?}");
    let smallest = u64::try_from(report.entries).expect("few") * 512;
    assert!(smallest <= most, "{report:?}");
    assert_eq!(lookup(&cache, &request, 1), "fresh", "the last one is there");
}

/// Builds the parts of a response as a transport delivers them: slices of one large read buffer.
fn from_read_buffer(number: u32, bytes: usize) -> (HeaderMap, Bytes) {
    let lines = [
        ("cache-control", "max-age=60".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("etag", format!("\"{number:032}\"")),
        ("x-request-id", format!("{number:036}")),
    ];
    let mut buffer: Vec<u8> = lines.iter().flat_map(|(_, value)| value.bytes()).collect();
    let head = buffer.len();
    buffer.resize(head + bytes, b'x');
    buffer.resize(buffer.len().max(READ_BUFFER), 0);
    let buffer = Bytes::from(buffer);
    let (mut headers, mut start) = (HeaderMap::new(), 0);
    for (name, value) in lines {
        let slice = buffer.slice(start..start + value.len());
        start += value.len();
        headers.insert(name, HeaderValue::from_maybe_shared(slice).expect("text"));
    }
    (headers, buffer.slice(head..head + bytes))
}

/// Size from which hyper reads responses.
const READ_BUFFER: usize = 8_192;

// 32 MiB of a counter, of a JSON object and of a page of a list, each on top of the others: what the cache counts is
// what the process holds, within a half. In one process alone, as others would share its memory.
#[test]
fn the_counted_size_is_the_resident_size() {
    if !is_alone("cache::size::the_counted_size_is_the_resident_size") {
        return;
    }
    let mut caches = Vec::new();
    for bytes in [50, 2_000, 30_000] {
        let (cache, before) = (Cache::open(settings(64 * MIB)).expect("a cache"), resident());
        let (mut number, mut request) = (0, TestRequest::page());
        while cache.report().memory < 32 * MIB {
            number += 1;
            request.uri = format!("https://api.example.com/{number}").parse().expect("a URI");
            let (headers, body) = from_read_buffer(number, bytes);
            let response = CacheableResponse {
                status: StatusCode::OK,
                headers: &headers,
                body,
                delay: Duration::ZERO,
            };
            assert_eq!(cache.offer(&request.query(), response, at(0)), StoreDecision::Stored);
        }
        let (counted, held) = (cache.report().memory, resident() - before);
        assert!(held * 2 <= counted * 3, "{bytes}: {counted} counted, {held} resident");
        assert!(counted * 2 <= held * 3, "{bytes}: {counted} counted, {held} resident");
        caches.push(cache);
    }
}

// 1 MiB: a sixteenth is 64 KiB, with the headers and their tables, which are less than 2 KiB.
#[test]
fn a_response_too_large_for_its_share_is_not_stored() {
    let cache = Cache::open(settings(1 << 20)).expect("a cache");
    let refused = StoreDecision::Not(NotStored::TooLarge);
    assert_eq!(offer(&cache, &TestRequest::page(), 1 << 16), refused);
    assert_eq!(
        offer(&cache, &TestRequest::page(), (1 << 16) - 2048),
        StoreDecision::Stored
    );
    let large = Cache::open(settings(1 << 30)).expect("a cache");
    assert_eq!(
        offer(&large, &TestRequest::page(), 8 << 20),
        refused,
        "8 MiB are a download"
    );
    assert_eq!(
        offer(&large, &TestRequest::page(), (8 << 20) - 2048),
        StoreDecision::Stored
    );
}

#[test]
fn a_cache_too_small_for_any_response_is_refused() {
    assert!(Cache::open(settings(1024)).is_err());
    assert!(Cache::open(settings(64 << 10)).is_ok());
}

// 100 responses of one block each into a directory for 32 blocks.
#[test]
fn the_directory_never_exceeds_its_limit() {
    let dir = tempfile::tempdir().expect("a directory");
    let cap = 32 * 4096;
    let open = |disk| {
        Cache::open(CacheSettings {
            dir: Some(dir.path().to_owned()),
            disk,
            ..CacheSettings::default()
        })
        .expect("a cache")
    };
    let cache = open(cap);
    let page = |n: u32| TestRequest::get(&format!("https://api.example.com/{n}"));
    for n in 0..100 {
        assert_eq!(offer(&cache, &page(n), 3000), StoreDecision::Stored);
        cache.flush();
        let bytes = super::disk::stored_bytes(dir.path());
        assert!(
            cache.report().disk <= cap && bytes <= cap,
            "{n}: {:?}, {bytes}",
            cache.report()
        );
    }
    drop(cache);
    let cache = open(cap);
    assert_eq!(lookup(&cache, &page(99), 1), "fresh", "the newest are kept");
    assert_eq!(lookup(&cache, &page(0), 1), "missing", "the oldest are not");
    drop(cache);
    // A lower limit holds from the start.
    let cache = open(cap / 2);
    assert!(cache.report().disk <= cap / 2 && super::disk::stored_bytes(dir.path()) <= cap / 2);
}

// No writer runs: of 8 MiB of responses, at most an eighth of the memory waits for the disk.
#[test]
fn unwritten_responses_do_not_pile_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::open(CacheSettings {
        dir: Some(dir.path().to_owned()),
        ..settings(1 << 20)
    })
    .expect("a cache");
    for n in 0..800 {
        let request = TestRequest::get(&format!("https://api.example.com/{n}"));
        assert_eq!(offer(&cache, &request, 10_000), StoreDecision::Stored);
    }
    let report = cache.report();
    assert!(report.skipped_writes > 700, "{report:?}");
    assert!(cache.flush() < 20, "an eighth of a mebibyte is twelve answers");
}
