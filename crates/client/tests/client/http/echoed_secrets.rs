//! What a server repeats, and what another origin says: neither gives a secret away.

use std::path::Path;

use http::HeaderName;
use outflow::cache::{Cache, CacheSettings};
use outflow::event::CacheLabel;
use outflow::{Api, CacheMode, Credential, CredentialPlacement, Outflow};
use outflow_mock::{MockApi, MockResponse, Script, Server};

use super::support::{eager, over_pipes, over_sockets, scripted};

fn keeping(api: &mut Api) {
    api.cache = CacheMode::Standard;
}

/// A server that notes by which names it could know the caller.
async fn noting() -> (MockApi, Server) {
    let mut builder = MockApi::builder();
    for name in ["authorization", "cookie", "x-api-key", "if-none-match"] {
        builder = builder.noting(HeaderName::from_static(name));
    }
    let strict = builder.build().expect("valid");
    let server = strict.listen().await.expect("a port");
    (strict, server)
}

/// The names of the noted headers of every request.
fn seen(strict: &MockApi) -> Vec<String> {
    let audit = strict.audit();
    let all = audit.arrivals().iter().flat_map(|one| &one.headers);
    all.map(|(name, _)| name.to_string()).collect()
}

/// Something that must be asked about each time.
fn tagged() -> MockResponse {
    MockResponse::ok("\"kept\"")
        .header("cache-control", "max-age=0")
        .header("etag", "\"1\"")
}

// A stale answer is asked about, and the API redirects to another origin. Its 304 is about something
// else, so the request is made again: from its beginning, where the key belongs, and not from there.
#[tokio::test]
async fn no_key_follows_to_another_origin_after_a_strange_304() {
    for place in [
        CredentialPlacement::Bearer,
        CredentialPlacement::Header(HeaderName::from_static("x-api-key")),
    ] {
        let (strict, server) = noting().await;
        let (other, elsewhere) = noting().await;
        strict.answer("/a", tagged());
        other.answer(
            "/there",
            MockResponse::status(304).header("etag", "\"other\""),
        );
        let client = over_sockets(&server, |api| {
            keeping(api);
            let secret = "CANARY-7f3a".to_owned().into();
            api.credential = Some(Credential { secret, place });
        });
        let call = || client.get("strict", "/a").header("cookie", "CANARY-cookie");
        call().send().await.expect("kept");
        let away = format!("{}/there", elsewhere.url());
        strict.answer("/a", MockResponse::redirect(302, &away));
        let _ended = call().send().await;
        let told = seen(&other);
        assert!(other.audit().count() > 0, "it was asked");
        assert!(told.iter().all(|name| name == "if-none-match"), "{told:?}");
    }
}

// The other origin says "not modified, for a year" of its own resource.
#[tokio::test]
async fn another_origin_confirms_nothing_of_ours() {
    let (strict, server) = noting().await;
    let (other, elsewhere) = noting().await;
    strict.answer("/a", tagged());
    let pinned = MockResponse::status(304).header("cache-control", "max-age=31536000");
    other.answer("/there", pinned);
    let client = over_sockets(&server, keeping);
    client.get("strict", "/a").send().await.expect("kept");
    let away = format!("{}/there", elsewhere.url());
    strict.answer("/a", MockResponse::redirect(302, &away));
    for _ in 0..2 {
        let ended = client.get("strict", "/a").send().await;
        let from = ended.ok().and_then(|answer| answer.from_cache());
        assert!(!matches!(
            from,
            Some(CacheLabel::Hit | CacheLabel::Revalidated)
        ));
    }
}

// Names that no list of ours holds, and the answer's `Vary` does not either.
#[tokio::test(start_paused = true)]
async fn callers_told_apart_by_a_header_of_any_name_never_mix() {
    for name in ["x-client-id", "x-pass", "x-workspace", "x-shop", "x-bearer"] {
        let strict = scripted(Script::new());
        let hers = MockResponse::ok("\"alice's\"").header("cache-control", "max-age=60");
        strict.answer("/**", hers);
        let client = over_pipes(&strict, keeping);
        let call = |who: &str| client.get("strict", "/me").header(name, who).send();
        call("alice").await.expect("kept");
        let bob = call("bob").await.expect("an answer");
        assert_eq!(bob.from_cache(), None, "{name}");
        let again = call("alice").await.expect("an answer");
        assert_eq!(again.from_cache(), Some(CacheLabel::Hit), "{name}");
    }
}

