//! Laws of the sidecar for every request: framing, routes and control headers.
//!
//! The code is the production code without a port or a process, and the API is in memory.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version};
use outflow::{BaseUrl, SystemClock, Tasks};
use outflow_mock::{MockApi, MockResponse};
use outflow_sidecar::ServerConfig;
use outflow_sidecar::Sidecar;
use outflow_sidecar::fuzzing::{self, ParsedRequest, ParsedRequests, SidecarFuzz};
use tokio::runtime::Runtime;

use crate::{client_of, runtime, text_of};

/// Equal bytes pass however the input is cut. The parser reads passed bytes as equal requests with
/// equal bodies, or refuses them. The first two bytes choose the cuts and the bounds.
pub fn framing(input: &[u8]) {
    let Some(([cuts, bounds], bytes)) = input.split_first_chunk() else {
        return;
    };
    let bounds = if bounds % 2 == 0 { (100, 32_768) } else { (3, 96) };
    let whole = fuzzing::read(bounds, [bytes]);
    let (first, second) = bytes.split_at(usize::from(*cuts) % (bytes.len() + 1));
    assert_eq!(fuzzing::read(bounds, [first, second]), whole, "two pieces");
    let pieces = bytes.chunks(usize::from(*cuts) % 5 + 1);
    assert_eq!(fuzzing::read(bounds, pieces), whole, "many pieces");
    let passed = bytes.get(..whole.passed).expect("no more than there are");
    thread_local! {
        static RUNTIME: Runtime = runtime();
    }
    let (requests, answers) = RUNTIME.with(|runtime| runtime.block_on(fuzzing::parsed(passed)));
    if whole.is_http2 {
        let other = requests.iter().any(|read| read.version != Version::HTTP_2);
        assert!(!other, "{requests:?}");
    } else {
        is_read_alike(&whole, &requests, &answers);
    }
}

/// The parser may stop earlier if it has reported it or was asked to; it may never find a request
/// where there is none.
fn is_read_alike(reading: &ParsedRequests, requests: &[ParsedRequest], answers: &[u8]) {
    assert!(requests.len() <= reading.bodies.len(), "{reading:?} {requests:?}");
    for (body, read) in reading.bodies.iter().zip(requests) {
        let alike = if read.body.is_whole {
            *body == read.body
        } else {
            body.bytes >= read.body.bytes
        };
        assert!(alike, "{reading:?} {requests:?}");
    }
    let broken = requests.iter().position(|read| !read.body.is_whole);
    assert!(
        broken.is_none_or(|at| at + 1 == requests.len()),
        "{reading:?} {requests:?}"
    );
    if requests.len() < reading.bodies.len() {
        let said = String::from_utf8_lossy(answers);
        let old = requests.iter().any(|read| read.version == Version::HTTP_10);
        let ended = old || broken.is_some() || said.contains("connection: close");
        let refused = said.matches("HTTP/1.").count() > requests.len();
        assert!(ended || refused, "{reading:?} {requests:?} {said}");
    }
}

/// With any bytes on a connection, only the configured API is called, below its path, with its own
/// key, without control headers, and at most once per request.
pub fn request(input: &[u8]) {
    thread_local! {
        static PLACE: SidecarFixture = SidecarFixture::new();
    }
    PLACE.with(|place| place.keeps_to_its_api(input));
}

/// Sidecar before an API in memory.
struct SidecarFixture {
    runtime: Runtime,
    strict: MockApi,
    sidecar: SidecarFuzz,
}

impl SidecarFixture {
    fn new() -> Self {
        let runtime = runtime();
        let inside = runtime.enter();
        let strict = MockApi::builder().answer("/**", MockResponse::echo());
        let noted = NOTED.into_iter().map(HeaderName::from_static);
        let strict = noted.fold(strict.remembering(256), outflow_mock::Builder::noting);
        let strict = strict.build().expect("valid");
        let client = client_of("stock", BASE, &strict);
        let clock = Arc::new(SystemClock::new());
        let tasks = Tasks::new("outflow", client.events().clone(), clock);
        let sidecar = Sidecar::new(client, tasks, ServerConfig::default());
        let sidecar = SidecarFuzz::new(Arc::new(sidecar));
        drop(inside);
        Self {
            runtime,
            strict,
            sidecar,
        }
    }

