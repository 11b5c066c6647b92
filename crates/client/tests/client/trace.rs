//! Trace continuation, and ignored headers.

use fastrand::Rng;
use http::{HeaderMap, HeaderValue};
use outflow::core::WallTime;
use outflow::trace::{RequestId, Trace, TraceContext, TraceState};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn parent(version: &str, flags: &str, rest: &str) -> String {
    format!("{version}-{TRACE}-{SPAN}-{flags}{rest}")
}

#[test]
fn a_valid_traceparent_is_read() {
    for (header, flags) in [
        (parent("00", "01", ""), 1),
        (parent("00", "00", ""), 0),
        // Only the two known flags are kept.
        (parent("00", "ff", ""), 3),
        // A later version, as long as this one and longer.
        (parent("01", "01", ""), 1),
        (parent("cc", "01", "-what-comes-later"), 1),
        (parent("cc", "01", "-"), 1),
    ] {
        let read = TraceContext::parse(&header).expect(&header);
        assert_eq!(read.trace_id().to_string(), TRACE, "{header}");
        assert_eq!(format!("{:016x}", read.span_id), SPAN, "{header}");
        assert_eq!(read.flags, flags, "{header}");
        let written = read.to_string();
        assert_eq!(written, format!("00-{TRACE}-{SPAN}-0{flags}"));
    }
}

#[test]
fn an_invalid_traceparent_is_ignored() {
    let zero = "0".repeat(32);
    for header in [
        String::new(),
        "00".to_owned(),
        "garbage".to_owned(),
        parent("ff", "01", ""),
        parent("FF", "01", ""),
        parent("0", "01", ""),
        parent("0x", "01", ""),
        parent("00", "1", ""),
        parent("00", "001", ""),
        parent("00", "0G", ""),
        parent("00", "+1", ""),
        // More than version 00 has, and a later version without a dash.
        parent("00", "01", "-"),
        parent("00", "01", "-more"),
        parent("cc", "01", ".more"),
        parent("cc", "01", "0"),
        // Upper case, all zero, too short, too long, misplaced, not ASCII.
        parent("00", "01", "").replace("4bf9", "4BF9"),
        parent("00", "0A", ""),
        parent("00", "01", "").replace(TRACE, &zero),
        parent("00", "01", "").replace(SPAN, &zero[..16]),
        parent("00", "01", "").replace(SPAN, &SPAN[..15]),
        parent("00", "01", "").replace(TRACE, &TRACE[..31]),
        parent("00", "01", "").replace(TRACE, &format!("{TRACE}0")),
        parent("00", "01", "").replace("4736-", "-4736"),
        parent("00", "01", "").replace('-', "_"),
        parent("00", "01", "").replace("4bf", "é"),
        format!(" {}", parent("00", "01", "")),
        format!("{} ", parent("00", "01", "")),
    ] {
        assert_eq!(TraceContext::parse(&header), None, "{header}");
    }
}

#[test]
fn a_trace_continues_with_a_new_span() {
    let mut headers = HeaderMap::new();
    headers.insert("traceparent", value(&parent("00", "01", "")));
    headers.append("tracestate", value("congo=t61rcWkgMzE, ,rojo=1"));
    headers.append("tracestate", value("a@b=c "));
    let mut rng = Rng::with_seed(1);
    let trace = Trace::new(&headers, &mut rng);
    assert_eq!(
        (trace.context.trace_id().to_string().as_str(), trace.context.flags),
        (TRACE, 1)
    );
    assert_ne!(format!("{:016x}", trace.context.span_id), SPAN);

    let mut sent = HeaderMap::new();
    sent.append("tracestate", value("old=1"));
    trace.write(&mut sent);
    assert_eq!(sent["traceparent"], trace.context.to_string());
    assert_eq!(sent["tracestate"], "congo=t61rcWkgMzE,rojo=1,a@b=c");
    let parts = TraceContext::parse(&trace.context.to_string());
    assert_eq!(parts, Some(trace.context));
}

#[test]
fn a_trace_starts_without_a_valid_parent() {
    let wrong = [
        vec![],
        vec![parent("ff", "01", "")],
        vec![parent("00", "01", ""), parent("00", "01", "")],
    ];
    for (seed, parents) in (1..).zip(wrong) {
        let mut headers = HeaderMap::new();
        for parent in &parents {
            headers.append("traceparent", value(parent));
        }
        headers.insert("tracestate", value("congo=1"));
        let trace = Trace::new(&headers, &mut Rng::with_seed(seed));
        assert_ne!(trace.context.trace_id().to_string(), TRACE);
        assert_eq!(trace.state, None, "it belongs to nothing");
        assert_eq!(trace.context.flags & 1, 0, "recording was not requested");
        assert!(TraceContext::parse(&trace.context.to_string()).is_some());
    }
}

#[test]
fn an_invalid_tracestate_is_dropped_and_the_trace_kept() {
    let many: Vec<_> = (0..33).map(|n| format!("k{n}=v")).collect();
    let long = format!("a={},b={}", "v".repeat(256), "v".repeat(256));
    for list in [
        "",
        ",",
        "novalue",
        "k=",
        "=v",
        "Upper=1",
        "1digit=1",
        "k=a=b",
        "k=1,k=2",
        "a@1b=1",
        "@b=1",
        "k=\u{7f}",
        &many.join(","),
        &long,
    ] {
        assert_eq!(TraceState::parse(list), None, "{list}");
    }
    let right = many[..32].join(",");
    assert_eq!(TraceState::parse(&right).expect("32 entries").as_str(), right);

    let mut headers = HeaderMap::new();
    headers.insert("traceparent", value(&parent("00", "01", "")));
    headers.insert("tracestate", value("Upper=1"));
    let trace = Trace::new(&headers, &mut Rng::with_seed(1));
    assert_eq!(
        (trace.context.trace_id().to_string().as_str(), trace.state),
        (TRACE, None)
    );
}

// Ids a millisecond apart are ordered; within one millisecond they only differ.
#[test]
fn request_ids_follow_the_order_of_their_calls() {
    let mut rng = Rng::with_seed(3);
    let at = |millis| WallTime::since_epoch(std::time::Duration::from_millis(millis));
    let ids: Vec<_> = (1_700_000_000_000..1_700_000_001_000)
        .flat_map(|millis| {
            [
                RequestId::new(at(millis), &mut rng),
                RequestId::new(at(millis), &mut rng),
            ]
        })
        .map(|id| id.to_string())
        .collect();
    for pair in ids.chunks(2) {
        assert_ne!(pair[0], pair[1]);
    }
    let mut ordered: Vec<_> = ids.iter().map(|id| &id[..13]).collect();
    ordered.sort_unstable();
    assert!(ids.iter().map(|id| &id[..13]).eq(ordered));
    for id in &ids {
        let groups: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
        assert!(id[14..].starts_with('7') && "89ab".contains(&id[19..20]), "{id}");
    }
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_bytes(text.as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""))
}
