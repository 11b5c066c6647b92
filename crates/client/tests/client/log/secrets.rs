//! Hostile and secret texts in every place where an observer receives text.

use std::sync::Arc;

use outflow::log::{LineFormat, Log, LogSettings, TracingObserver};
use outflow::metrics::{ApiLabels, Metrics};
use outflow::redact::Scrubber;
use outflow::{Observer, ndjson};
use secrecy::SecretString;
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;

use super::{LogPage, log, settings};
use crate::support::sample_events::{self, NOON};

/// Contains quotes, escapes and encoded characters.
const CANARY: &str = "c4nary \"s/crt\"";

fn settings_with_secret(format: LineFormat) -> LogSettings {
    let scrubber = Scrubber::new();
    scrubber.learn(&SecretString::from(CANARY));
    LogSettings {
        scrubber,
        ..settings(format, Level::TRACE)
    }
}

// Each place of a secret in a text: alone, in a query, a user, a cookie, a body, and URL-encoded.
fn disguises() -> Vec<String> {
    let encoded = "c4nary%20%22s%2Fcrt%22";
    vec![
        CANARY.to_owned(),
        format!("/v1/items?key={CANARY}"),
        format!("https://me:{CANARY}@api.example.com/"),
        format!("session={CANARY}; path=/"),
        format!("{{\"password\":\"{CANARY}\"}}"),
        format!("/v1/{encoded}/x"),
        format!("{}{CANARY}", "a".repeat(2_040)),
        format!("{}{CANARY}", "a".repeat(250)),
    ]
}

fn assert_silent(text: &str, about: &str) {
    for part in ["c4nary", "s/crt", "s%2Fcrt", "crt"] {
        assert!(!text.contains(part), "{part} of {about:?} is in {text}");
    }
}

#[test]
fn no_line_contains_a_known_secret_at_any_level() {
    for format in [LineFormat::Logfmt, LineFormat::Json] {
        for disguise in disguises() {
            let page = LogPage::default();
            let (log, mut pump) = Log::new(settings_with_secret(format), page.clone());
            for event in sample_events::every(&disguise) {
                log.observe(&event);
            }
            pump.drain();
            assert_eq!(page.text().lines().count(), 20);
            assert_silent(&page.text(), &disguise);
        }
    }
}

#[test]
fn tracing_receives_no_known_secret() {
    for disguise in disguises() {
        let (page, traced) = (LogPage::default(), LogPage::default());
        let (log, mut pump) = Log::new(settings_with_secret(LineFormat::Logfmt), page.clone());
        let narrator = TracingObserver::new(settings_with_secret(LineFormat::Logfmt).scrubber);
        let foreign = {
            let traced = traced.clone();
            tracing_subscriber::fmt::layer().with_writer(move || traced.clone())
        };
        let subscriber = tracing_subscriber::registry().with(log.layer()).with(foreign);
        tracing::subscriber::with_default(subscriber, || {
            for event in sample_events::every(&disguise) {
                narrator.observe(&event);
            }
        });
        assert_silent(&traced.text(), &disguise);
        let subscriber = tracing_subscriber::registry().with(log.layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(target: "h2", header = ?disguise, "{disguise}");
        });
        pump.drain();
        assert_eq!(page.text().lines().count(), 21);
        assert_silent(&page.text(), &disguise);
    }
}

// The secret is not registered: the log removes everything that looks like a query, a user or a
// key.
#[test]
fn no_line_contains_an_unknown_key_from_a_path() {
    let key = "sk-live-51Hq8vKzXoPw0aBc";
    for path in [
        format!("/v1/items?key={key}"),
        format!("/v1/{key}/items"),
        format!("https://{key}:x@api.example.com/items"),
        format!("{}{key}", "/a".repeat(122)),
    ] {
        let (log, mut pump, page) = log(LineFormat::Logfmt, Level::TRACE);
        let mut call = sample_events::finished("x");
        call.path = path.as_str().into();
        log.observe(&sample_events::event(
            "a",
            outflow::event::EventKind::Finished(Box::new(call)),
        ));
        pump.drain();
        let text = page.text();
        assert!(text.contains("path=/") && !text.contains("sk-l"), "{text}");
    }
}

