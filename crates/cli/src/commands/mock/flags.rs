//! Parsers for limits and header dialects of the command line.

use outflow_core::Rate;
use outflow_mock::{Dialect, Quota, ResetForm};

/// Parses `10/s`, `fixed:100/min`, `aligned:100/min` or `bucket:10/s:20`.
pub(super) fn quota(text: &str) -> Result<Quota, String> {
    let (kind, rest) = text.split_once(':').unwrap_or(("sliding", text));
    let (rate, burst) = match rest.split_once(':') {
        Some((rate, burst)) => (rate, Some(burst)),
        None => (rest, None),
    };
    let rate: Rate = rate.parse().map_err(|error| format!("{error}"))?;
    match (kind, burst) {
        ("sliding", None) => Ok(Quota::sliding(rate)),
        ("fixed", None) => Ok(Quota::fixed(rate)),
        ("aligned", None) => Ok(Quota::aligned(rate)),
        ("bucket", None) => Ok(Quota::bucket(rate, rate.quantity())),
        ("bucket", Some(burst)) => match burst.parse() {
            Ok(burst) if burst > 0 => Ok(Quota::bucket(rate, burst)),
            _ => Err("a burst is a whole number, as in `bucket:10/s:20`".to_owned()),
        },
        _ => Err("write it like `10/s`, `fixed:100/min` or `bucket:10/s:20`".to_owned()),
    }
}

/// Formats a limit for the output.
pub(super) fn format_limit(quota: &Quota) -> String {
    let window = quota.window();
    Rate::new(quota.capacity(), window).map_or_else(|_| "no limit".to_owned(), |rate| rate.to_string())
}

/// Parses the name of a header dialect.
pub(super) fn dialect(text: &str) -> Result<Dialect, String> {
    let known = DIALECTS.iter().find(|(name, _)| *name == text);
    known.map(|(_, dialect)| *dialect).ok_or_else(|| {
        let names: Vec<_> = DIALECTS.iter().map(|(name, _)| *name).collect();
        format!("use one of {}", names.join(", "))
    })
}

const DIALECTS: [(&str, Dialect); 7] = [
    ("ietf", Dialect::Ietf),
    ("x-ratelimit", Dialect::XRateLimit(ResetForm::Seconds)),
    ("openai", Dialect::OpenAi),
    ("anthropic", Dialect::Anthropic),
    ("upbit", Dialect::Upbit),
    ("binance", Dialect::Binance),
    ("shopify", Dialect::Shopify),
];

/// Notations of limits, for the help.
pub(super) const FORMS: &str = "\
Limits: `10/s` (sliding window), `fixed:100/min` (windows from the first use),
`aligned:100/min` (windows that start at :00), `bucket:10/s:20` (token bucket of 20).
Headers: ietf, x-ratelimit, openai, anthropic, upbit, binance, shopify.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_dialects_parse_in_their_notations() {
        assert_eq!(quota("10/s").map(|quota| format_limit(&quota)), Ok("10/s".to_owned()));
        assert_eq!(quota("bucket:10/s:20").map(|quota| quota.capacity()), Ok(20));
        assert!(quota("aligned:100/min").is_ok());
        for wrong in ["", "0/s", "ten", "cone:1/s", "fixed:1/s:2", "bucket:1/s:0"] {
            assert!(quota(wrong).is_err(), "{wrong}");
        }
        assert!(dialect("ietf").is_ok() && dialect("klingon").is_err());
    }
}
