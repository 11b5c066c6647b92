//! What is asked of an upstream through a proxy, and what it answers.
//!
//! Gateways of language models take nothing but chat completions, look into them and into the answer,
//! and so cannot be asked for two bytes. Whoever is compared with them is asked for the same.

use bytes::Bytes;
use http::Method;

/// The form of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    /// A `GET` of the root, answered with next to nothing.
    Plain,
    /// A chat completion, as `OpenAI` takes it.
    Chat,
}

impl Ask {
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

    /// What is sent, which is nothing or JSON.
    pub(crate) const fn body(self) -> Bytes {
        match self {
            Self::Plain => Bytes::new(),
            Self::Chat => Bytes::from_static(QUESTION.as_bytes()),
        }
    }
}

/// The shortest that all of them take.
const QUESTION: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

/// With every field that the gateways want to read.
pub(crate) const ANSWER: &str = concat!(
    r#"{"id":"chat-1","object":"chat.completion","created":1700000000,"model":"m","#,
    r#""choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"#,
    r#""usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#,
);