#[test]
fn no_metric_contains_a_secret() {
    let metrics = Metrics::new([ApiLabels::new("tmdb", ["movies"])]);
    for disguise in disguises() {
        for event in sample_events::every(&disguise) {
            metrics.observe(&event);
        }
    }
    let now = outflow::core::WallTime::from_unix_secs(NOON);
    assert_silent(&metrics.render(), "the page");
    assert_silent(&ndjson::snapshot_line(&metrics, now), "the line");
}

// A text, its logfmt value, its JSON value.
const ESCAPED: [(&str, &str, &str); 13] = [
    ("plain", "plain", "plain"),
    ("", "\"\"", ""),
    ("two words", "\"two words\"", "two words"),
    ("a=b", "\"a=b\"", "a=b"),
    ("say \"hi\"", r#""say \"hi\"""#, r#"say \"hi\""#),
    (r"back\slash", r#""back\\slash""#, r"back\\slash"),
    ("a\r\nlvl=ERROR", r#""a\r\nlvl=ERROR""#, r"a\r\nlvl=ERROR"),
    ("\u{1b}[31mred", r#""\u001b[31mred""#, r"\u001b[31mred"),
    ("\0\u{7f}\u{9b}", r#""\u0000\u007f\u009b""#, r"\u0000\u007f\u009b"),
    ("a\tb", r#""a\tb""#, r"a\tb"),
    ("\u{2028}\u{202e}", r#""\u2028\u202e""#, r"\u2028\u202e"),
    ("\u{a0}x", "\"\u{a0}x\"", "\u{a0}x"),
    ("값", "값", "값"),
];

#[test]
fn every_text_stays_one_value() {
    for (text, logfmt, json) in ESCAPED {
        let foreign = |units| outflow::event::EventKind::Foreign { group: None, units };
        for (format, shown) in [
            (LineFormat::Logfmt, format!(" api={logfmt} count=")),
            (LineFormat::Json, format!("\"api\":\"{json}\",\"count\":")),
        ] {
            let (log, mut pump, page) = log(format, Level::TRACE);
            log.observe(&sample_events::event(text, foreign(1)));
            pump.drain();
            let line = page.text();
            assert!(line.contains(&shown), "{shown} in {line}");
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(!line.trim_end().contains(char::is_control), "{line:?}");
        }
    }
}

// 64 KiB of quotes: every character is escaped, and the line is still shorter than one of them.
#[test]
fn a_huge_value_is_cut_and_the_line_stays_complete() {
    for text in ["\"".repeat(65_536), "값".repeat(22_000), "\u{1b}".repeat(65_536)] {
        let (log, mut pump, page) = log(LineFormat::Json, Level::TRACE);
        for event in sample_events::every(&text) {
            log.observe(&event);
        }
        pump.drain();
        for line in page.text().lines() {
            assert!(line.len() < 48 * 1_024, "{} bytes", line.len());
            let read: serde_json::Value = serde_json::from_str(line).expect("valid JSON");
            assert!(read["seq"].is_u64(), "{line}");
        }
    }
}

#[test]
fn invalid_utf8_is_shown_lossily() {
    let (log, mut pump, page) = log(LineFormat::Logfmt, Level::INFO);
    let subscriber = tracing_subscriber::registry().with(log.layer());
    tracing::subscriber::with_default(subscriber, || {
        let bytes: &[u8] = b"ok\xff\xfe\n";
        tracing::info!(target: "outflow", bytes);
    });
    pump.drain();
    assert!(
        page.text().contains("bytes=\"ok\u{fffd}\u{fffd}\\n\" seq"),
        "{}",
        page.text()
    );
}

#[test]
fn debug_output_contains_no_secret() {
    let settings = settings_with_secret(LineFormat::Json);
    let shown = format!("{settings:?} {:?}", Arc::new(settings.scrubber.clone()));
    assert!(shown.contains("secrets: 3"), "{shown}");
    assert_silent(&shown, "settings");
}
