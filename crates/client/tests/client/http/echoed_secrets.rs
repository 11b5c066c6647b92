//! Echoing servers and other origins: neither discloses a secret.

use std::path::Path;

use http::HeaderName;
use outflow::cache::{Cache, CacheSettings};
use outflow::event::CacheLabel;
use outflow::{Api, CacheMode, Credential, CredentialPlacement, Outflow};
use outflow_mock::{MockApi, MockResponse, Script, Server};

use super::support::{eager, over_pipes, over_sockets, scripted};

fn with_cache(api: &mut Api) {
    api.cache = CacheMode::Standard;
}

/// Starts a server that records the caller's identifying headers.
async fn recording_server() -> (MockApi, Server) {
    let mut builder = MockApi::builder();
    for name in ["authorization", "cookie", "x-api-key", "if-none-match"] {
        builder = builder.noting(HeaderName::from_static(name));
    }
    let mock = builder.build().expect("valid");
    let server = mock.listen().await.expect("a port");
    (mock, server)
}

/// Returns the names of the recorded headers of every request.
fn recorded_headers(mock: &MockApi) -> Vec<String> {
    let audit = mock.audit();
    let all = audit.arrivals().iter().flat_map(|one| &one.headers);
    all.map(|(name, _)| name.to_string()).collect()
}

/// Builds a response that requires validation each time.
fn tagged() -> MockResponse {
    MockResponse::ok("\"kept\"")
        .header("cache-control", "max-age=0")
        .header("etag", "\"1\"")
}

// A revalidation is redirected to another origin, whose 304 is about something else. The request
// starts again at its first origin, where the key belongs.
#[tokio::test]
async fn no_key_follows_to_another_origin_after_a_foreign_304() {
    for place in [
        CredentialPlacement::Bearer,
        CredentialPlacement::Header(HeaderName::from_static("x-api-key")),
    ] {
        let (mock, server) = recording_server().await;
        let (other, elsewhere) = recording_server().await;
        mock.answer("/a", tagged());
        other.answer("/there", MockResponse::status(304).header("etag", "\"other\""));
        let client = over_sockets(&server, |api| {
            with_cache(api);
            let secret = "CANARY-7f3a".to_owned().into();
            api.credential = Some(Credential { secret, place });
        });
        let call = || client.get("strict", "/a").header("cookie", "CANARY-cookie");
        call().send().await.expect("kept");
        let away = format!("{}/there", elsewhere.url());
        mock.answer("/a", MockResponse::redirect(302, &away));
        let _ended = call().send().await;
        let received = recorded_headers(&other);
        assert!(other.audit().count() > 0, "it was asked");
        assert!(received.iter().all(|name| name == "if-none-match"), "{received:?}");
    }
}

// The other origin answers "not modified, for a year" for its own resource.
#[tokio::test]
async fn another_origin_confirms_no_stored_response() {
    let (mock, server) = recording_server().await;
    let (other, elsewhere) = recording_server().await;
    mock.answer("/a", tagged());
    let pinned = MockResponse::status(304).header("cache-control", "max-age=31536000");
    other.answer("/there", pinned);
    let client = over_sockets(&server, with_cache);
    client.get("strict", "/a").send().await.expect("kept");
    let away = format!("{}/there", elsewhere.url());
    mock.answer("/a", MockResponse::redirect(302, &away));
    for _ in 0..2 {
        let ended = client.get("strict", "/a").send().await;
        let from = ended.ok().and_then(|response| response.from_cache());
        assert!(!matches!(from, Some(CacheLabel::Hit | CacheLabel::Revalidated)));
    }
}

// Header names that no list contains, nor the response's `Vary`.
#[tokio::test(start_paused = true)]
async fn callers_with_different_values_of_any_header_never_mix() {
    for name in ["x-client-id", "x-pass", "x-workspace", "x-shop", "x-bearer"] {
        let mock = scripted(Script::new());
        let hers = MockResponse::ok("\"alice's\"").header("cache-control", "max-age=60");
        mock.answer("/**", hers);
        let client = over_pipes(&mock, with_cache);
        let call = |who: &str| client.get("strict", "/me").header(name, who).send();
        call("alice").await.expect("kept");
        let bob = call("bob").await.expect("a response");
        assert_eq!(bob.from_cache(), None, "{name}");
        let again = call("alice").await.expect("a response");
        assert_eq!(again.from_cache(), Some(CacheLabel::Hit), "{name}");
    }
}