/// A call whose answer repeats something, in its body and a header.
struct Echo<'a> {
    path: &'a str,
    header: Option<(&'a str, &'a str)>,
    credential: Option<&'a str>,
    text: &'a str,
}

impl Echo<'_> {
    /// Whether a second call is answered from memory, and what is in the files by then.
    async fn kept(self) -> (Option<CacheLabel>, String) {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().join("kept");
        let settings = CacheSettings {
            dir: Some(place.clone()),
            ..CacheSettings::default()
        };
        let cache = Cache::open(settings).expect("a cache");
        let strict = scripted(Script::new());
        let answer = MockResponse::ok(self.text.to_owned()).header("cache-control", "max-age=60");
        strict.answer("/**", answer.header("link", self.text));
        let server = strict.listen().await.expect("a port");
        let mut api = eager(&server.url());
        keeping(&mut api);
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
        call().await.expect("an answer");
        let second = call().await.expect("an answer").from_cache();
        cache.flush();
        (second, files(&place))
    }
}

/// What a directory holds, as text.
fn files(dir: &Path) -> String {
    let mut all = String::new();
    for file in std::fs::read_dir(dir).expect("a directory").flatten() {
        all += &file.file_name().to_string_lossy();
        let content = std::fs::read(file.path()).unwrap_or_default();
        all += &String::from_utf8_lossy(&content);
    }
    all
}

const ECHO: Echo<'static> = Echo {
    path: "/a",
    header: None,
    credential: None,
    text: "",
};

// As a server writes it into the link to the next page.
#[tokio::test]
async fn a_key_echoed_as_a_url_carries_it_is_in_no_file() {
    let (again, text) = Echo {
        credential: Some("CANARY/7f3a+x9"),
        text: "</a?key=CANARY%2F7f3a%2Bx9&page=2>; rel=next",
        ..ECHO
    }
    .kept()
    .await;
    assert!(!text.contains("CANARY"));
    assert_eq!(again, None, "it is certain, and not kept at all");
}

// The header is base64 of user:CANARY-7f3a.
#[tokio::test]
async fn a_password_echoed_in_plain_is_in_no_file() {
    let (_, text) = Echo {
        header: Some(("authorization", "Basic dXNlcjpDQU5BUlktN2YzYQ==")),
        text: "hello user:CANARY-7f3a",
        ..ECHO
    }
    .kept()
    .await;
    assert!(!text.contains("CANARY"));
}

// Names under which weather services and functions take their keys, and one of nobody's.
#[tokio::test]
async fn what_looks_like_a_key_under_any_name_stays_in_memory() {
    let header = Some(("x-other", "CANARY-7f3a"));
    for (path, header) in [
        ("/a?appid=CANARY-7f3a", None),
        ("/a?pwd=CANARY-7f3a", None),
        ("/a?code=CANARY-7f3a", None),
        ("/a", header),
    ] {
        let text = "</a?appid=CANARY-7f3a&page=2>; rel=next";
        let echo = Echo {
            path,
            header,
            text,
            ..ECHO
        };
        let (again, text) = echo.kept().await;
        assert!(!text.contains("CANARY"), "{path}");
        assert_eq!(again, Some(CacheLabel::Hit), "{path}: memory is no file");
    }
}

// A word, a day and a version come back in the answers of half the world.
#[tokio::test]
async fn ordinary_words_that_come_back_are_written() {
    let version = Some(("x-github-api-version", "2022-11-28"));
    let (again, text) = Echo {
        path: "/a?hourly=temperature&start_date=2026-11-16T00:00",
        header: version,
        text: "temperature since 2026-11-16T00:00, as of 2022-11-28",
        ..ECHO
    }
    .kept()
    .await;
    assert!(text.contains("temperature since"));
    assert_eq!(again, Some(CacheLabel::Hit));
}
