//! Requests leave no secret behind, neither in printed memory nor in a file.

use std::fs;
use std::path::Path;
use std::time::Duration;

use outflow::CacheMode;
use outflow::cache::{NotStored, StoreDecision};

use super::support::{TestRequest, at, headers_from, memory, offer, on_disk, response};

const CANARY: &str = "canary-7f3a9c51e2";

fn found_in(dir: &Path) -> Vec<String> {
    let holds = |text: &[u8]| text.windows(CANARY.len()).any(|part| part == CANARY.as_bytes());
    let files = fs::read_dir(dir).expect("a directory").flatten();
    files
        .filter(|file| {
            let name = file.file_name();
            let content = fs::read(file.path()).expect("readable");
            holds(name.as_encoded_bytes()) || holds(&content)
        })
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Returns requests with the canary in each place where a caller can put it.
fn requests_with_secret() -> Vec<TestRequest> {
    let page = || TestRequest::page().with_credential(None);
    let mut requests_with_secret = vec![
        page().with_credential(Some(CANARY.as_bytes())),
        TestRequest::get(&format!("https://api.example.com/{CANARY}")),
        TestRequest::get(&format!("https://api.example.com/page?key={CANARY}")),
        TestRequest::get(&format!("https://api.example.com/page?q={CANARY}")),
        TestRequest::get(&format!("https://user:{CANARY}@api.example.com/page")),
    ];
    for name in [
        "authorization",
        "cookie",
        "x-api-key",
        "x-plain",
        "accept",
        "user-agent",
    ] {
        requests_with_secret.push(page().with(name, CANARY));
        requests_with_secret.push(page().with(name, &format!("Bearer {CANARY}")));
    }
    requests_with_secret
}

// The responses vary by every header that may hold the canary, and storing them is forced.
#[test]
fn no_file_contains_a_requests_secret() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    let lines = "vary: authorization, cookie, x-api-key, x-plain, accept, user-agent\netag: \"1\"";
    for request in requests_with_secret() {
        let request = request.mode(CacheMode::Force(Duration::from_mins(1)));
        assert_eq!(offer(&cache, &request, lines, "body"), StoreDecision::Stored);
        let shown = format!(
            "{:?} {cache:?} {:?}",
            request.query(),
            cache.lookup(&request.query(), at(1))
        );
        assert!(!shown.contains(CANARY), "{shown}");
    }
    cache.flush();
    assert!(cache.report().disk > 0, "there is something to search");
    assert_eq!(found_in(dir.path()), Vec::<String>::new());
}

// An echoing server would carry the secret into the file.
#[test]
fn a_response_that_echoes_a_secret_is_not_stored() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    let page = || TestRequest::page().with_credential(None);
    let requests_with_secret = [
        page().with_credential(Some(CANARY.as_bytes())),
        page().with("authorization", &format!("Bearer {CANARY}")),
        page().with("cookie", &format!("theme=dark; sid={CANARY}")),
        page().with("x-api-key", CANARY),
        TestRequest::get(&format!("https://api.example.com/page?a=b&api_key={CANARY}")),
        TestRequest::get(&format!("https://user:{CANARY}@api.example.com/page")),
    ];
    let body = format!("{{\"you sent\": \"{CANARY}\"}}").leak();
    let link = headers_from(&format!(
        "cache-control: max-age=60\nlink: <https://x/?key={CANARY}>; rel=next"
    ));
    let plain = headers_from("cache-control: max-age=60");
    for request in requests_with_secret {
        for echo in [response(200, &plain, body), response(200, &link, "body")] {
            let kept = cache.offer(&request.query(), echo, at(0));
            assert_eq!(kept, StoreDecision::Not(NotStored::RepeatsSecret), "{}", request.uri);
        }
    }
    cache.flush();
    assert_eq!(found_in(dir.path()), Vec::<String>::new());
}

// The bytes are no secret of a request that does not carry them.
#[test]
fn a_response_is_stored_for_callers_with_another_secret() {
    let body = format!("{CANARY} is a bird").leak();
    assert_eq!(
        offer(&memory(), &TestRequest::page(), "cache-control: max-age=60", body),
        StoreDecision::Stored
    );
}

// Two caches derive different names from one request, so that no list of names can be prepared.
#[test]
fn file_names_cannot_be_guessed() {
    let names = [(); 2].map(|()| {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = on_disk(dir.path());
        offer(&cache, &TestRequest::page(), "cache-control: max-age=60", "body");
        cache.flush();
        let file = super::disk::response_files(dir.path()).remove(0);
        file.file_name().map(ToOwned::to_owned)
    });
    assert_ne!(names[0], names[1]);
}
