//! No secret of a request is left behind, in memory that is shown or in a file.

use std::fs;
use std::path::Path;
use std::time::Duration;

use outflow::CacheMode;
use outflow::cache::{NotStored, StoreDecision};

use super::support::{Ask, answer, at, memory, offer, on_disk, said};

const CANARY: &str = "canary-7f3a9c51e2";

fn found_in(dir: &Path) -> Vec<String> {
    let holds = |text: &[u8]| {
        text.windows(CANARY.len())
            .any(|part| part == CANARY.as_bytes())
    };
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

/// Requests with the canary in each place that a caller can put it.
fn bearers() -> Vec<Ask> {
    let page = || Ask::page().by(None);
    let mut bearers = vec![
        page().by(Some(CANARY.as_bytes())),
        Ask::get(&format!("https://api.example.com/{CANARY}")),
        Ask::get(&format!("https://api.example.com/page?key={CANARY}")),
        Ask::get(&format!("https://api.example.com/page?q={CANARY}")),
        Ask::get(&format!("https://user:{CANARY}@api.example.com/page")),
    ];
    for name in [
        "authorization",
        "cookie",
        "x-api-key",
        "x-plain",
        "accept",
        "user-agent",
    ] {
        bearers.push(page().with(name, CANARY));
        bearers.push(page().with(name, &format!("Bearer {CANARY}")));
    }
    bearers
}

// The answers vary by every header that the canary could be in, and are forced to be kept.
#[test]
fn a_canary_in_a_request_is_in_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    let lines = "vary: authorization, cookie, x-api-key, x-plain, accept, user-agent\netag: \"1\"";
    for ask in bearers() {
        let ask = ask.mode(CacheMode::Force(Duration::from_mins(1)));
        assert_eq!(offer(&cache, &ask, lines, "body"), StoreDecision::Stored);
        let shown = format!(
            "{:?} {cache:?} {:?}",
            ask.query(),
            cache.lookup(&ask.query(), at(1))
        );
        assert!(!shown.contains(CANARY), "{shown}");
    }
    cache.flush();
    assert!(cache.report().disk > 0, "there is something to search");
    assert_eq!(found_in(dir.path()), Vec::<String>::new());
}

// An echoing server: the answer would carry the secret into the file.
#[test]
fn an_answer_that_repeats_a_secret_is_not_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = on_disk(dir.path());
    let page = || Ask::page().by(None);
    let bearers = [
        page().by(Some(CANARY.as_bytes())),
        page().with("authorization", &format!("Bearer {CANARY}")),
        page().with("cookie", &format!("theme=dark; sid={CANARY}")),
        page().with("x-api-key", CANARY),
        Ask::get(&format!(
            "https://api.example.com/page?a=b&api_key={CANARY}"
        )),
        Ask::get(&format!("https://user:{CANARY}@api.example.com/page")),
    ];
    let body = format!("{{\"you sent\": \"{CANARY}\"}}").leak();
    let link = said(&format!(
        "cache-control: max-age=60\nlink: <https://x/?key={CANARY}>; rel=next"
    ));
    let plain = said("cache-control: max-age=60");
    for ask in bearers {
        for echo in [answer(200, &plain, body), answer(200, &link, "body")] {
            let kept = cache.offer(&ask.query(), echo, at(0));
            assert_eq!(
                kept,
                StoreDecision::Not(NotStored::RepeatsSecret),
                "{}",
                ask.uri
            );
        }
    }
    cache.flush();
    assert_eq!(found_in(dir.path()), Vec::<String>::new());
}

// The same bytes are no secret of a request that does not bear them.
#[test]
fn an_answer_is_kept_for_callers_whose_secret_it_is_not() {
    let body = format!("{CANARY} is a bird").leak();
    assert_eq!(
        offer(&memory(), &Ask::page(), "cache-control: max-age=60", body),
        StoreDecision::Stored
    );
}

// Two caches make different names of one request: a list of names cannot be made beforehand.
#[test]
fn the_names_of_files_cannot_be_guessed() {
    let names = [(); 2].map(|()| {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = on_disk(dir.path());
        offer(&cache, &Ask::page(), "cache-control: max-age=60", "body");
        cache.flush();
        let file = super::disk::answers(dir.path()).remove(0);
        file.file_name().map(ToOwned::to_owned)
    });
    assert_ne!(names[0], names[1]);
}
