//! Requests to an upstream through a proxy, and their responses.
//!
//! Gateways of language models accept only chat completions and parse them, so they cannot serve two bytes.
//! Proxies that are compared with them get the same request.

use bytes::Bytes;
use http::Method;

/// Form of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestForm {
    /// A `GET` of the root with a two-byte response.
    Plain,
    /// A chat completion, as `OpenAI` defines it.
    Chat,
}

impl RequestForm {
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Plain => "/",
            Self::Chat => "/v1/chat/completions",
        }
    }

    pub(crate) const fn method(self) -> Method {
        match self {
            Self::Plain => Method::GET,
            Self::Chat => Method::POST,
        }
    }

    /// Returns the body: empty or JSON.
    pub(crate) const fn body(self) -> Bytes {
        match self {
            Self::Plain => Bytes::new(),
            Self::Chat => Bytes::from_static(QUESTION.as_bytes()),
        }
    }
}

/// The shortest request that all of them accept.
const QUESTION: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

/// A response with every field that the gateways read.
pub(crate) const ANSWER: &str = concat!(
    r#"{"id":"chat-1","object":"chat.completion","created":1700000000,"model":"m","#,
    r#""choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"#,
    r#""usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#,
);