/// A call whose response echoes a text, in its body and a header.
struct EchoCase<'a> {
    path: &'a str,
    header: Option<(&'a str, &'a str)>,
    credential: Option<&'a str>,
    text: &'a str,
}

impl EchoCase<'_> {
    /// Returns the cache label of a second call, and the files' content by then.
    async fn second_call(self) -> (Option<CacheLabel>, String) {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().join("kept");
        let settings = CacheSettings {
            dir: Some(place.clone()),
            ..CacheSettings::default()
        };
        let cache = Cache::open(settings).expect("a cache");
        let mock = scripted(Script::new());
        let response = MockResponse::ok(self.text.to_owned()).header("cache-control", "max-age=60");
        mock.answer("/**", response.header("link", self.text));
        let server = mock.listen().await.expect("a port");
        let mut api = eager(&server.url());
        with_cache(&mut api);
        api.credential = self.credential.map(|secret| Credential {
            secret: secret.to_owned().into(),
            place: CredentialPlacement::Query("key".into()),
        });
        let client = Outflow::builder().api(api).cache(cache.clone());
        let client = client.build().expect("valid");
        let call = || {
            let call = client.get("strict", self.path);
            self.header
                .iter()
                .fold(call, |call, (name, value)| call.header(*name, *value))
                .send()
        };
        call().await.expect("a response");
        let second = call().await.expect("a response").from_cache();
        cache.flush();
        (second, files(&place))
    }
}

/// Returns a directory's content as text.
fn files(dir: &Path) -> String {
    let mut all = String::new();
    for file in std::fs::read_dir(dir).expect("a directory").flatten() {
        all += &file.file_name().to_string_lossy();
        let content = std::fs::read(file.path()).unwrap_or_default();
        all += &String::from_utf8_lossy(&content);
    }
    all
}

const ECHO: EchoCase<'static> = EchoCase {
    path: "/a",
    header: None,
    credential: None,
    text: "",
};

// As a server writes it into the link to the next page.
#[tokio::test]
async fn no_file_contains_a_url_encoded_echoed_key() {
    let (again, text) = EchoCase {
        credential: Some("CANARY/7f3a+x9"),
        text: "</a?key=CANARY%2F7f3a%2Bx9&page=2>; rel=next",
        ..ECHO
    }
    .second_call()
    .await;
    assert!(!text.contains("CANARY"));
    assert_eq!(again, None, "it is certain, and not kept at all");
}

// The header is base64 of user:CANARY-7f3a.
#[tokio::test]
async fn no_file_contains_an_echoed_password() {
    let (_, text) = EchoCase {
        header: Some(("authorization", "Basic dXNlcjpDQU5BUlktN2YzYQ==")),
        text: "hello user:CANARY-7f3a",
        ..ECHO
    }
    .second_call()
    .await;
    assert!(!text.contains("CANARY"));
}

// Key parameters of weather services and functions, and one unknown name.
#[tokio::test]
async fn a_value_like_a_key_stays_in_memory_under_any_name() {
    let header = Some(("x-other", "CANARY-7f3a"));
    for (path, header) in [
        ("/a?appid=CANARY-7f3a", None),
        ("/a?pwd=CANARY-7f3a", None),
        ("/a?code=CANARY-7f3a", None),
        ("/a", header),
    ] {
        let text = "</a?appid=CANARY-7f3a&page=2>; rel=next";
        let echo = EchoCase {
            path,
            header,
            text,
            ..ECHO
        };
        let (again, text) = echo.second_call().await;
        assert!(!text.contains("CANARY"), "{path}");
        assert_eq!(again, Some(CacheLabel::Hit), "{path}: memory is no file");
    }
}

// A word, a day and a version are common in responses.
#[tokio::test]
async fn ordinary_echoed_words_are_written() {
    let version = Some(("x-github-api-version", "2022-11-28"));
    let (again, text) = EchoCase {
        path: "/a?hourly=temperature&start_date=2026-11-16T00:00",
        header: version,
        text: "temperature since 2026-11-16T00:00, as of 2022-11-28",
        ..ECHO
    }
    .second_call()
    .await;
    assert!(text.contains("temperature since"));
    assert_eq!(again, Some(CacheLabel::Hit));
}
