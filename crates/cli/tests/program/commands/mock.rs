//! `outflow mock`.

use super::support::{MockProcess, fetch, folder, run};

// Five in a minute: of eight calls the mock throttles three.
#[test]
fn the_mock_throttles_calls_over_its_limit_and_reports_them() {
    let mock = MockProcess::start(&["--limit", "5/min", "--dialect", "ietf"]);
    let statuses: Vec<_> = (0..8)
        .map(|number| fetch(&format!("{}/{number}", mock.url)).0)
        .collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    let seen = mock.end();
    assert_eq!((&seen["seen"], &seen["refused"]), (&8.into(), &3.into()));
    assert_eq!(seen["sent_too_early"], 2, "the first refusal asked to wait");
    assert_eq!(seen["limits"][0]["most_in_any_window"], 8);
    assert_eq!(seen["by_status"]["429"], 3);
}

#[test]
fn the_mock_fails_at_its_rate_with_limit_headers() {
    let mock = MockProcess::start(&["--fail", "100%", "--fail-status", "502", "--dialect", "upbit"]);
    let (status, answer) = fetch(&mock.url);
    assert_eq!(status, 502);
    assert!(answer.contains("remaining-req: group="), "{answer}");
    assert_eq!(mock.end()["failed_on_purpose"], 1);
}

#[test]
fn the_mock_with_tls_writes_its_ca_certificate() {
    let folder = folder();
    let file = folder.path().join("ca.pem");
    let mock = MockProcess::start(&["--tls", file.to_str().expect("text")]);
    assert!(mock.url.starts_with("https://localhost:"), "{}", mock.url);
    let pem = std::fs::read_to_string(&file).expect("written");
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
}

// A request without messages is well formed enough for an error that names them.
#[test]
fn the_mock_chat_api_requires_messages() {
    let mock = MockProcess::start(&["--chat"]);
    for path in ["/chat/completions", "/v1/chat/completions"] {
        let (status, answer) = fetch(&format!("{}{path}", mock.url));
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("invalid_request_error"), "{answer}");
    }
    assert_eq!(fetch(&format!("{}/models", mock.url)).0, 200);
}

#[test]
fn the_mock_rejects_an_invalid_limit() {
    for limit in ["0/s", "cone:1/s", "bucket:1/s:0"] {
        assert_eq!(run(&["mock", "--limit", limit]).code, Some(2), "{limit}");
    }
    let taken = MockProcess::start(&[]);
    let port = taken.url.rsplit(':').next().expect("a port");
    let ran = run(&["mock", "--port", port]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.talk.contains("--port"), "{ran:?}");
}
