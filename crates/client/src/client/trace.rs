//! The W3C trace context of a call: which trace it belongs to, and a span of its own within it.

use std::fmt;

use smol_str::SmolStr;

/// A `traceparent` that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TraceParent {
    trace: SmolStr,
    flags: SmolStr,
}

impl TraceParent {
    /// Reads `00-TRACE-SPAN-FLAGS`. Later versions are read as this one, as their standard asks.
    pub(crate) fn read(written: &str) -> Option<Self> {
        let mut parts = written.trim().split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let (span, flags) = (parts.next()?, parts.next()?);
        let known = is_hex(version, 2) && version != "ff";
        let ended = version != "00" || parts.next().is_none();
        let named = is_hex(trace, 32) && !is_zero(trace) && is_hex(span, 16) && !is_zero(span);
        (known && ended && named && is_hex(flags, 2)).then(|| Self {
            trace: trace.into(),
            flags: flags.into(),
        })
    }

    /// The trace.
    pub(crate) const fn trace_id(&self) -> &SmolStr {
        &self.trace
    }

    /// The header for a call that is a span of its own.
    pub(crate) fn child(&self, entropy: u64) -> Child<'_> {
        // Zero means that there is no span.
        Child(self, entropy.max(1))
    }
}

/// A span of a trace.
pub(crate) struct Child<'a>(&'a TraceParent, u64);

impl fmt::Display for Child<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(parent, span) = self;
        write!(f, "00-{}-{span:016x}-{}", parent.trace, parent.flags)
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == length && text.bytes().all(lower)
}

fn is_zero(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of the standard.
    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_is_continued_under_a_span_of_its_own() {
        let parent = TraceParent::read(GIVEN).expect("valid");
        assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(
            parent.child(0xabc).to_string(),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000abc-01"
        );
        assert!(TraceParent::read(&parent.child(0).to_string()).is_some());
    }

    #[test]
    fn what_is_no_trace_is_not_sent_on() {
        for written in [
            "",
            "00",
            "00-1-2-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1\r\n",
        ] {
            assert_eq!(TraceParent::read(written), None, "{written:?}");
        }
        assert!(TraceParent::read(&GIVEN.replacen("00", "01", 1)).is_some());
    }
}
