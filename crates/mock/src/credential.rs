//! Who is asking: the credential by which callers are told apart.

use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;

/// Where a request carries its caller's name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum CallerKey {
    /// Nowhere: all requests are of one caller.
    #[default]
    Nobody,
    /// In this header, as it stands.
    Header(HeaderName),
    /// In this parameter of the query, as it stands.
    Query(Box<str>),
}

impl CallerKey {
    /// The caller of a request; without a credential, nobody.
    pub(crate) fn caller(&self, request: &Parts) -> Arc<str> {
        let found = match self {
            Self::Nobody => None,
            Self::Header(name) => request.headers.get(name).and_then(|v| v.to_str().ok()),
            Self::Query(name) => parameter(request.uri.query().unwrap_or_default(), name),
        };
        found.unwrap_or_default().into()
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
        let request = http::Request::builder()
            .uri(uri)
            .header("authorization", "Bearer a");
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn a_caller_is_its_exact_credential() {
        let request = parts("/x?key=k1&keys=k2");
        let header = CallerKey::Header(http::header::AUTHORIZATION);
        assert_eq!(&*header.caller(&request), "Bearer a");
        assert_eq!(&*CallerKey::Query("key".into()).caller(&request), "k1");
        assert_eq!(&*CallerKey::Query("ke".into()).caller(&request), "");
        assert_eq!(&*CallerKey::Nobody.caller(&request), "");
    }
}