    fn keeps_to_its_api(&self, input: &[u8]) {
        let before = self.strict.totals().seen;
        let reading = fuzzing::read((100, 32_768), [input]);
        let mut bytes = input.to_vec();
        // A finished parser reports it, so there is no need to wait.
        if reading.passed == input.len() && reading.bodies.last().is_none_or(|body| body.is_whole) {
            bytes.extend_from_slice(LAST);
        }
        let exchanged = self.runtime.block_on(self.sidecar.exchange(&bytes));
        let answers = exchanged.expect("a pair of sockets");
        let audit = self.strict.audit();
        let sent = audit.arrivals().iter();
        let sent: Vec<_> = sent.filter(|sent| sent.number >= before).collect();
        let asked = reading.bodies.len();
        assert!(reading.is_http2 || sent.len() <= asked, "{sent:?}");
        for arrival in sent {
            assert_eq!(text_of(arrival, &HOST), Some("api.example.com"));
            assert_eq!(text_of(arrival, &AUTHORIZATION), Some("Bearer c4n4ry-k3y"));
            let below = arrival.path.strip_prefix("/v1").expect("below its path");
            assert!(below.is_empty() || below.starts_with('/'), "{arrival:?}");
            let climbs = |part: &str| part == "." || part == "..";
            assert!(!below.split('/').any(climbs), "{arrival:?}");
            let ours = |name: &HeaderName| name.as_str().starts_with("outflow-");
            let heard = arrival.headers.iter().any(|(name, _)| ours(name));
            assert!(!heard, "{arrival:?}");
        }
        if let Some(version) = answers.get(..9).filter(|_| !reading.is_http2) {
            assert!(version.starts_with(b"HTTP/1."), "{answers:?}");
        }
    }
}

/// A target is an API's name and a rest, and any rest leads below the API's base or nowhere.
pub fn route(input: &[u8]) {
    let Ok(target) = Uri::try_from(input) else {
        return;
    };
    let Some((api, path)) = fuzzing::route(&target) else {
        return;
    };
    assert!(!api.contains(['/', '?']), "{api:?} of {target}");
    let rest = target.path_and_query().map_or("", |rest| rest.as_str());
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    assert_eq!(format!("{api}{path}"), rest, "nothing is lost");
    let base: BaseUrl = BASE.parse().expect("a URL");
    let Ok(url) = base.join(path) else {
        return;
    };
    assert_eq!(url.scheme(), Some(base.scheme()));
    assert_eq!(url.authority(), Some(base.authority()));
    let below = url.path().strip_prefix("/v1").expect("below the base");
    assert!(below.is_empty() || below.starts_with('/'), "{url}");
}

/// Control headers are removed and no others; an invalid one is reported by its name and with
/// advice, in any order. Each line is a header.
pub fn control_headers(input: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n').take(64) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let ours = |name: &HeaderName| name.as_str().starts_with("outflow-");
    let mut others = headers.clone();
    for name in headers.keys().filter(|name| ours(name)) {
        others.remove(name);
    }
    let backwards: Vec<_> = headers.iter().collect();
    let backwards = backwards.into_iter().rev();
    let mut backwards: HeaderMap = backwards.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut taken = headers.clone();
    let said = fuzzing::take_control_headers(&mut taken);
    assert_eq!(fuzzing::take_control_headers(&mut backwards).is_ok(), said.is_ok());
    match said {
        Ok(()) => assert_eq!(taken, others),
        Err((name, advice)) => {
            assert!(name.starts_with("outflow-") && headers.contains_key(&name));
            assert!(!advice.is_empty());
        }
    }
}

/// A request that calls no API and closes its connection.
const LAST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

const BASE: &str = "http://api.example.com/v1";

/// Headers that an API must not see, and those it must.
const NOTED: [&str; 6] = [
    "host",
    "authorization",
    "outflow-cost",
    "outflow-token",
    "outflow-group",
    "outflow-refused",
];
