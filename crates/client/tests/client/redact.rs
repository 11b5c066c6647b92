//! Visible parts of a URL, of headers and of any text.

use http::{HeaderMap, HeaderValue, header};
use outflow::redact::{self, Scrubber};
use proptest::prelude::*;
use secrecy::SecretString;

#[test]
fn a_url_is_shown_as_its_path_only() {
    for (uri, shown) in [
        ("", ""),
        ("/", "/"),
        ("/v1/items", "/v1/items"),
        ("/v1/items/", "/v1/items/"),
        ("/v1/items?key=abc#top", "/v1/items"),
        ("/v1/items#access_token=abc", "/v1/items"),
        ("https://api.example.com", "/"),
        ("https://api.example.com?key=abc", "/"),
        ("https://me:pw@api.example.com/v1", "/v1"),
        ("//me:pw@api.example.com/v1", "//…/v1"),
        ("/redirect/https://me:pw@host/x", "/redirect/https://…/x"),
        ("/notification-preferences/17", "/notification-preferences/17"),
        ("/movie/1234567890123456789012", "/movie/1234567890123456789012"),
    ] {
        assert_eq!(redact::path(uri), shown, "{uri}");
    }
}

// Shapes of providers' keys, none of them real, and texts that are queries elsewhere.
#[test]
fn a_segment_that_may_be_a_secret_is_not_shown() {
    for secret in [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmN",
        "d41d8cd98f00b204e9800998ecf8427e",
        "bot8123:AAHk0vT3xPqL9sWz2mRbYc",
        "018f3f6e-7c1a-7b60-9a57-3c1f0e6f2a11",
        "c2VjcmV0IHRva2Vu0a==",
        "page;jsessionid=1",
        "key=1",
        "me@example.com",
        "items%3Fkey%3Dabc",
        "me%40example.com",
        "%61bcdefghijklmnopqrstuvwx%31",
        "%ff%fe",
    ] {
        assert_eq!(redact::path(&format!("/v1/{secret}/x")), "/v1/…/x", "{secret}");
    }
}

#[test]
fn a_url_is_shown_without_user_and_query() {
    for (url, shown) in [
        ("https://me:pw@h.example:8443/v1?k=1", "https://h.example:8443/v1"),
        ("https://me:p@ss@h.example/v1", "https://h.example/v1"),
        ("https://me:pw@h.example?k=@x", "https://h.example/"),
        ("/v1?next=https://me:pw@h/", "/v1"),
        ("/a/https://me:pw@h/", "/a/https://…/"),
    ] {
        assert_eq!(redact::Url(url).to_string(), shown, "{url}");
        assert_eq!(format!("{:?}", redact::Url(url)), shown, "{url}");
    }
}

#[test]
fn headers_are_shown_by_name_and_harmless_ones_by_value() {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(
        header::USER_AGENT,
        redact::mark_sensitive(HeaderValue::from_static("k3y")),
    );
    for name in [
        "authorization",
        "cookie",
        "set-cookie",
        "x-api-key",
        "location",
        "referer",
    ] {
        headers.insert(name, HeaderValue::from_static("k3y"));
    }
    headers.append("x-api-key", HeaderValue::from_static("k3y"));
    let (shown, printed) = (
        redact::headers(&headers).to_string(),
        format!("{:?}", redact::headers(&headers)),
    );
    assert_eq!(shown, printed);
    assert!(shown.contains("content-type: text/plain"), "{shown}");
    assert_eq!(shown.matches("[redacted]").count(), 8, "{shown}");
    assert!(!shown.contains("k3y"), "{shown}");
}

#[test]
fn a_sensitive_value_does_not_print_itself() {
    let value = redact::mark_sensitive(HeaderValue::from_static("Bearer k3y"));
    assert_eq!(format!("{value:?}"), "Sensitive");
    assert_eq!(value, "Bearer k3y", "and is sent all the same");
}

// One secret is a prefix of another, and one is too short.
#[test]
fn no_remainder_of_a_secret_is_left() {
    let scrubber = Scrubber::new();
    for secret in ["key1", "key1-and-more", "a", ""] {
        scrubber.learn(&SecretString::from(secret));
    }
    let shown = scrubber.scrub("key1-and-more, key1; a plan");
    assert_eq!(shown, "[redacted], [redacted]; a plan");
    let fine = scrubber.scrub("nothing to hide");
    assert!(matches!(fine, std::borrow::Cow::Borrowed(_)), "nothing is copied");
}

proptest! {
    // Redaction is idempotent for any input.
    #[test]
    fn a_redacted_path_is_short_and_stable(uri in "\\PC{0,400}") {
        let shown = redact::path(&uri);
        prop_assert!(shown.len() <= 256, "{} bytes", shown.len());
        prop_assert!(!shown.contains(['?', '#']), "{shown}");
        prop_assert_eq!(redact::path(&shown), shown);
    }

    // The secret anywhere in a long path, also at the cut.
    #[test]
    fn no_part_of_a_key_survives_the_cut(before in 0_usize..300) {
        let uri = format!("/{}/sk51Hq8vKzXoPw0aBcDe/x", "a".repeat(before));
        prop_assert!(!redact::path(&uri).contains("sk"), "{uri}");
    }
}
