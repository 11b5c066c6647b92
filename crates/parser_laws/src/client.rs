//! Laws of the client's parsers: configuration, base URLs, cache files and redirects.
//!
//! The laws use the client as its users do, through files, in-memory sockets and public names, so
//! that no caller of a function can break a law that the function keeps.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE, HOST, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use outflow::cache::{Cache, CacheLookup, CacheQuery, CacheSettings, CacheableResponse as Said, StoreDecision};
use outflow::config::{Config, Diagnostics, Environment, Source};
use outflow::core::WallTime;
use outflow::{Api, BaseUrl, CacheMode, Events, Outflow, SystemClock, Upstream};
use outflow_mock::{MockApi, MockResponse};
use tokio::runtime::Runtime;

use crate::{KEY, client_of, has_error, runtime, text_of};

/// A configuration is accepted and its rules can be used, or it is refused with a line for each
/// error. Lines of `env NAME=VALUE` are its environment.
pub fn config(input: &[u8]) {
    let written = String::from_utf8_lossy(input);
    let variable = |line: &str| {
        let (name, value) = line.strip_prefix("env ")?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let environment: Environment = written.lines().filter_map(variable).collect();
    let lines: Vec<_> = written.split('\n').filter(|line| variable(line).is_none()).collect();
    let sources = [Source::new("fuzz.toml", lines.join("\n"))];
    match Config::read(&sources, &environment) {
        Ok(config) => {
            placed(&config.warnings);
            config.apis.iter().for_each(usable);
        }
        Err(diagnostics) => {
            has_error(&diagnostics);
            placed(&diagnostics);
        }
    }
}

/// Every diagnostic has a place and a message.
fn placed(diagnostics: &Diagnostics) {
    for diagnostic in diagnostics {
        assert!(diagnostic.line > 0 && diagnostic.column > 0, "{diagnostics}");
        assert!(
            !diagnostic.message.is_empty() && !diagnostic.source.is_empty(),
            "{diagnostics}"
        );
    }
    assert_eq!(diagnostics.to_string().is_empty(), diagnostics.is_empty());
}

fn usable(api: &Api) {
    let clock = Arc::new(SystemClock::new());
    let upstream = Upstream::new(&api.name, api.rules.clone(), clock, Events::new());
    assert!(upstream.is_ok(), "{:?}: {:?}", api.name, upstream.err());
}

/// A base URL parses back as shown. No path behind it leads to another origin, above the prefix or
/// to other bytes than written. The first line is the base, the rest the path.
pub fn base_url(input: &[u8]) {
    let written = String::from_utf8_lossy(input);
    let (base, path) = written.split_once('\n').unwrap_or((&written, ""));
    let Ok(base) = base.parse::<BaseUrl>() else {
        return;
    };
    assert_eq!(base.to_string().parse(), Ok(base.clone()));
    assert!(!base.authority().as_str().contains('@') && !base.prefix().ends_with('/'));
    let Ok(joined) = base.join(path) else {
        return;
    };
    assert_eq!(joined.scheme(), Some(base.scheme()));
    assert_eq!(joined.authority(), Some(base.authority()));
    let shown = joined.to_string();
    let behind = format!("{base}{path}");
    let rooted = format!("{base}/{path}");
    assert!(shown == behind || shown == rooted, "{shown} of {base} and {path}");
    let below = joined.path().strip_prefix(base.prefix());
    let below = below.expect("behind the prefix");
    let climbs = |segment: &str| segment == "." || segment == "..";
    assert!(!below.split('/').any(climbs) && !below.starts_with("//"), "{shown}");
}

/// With any content in a response's file, the cache returns that response or nothing, and leaves
/// foreign files in place. The first byte selects the rest: a file, or damage to a genuine one, of
/// this response or of another.
pub fn cache_file(input: &[u8]) {
    thread_local! {
        static FIXTURE: OnceCell<CacheFixture> = const { OnceCell::new() };
    }
    FIXTURE.with(|fixture| fixture.get_or_init(CacheFixture::new).keeps_its_own(input));
}

/// Directory with the responses of two keys.
struct CacheFixture {
    dir: tempfile::TempDir,
    file: PathBuf,
    own: Vec<u8>,
    other: Vec<u8>,
}

impl CacheFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let kept = |key: &'static [u8]| -> PathBuf {
            let before = files(dir.path());
            let (cache, headers) = (opened(dir.path()), HeaderMap::new());
            let mut said = HeaderMap::new();
            said.insert("cache-control", HeaderValue::from_static("max-age=60"));
            let answer = Said {
                status: StatusCode::OK,
                headers: &said,
                body: body_of(key).into(),
                delay: std::time::Duration::ZERO,
            };
            let uri = Uri::from_static(PAGE);
            let kept = cache.offer(&query(&uri, &headers, key), answer, AT);
            assert_eq!((kept, cache.flush()), (StoreDecision::Stored, 1));
            let mut after = files(dir.path());
            after.retain(|file| !before.contains(file));
            after.pop().expect("a file")
        };
        let (file, other) = (kept(OWN), kept(OTHER));
        let read = |file: &Path| fs::read(file).expect("readable");
        let (own, other) = (read(&file), read(&other));
        Self { dir, file, own, other }
    }

    fn keeps_its_own(&self, input: &[u8]) {
        let (choice, rest) = input.split_first().unwrap_or((&0, &[]));
        let content = match choice % 3 {
            0 => rest.to_vec(),
            1 => wounded(&self.own, rest),
            _ => wounded(&self.other, rest),
        };
        fs::write(&self.file, &content).expect("writable");
        let (cache, uri, headers) = (opened(self.dir.path()), Uri::from_static(PAGE), HeaderMap::new());
        let found = |key: &'static [u8]| cache.lookup(&query(&uri, &headers, key), AT);
        match found(OWN) {
            CacheLookup::Fresh(stored) => {
                assert_eq!((content, stored.body.to_vec()), (self.own.clone(), body_of(OWN)));
            }
            nothing => {
                assert!(matches!(nothing, CacheLookup::Missing), "{nothing:?}");
                assert_ne!(content, self.own);
            }
        }
        let others = match found(OTHER) {
            CacheLookup::Fresh(stored) => Some(stored.body),
            _ => None,
        };
        assert_eq!(others.map(Vec::from), Some(body_of(OTHER)));
    }
}

