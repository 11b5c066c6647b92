//! `outflow mock`.

use super::support::{Upstream, fetch, folder, run};

// Five a second: of eight at once three are over.
#[test]
fn it_refuses_what_is_over_and_says_so_at_its_end() {
    let upstream = Upstream::start(&["--limit", "5/min", "--dialect", "ietf"]);
    let statuses: Vec<_> = (0..8)
        .map(|number| fetch(&format!("{}/{number}", upstream.url)).0)
        .collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    let seen = upstream.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&8.into(), &3.into()));
    assert_eq!(seen["sent_too_early"], 2, "the first refusal asked to wait");
    assert_eq!(seen["limits"][0]["most_in_any_window"], 8);
    assert_eq!(seen["by_status"]["429"], 3);
}

#[test]
fn it_fails_as_often_as_it_is_told_and_tells_its_headers() {
    let upstream = Upstream::start(&[
        "--fail",
        "100%",
        "--fail-status",
        "502",
        "--dialect",
        "upbit",
    ]);
    let (status, answer) = fetch(&upstream.url);
    assert_eq!(status, 502);
    assert!(answer.contains("remaining-req: group="), "{answer}");
    assert_eq!(upstream.end()["failed_on_purpose"], 1);
}

#[test]
fn behind_tls_it_leaves_the_certificate_of_its_authority() {
    let folder = folder();
    let file = folder.path().join("ca.pem");
    let upstream = Upstream::start(&["--tls", file.to_str().expect("text")]);
    assert!(
        upstream.url.starts_with("https://localhost:"),
        "{}",
        upstream.url
    );
    let pem = std::fs::read_to_string(&file).expect("written");
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
}

// A question without words is understood well enough to be told what is missing.
#[test]
fn as_a_language_model_it_wants_messages() {
    let upstream = Upstream::start(&["--chat"]);
    for path in ["/chat/completions", "/v1/chat/completions"] {
        let (status, answer) = fetch(&format!("{}{path}", upstream.url));
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("invalid_request_error"), "{answer}");
    }
    assert_eq!(fetch(&format!("{}/models", upstream.url)).0, 200);
}

#[test]
fn a_limit_that_is_none_is_a_usage_error() {
    for limit in ["0/s", "cone:1/s", "bucket:1/s:0"] {
        assert_eq!(run(&["mock", "--limit", limit]).code, Some(2), "{limit}");
    }
    let taken = Upstream::start(&[]);
    let port = taken.url.rsplit(':').next().expect("a port");
    let ran = run(&["mock", "--port", port]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.talk.contains("--port"), "{ran:?}");
}
