//! The credential that identifies a caller.

use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;

/// Location of a caller's credential in a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum CallerKey {
    /// All requests belong to one caller.
    #[default]
    None,
    /// This header, with its exact value.
    Header(HeaderName),
    /// This query parameter, with its exact value.
    Query(Box<str>),
}

impl CallerKey {
    /// Returns the caller of a request, empty without a credential.
    pub(crate) fn caller(&self, request: &Parts) -> Arc<str> {
        let found = match self {
            Self::None => None,
            Self::Header(name) => request.headers.get(name).and_then(|v| v.to_str().ok()),
            Self::Query(name) => parameter(request.uri.query().unwrap_or_default(), name),
        };
        found.unwrap_or_default().into()
    }
}

/// Header that every request must have, with its exact value.
#[derive(Clone, Debug)]
pub(crate) struct RequiredKey {
    pub(crate) header: HeaderName,
    pub(crate) value: Box<str>,
}

impl RequiredKey {
    pub(crate) fn is_in(&self, request: &Parts) -> bool {
        let found = request.headers.get(&self.header);
        found.is_some_and(|found| found.as_bytes() == self.value.as_bytes())
    }
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(uri: &str) -> Parts {
        let request = http::Request::builder().uri(uri).header("authorization", "Bearer a");
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn a_caller_is_its_exact_credential() {
        let request = parts("/x?key=k1&keys=k2");
        let header = CallerKey::Header(http::header::AUTHORIZATION);
        assert_eq!(&*header.caller(&request), "Bearer a");
        assert_eq!(&*CallerKey::Query("key".into()).caller(&request), "k1");
        assert_eq!(&*CallerKey::Query("ke".into()).caller(&request), "");
        assert_eq!(&*CallerKey::None.caller(&request), "");
    }
}