fn opened(dir: &Path) -> Cache {
    let settings = CacheSettings {
        dir: Some(dir.to_owned()),
        memory: 1 << 20,
        disk: 1 << 20,
    };
    Cache::open(settings).expect("a cache")
}

fn query<'a>(uri: &'a Uri, headers: &'a HeaderMap, key: &'static [u8]) -> CacheQuery<'a> {
    CacheQuery {
        api: "fuzzed",
        method: &Method::GET,
        uri,
        headers,
        credential: Some(key),
        mode: CacheMode::Standard,
    }
}

/// Returns the body for this key. The key itself would be detected and not stored.
fn body_of(key: &[u8]) -> Vec<u8> {
    key.iter().rev().copied().collect()
}

/// Returns the files of stored responses: two hashes and a dash.
fn files(dir: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(dir).expect("a directory").flatten();
    let paths = found.map(|file| file.path());
    paths
        .filter(|path| path.file_name().is_some_and(|name| name.len() == 65))
        .collect()
}

/// Returns a file with bytes changed: each three bytes define a place and a value, and a single
/// rest byte cuts it.
fn wounded(whole: &[u8], wounds: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let wounds = wounds.chunks_exact(3);
    if let [cut, ..] = wounds.remainder() {
        bytes.truncate(usize::from(*cut));
    }
    for wound in wounds {
        if let [high, low, change] = *wound {
            let place = usize::from(u16::from_be_bytes([high, low]));
            let place = place.checked_rem(bytes.len()).unwrap_or(0);
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= change;
            }
        }
    }
    bytes
}

/// With any redirect, no key and no cookie goes to another origin, and the call ends.
pub fn redirect(input: &[u8]) {
    thread_local! {
        static WORLD: OnceCell<ClientFixture> = const { OnceCell::new() };
    }
    let Ok(location) = HeaderValue::from_bytes(input) else {
        return;
    };
    WORLD.with(|world| world.get_or_init(ClientFixture::new).leads_to(&location));
}

/// Client, and a server at every address.
struct ClientFixture {
    runtime: Runtime,
    strict: MockApi,
    client: Outflow,
}

impl ClientFixture {
    fn new() -> Self {
        let runtime = runtime();
        let inside = runtime.enter();
        let strict = MockApi::builder().remembering(64);
        let strict = NOTED.into_iter().fold(strict, outflow_mock::Builder::noting);
        let strict = strict.build().expect("valid");
        let client = client_of("fuzzed", HERE, &strict);
        drop(inside);
        Self {
            runtime,
            strict,
            client,
        }
    }

    fn leads_to(&self, location: &HeaderValue) {
        let before = self.strict.totals().seen;
        let elsewhere = MockResponse::status(302).header(LOCATION.as_str(), location.as_bytes());
        self.strict.answer("/v1/from", elsewhere);
        let call = self.client.get("fuzzed", "/from").header(COOKIE, KEY);
        // The call may end in any way; only the sent requests count.
        let _either = self.runtime.block_on(call.send());
        let audit = self.strict.audit();
        let arrivals = audit.arrivals().iter();
        let mut sent = arrivals.filter(|arrival| arrival.number >= before);
        let first = sent.next().expect("the call itself");
        assert!(text_of(first, &AUTHORIZATION).is_some_and(|key| key.contains(KEY)));
        for arrival in sent {
            let host = text_of(arrival, &HOST).unwrap_or_default();
            let here = ["api.example.com", "api.example.com:80"]
                .iter()
                .any(|name| host.eq_ignore_ascii_case(name));
            let shown = text_of(arrival, &AUTHORIZATION).or(text_of(arrival, &COOKIE));
            assert!(here || shown.is_none(), "{host} of {location:?}");
        }
    }
}

const NOTED: [HeaderName; 3] = [AUTHORIZATION, COOKIE, HOST];
const HERE: &str = "http://api.example.com/v1";
const PAGE: &str = "http://api.example.com/page";
const OWN: &[u8] = b"one's own";
const OTHER: &[u8] = b"another's";

/// A second of the year 2023.
const AT: WallTime = WallTime::from_unix_secs(1_700_000_000);
