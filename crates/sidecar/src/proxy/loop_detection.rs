//! Loop detection by a mark in `Via` of every forwarded request.
//!
//! Proxies write their names into `Via`, and a pseudonym is allowed. Each sidecar has a random one: two
//! sidecars in a row are a chain, and only the same sidecar twice is a loop.

use http::header::VIA;
use http::{HeaderMap, HeaderValue, StatusCode, Version};

use super::problem::ProxyProblem;

/// Random pseudonym of one sidecar.
#[derive(Debug)]
pub(crate) struct ViaMark {
    name: String,
    /// Values of `Via` for each protocol version.
    http_1: HeaderValue,
    http_2: HeaderValue,
}

impl ViaMark {
    /// Creates a random mark.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; 4];
        // Without randomness, the process id still tells two processes of one machine apart.
        let number = getrandom::fill(&mut bytes).map_or_else(|_| std::process::id(), |()| u32::from_ne_bytes(bytes));
        let name = format!("outflow-{number:08x}");
        let via = |protocol: &str| HeaderValue::try_from(format!("{protocol} {name}"));
        Self {
            http_1: via("1.1").unwrap_or(UNNAMED),
            http_2: via("2").unwrap_or(UNNAMED),
            name,
        }
    }

    /// Adds the mark to a request, or returns a problem if the request has it already.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap, version: Version) -> Result<(), ProxyProblem> {
        if self.is_in(headers) {
            return Err(loop_problem());
        }
        let via = match version {
            Version::HTTP_2 => &self.http_2,
            _ => &self.http_1,
        };
        headers.append(VIA, via.clone());
        Ok(())
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        let names = headers.get_all(VIA).into_iter();
        let mut names = names.filter_map(|value| value.to_str().ok());
        names.any(|names| names.contains(&self.name))
    }
}

fn loop_problem() -> ProxyProblem {
    ProxyProblem::new(
        StatusCode::LOOP_DETECTED,
        "loop",
        "the request came back to the sidecar that forwarded it",
    )
    .detail("this sidecar has forwarded the request before")
    .advice("set `base_url` to the address of the API itself, not to one that leads back here")
    .proxy_error("proxy_loop_detected")
}

const UNNAMED: HeaderValue = HeaderValue::from_static("1.1 outflow");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_forwarded_and_a_loop_is_not() {
        let (first, second) = (ViaMark::random(), ViaMark::random());
        let mut headers = HeaderMap::new();
        headers.append(VIA, HeaderValue::from_static("1.0 fred, 1.1 outflow"));
        for mark in [&first, &second] {
            mark.add_to(&mut headers, Version::HTTP_11).expect("its first time");
        }
        assert_eq!(headers.get_all(VIA).iter().count(), 3);
        // A proxy between may join all names into one header.
        let names: Vec<_> = headers.get_all(VIA).iter().map(|name| name.to_str().unwrap()).collect();
        let joined = HeaderValue::try_from(names.join(", ")).expect("text");
        let mut joined = HeaderMap::from_iter([(VIA, joined)]);
        for mark in [first, second] {
            assert!(mark.add_to(&mut joined, Version::HTTP_2).is_err());
            assert!(mark.add_to(&mut headers, Version::HTTP_2).is_err());
        }
    }
}
