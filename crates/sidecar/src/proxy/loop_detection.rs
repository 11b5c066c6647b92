//! Our mark on every call that is handed on, by which it is known should it come round.
//!
//! `Via` is where gateways put their names, and a name of one's own choice is allowed there. So each
//! sidecar has one that no other has: two of them in a row are a chain, and only one of them twice is a
//! circle.

use http::header::VIA;
use http::{HeaderMap, HeaderValue, StatusCode, Version};

use super::problem::ProxyProblem;

/// The name of one sidecar.
#[derive(Debug)]
pub(crate) struct ViaMark {
    name: String,
    /// As it is written behind each version.
    over_1: HeaderValue,
    over_2: HeaderValue,
}

impl ViaMark {
    /// A new one.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; 4];
        // Without randomness, two processes of one machine still differ.
        let number = getrandom::fill(&mut bytes)
            .map_or_else(|_| std::process::id(), |()| u32::from_ne_bytes(bytes));
        let name = format!("outflow-{number:08x}");
        let written = |protocol: &str| HeaderValue::try_from(format!("{protocol} {name}"));
        Self {
            over_1: written("1.1").unwrap_or(UNNAMED),
            over_2: written("2").unwrap_or(UNNAMED),
            name,
        }
    }

    /// Marks a call that is handed on, unless it was before.
    pub(crate) fn put_on(
        &self,
        headers: &mut HeaderMap,
        version: Version,
    ) -> Result<(), ProxyProblem> {
        if self.is_on(headers) {
            return Err(circle());
        }
        let written = match version {
            Version::HTTP_2 => &self.over_2,
            _ => &self.over_1,
        };
        headers.append(VIA, written.clone());
        Ok(())
    }

    fn is_on(&self, headers: &HeaderMap) -> bool {
        let names = headers.get_all(VIA).into_iter();
        let mut names = names.filter_map(|value| value.to_str().ok());
        names.any(|names| names.contains(&self.name))
    }
}

fn circle() -> ProxyProblem {
    ProxyProblem::new(
        StatusCode::LOOP_DETECTED,
        "circle",
        "the call has come round to where it began",
    )
    .detail("it was handed on by this sidecar before")
    .advice("set `base_url` to the address of the API itself, not to one that leads back here")
    .proxy_error("proxy_loop_detected")
}

const UNNAMED: HeaderValue = HeaderValue::from_static("1.1 outflow");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_handed_on_and_a_circle_is_not() {
        let (first, second) = (ViaMark::random(), ViaMark::random());
        let mut headers = HeaderMap::new();
        headers.append(VIA, HeaderValue::from_static("1.0 fred, 1.1 outflow"));
        for mark in [&first, &second] {
            mark.put_on(&mut headers, Version::HTTP_11)
                .expect("its first time");
        }
        assert_eq!(headers.get_all(VIA).iter().count(), 3);
        // Whoever is between may write all names into one line.
        let names: Vec<_> = headers
            .get_all(VIA)
            .iter()
            .map(|name| name.to_str().unwrap())
            .collect();
        let joined = HeaderValue::try_from(names.join(", ")).expect("text");
        let mut joined = HeaderMap::from_iter([(VIA, joined)]);
        for mark in [first, second] {
            assert!(mark.put_on(&mut joined, Version::HTTP_2).is_err());
            assert!(mark.put_on(&mut headers, Version::HTTP_2).is_err());
        }
    }
}
