//! A minimal language model API, as far as client libraries inspect it.
//!
//! The format is the common one of `OpenAI`: a completion as one document, or with `"stream": true`
//! one event per word and a final `[DONE]`. The text is constant and a token is a word, so that a
//! test knows both in advance. It keeps no state.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use outflow_core::Cost;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::payload::Payload;

/// Answers a request with this body.
pub(crate) fn reply(body: &[u8]) -> Response<Payload> {
    match serde_json::from_slice::<ChatRequest>(body) {
        Ok(question) if question.stream => streamed(&question),
        Ok(question) => document(StatusCode::OK, &completion(&question)),
        Err(_) => document(StatusCode::BAD_REQUEST, &misunderstood()),
    }
}

/// What a chat API counts as the completion of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenCount {
    /// The longest one that the request allows: its `max_tokens`.
    Asked,
    /// The one that is sent, as the `usage` of the response states it.
    Used,
}

/// Counts the tokens of a request: those of its prompt and of its completion. `None` for any other body.
pub(crate) fn count_tokens(body: &[u8], count: TokenCount) -> Option<Cost> {
    let question: ChatRequest = serde_json::from_slice(body).ok()?;
    let asked = question.max_tokens.filter(|_| count == TokenCount::Asked);
    let completion = asked.unwrap_or(completion_tokens());
    Some(Cost::new(prompt_tokens(&question).saturating_add(completion)))
}

/// The used parts of a request; all others are ignored.
#[derive(Deserialize)]
struct ChatRequest {
    #[serde(default)]
    model: String,
    messages: Vec<Message>,
    max_tokens: Option<u64>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: StreamOptions,
}

#[derive(Deserialize)]
struct Message {
    /// A text, or parts of which some are.
    #[serde(default)]
    content: Value,
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

fn completion(question: &ChatRequest) -> Value {
    let message = json!({ "role": "assistant", "content": COMPLETION_TEXT });
    json!({
        "id": ID,
        "object": "chat.completion",
        "created": CREATED,
        "model": question.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        "usage": usage(question),
    })
}

fn streamed(question: &ChatRequest) -> Response<Payload> {
    let choice = |delta: Value, ended: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": ended });
        chunk(question, &json!([choice]), &Value::Null)
    };
    let words = COMPLETION_TEXT.split_inclusive(' ');
    let mut events: VecDeque<_> = words
        .map(|word| choice(json!({ "content": word }), Value::Null))
        .collect();
    events.push_back(choice(json!({}), json!("stop")));
    if question.stream_options.include_usage {
        events.push_back(chunk(question, &json!([]), &usage(question)));
    }
    events.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    typed_response("text/event-stream", Payload::events(events, WORD_INTERVAL))
}

fn chunk(question: &ChatRequest, choices: &Value, usage: &Value) -> Bytes {
    let document = json!({
        "id": ID,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": question.model,
        "choices": choices,
        "usage": usage,
    });
    format!("data: {document}\n\n").into()
}

fn usage(question: &ChatRequest) -> Value {
    let (prompt, answer) = (prompt_tokens(question), completion_tokens());
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
    })
}

fn prompt_tokens(question: &ChatRequest) -> u64 {
    let texts = question.messages.iter();
    let texts = texts.filter_map(|message| message.content.as_str());
    texts.map(count_words).sum()
}

fn completion_tokens() -> u64 {
    count_words(COMPLETION_TEXT)
}

fn count_words(text: &str) -> u64 {
    text.split_whitespace().map(|_| 1).sum()
}

fn misunderstood() -> Value {
    json!({ "error": {
        "message": "send a JSON object with `model` and a list of `messages`",
        "type": "invalid_request_error",
        "param": "messages",
        "code": null,
    } })
}

fn document(status: StatusCode, document: &Value) -> Response<Payload> {
    let mut response = typed_response("application/json", Payload::Whole(document.to_string().into()));
    *response.status_mut() = status;
    response
}

fn typed_response(kind: &'static str, payload: Payload) -> Response<Payload> {
    let mut response = Response::new(payload);
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The text of every completion.
const COMPLETION_TEXT: &str = "Good things come to every caller that waits patiently.";

const ID: &str = "chatcmpl-strict";

/// A constant time keeps responses comparable.
const CREATED: u32 = 1_700_000_000;

/// About the speed of a large model, and nine words still arrive within half a second.
const WORD_INTERVAL: Duration = Duration::from_millis(20);

/// More of a request is not read: no test sends more.
pub(crate) const MAX_REQUEST: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn said(body: &str) -> (StatusCode, String) {
        let response = reply(body.as_bytes());
        let status = response.status();
        let body = response.into_body().collect().await.expect("infallible");
        let text = String::from_utf8(body.to_bytes().to_vec()).expect("text");
        (status, text)
    }

    const QUESTION: &str = r#""model":"m","messages":[{"role":"user","content":"why is that"}]"#;

    // Three words in, nine out.
    #[tokio::test]
    async fn a_completion_holds_the_text_and_counts_its_words() {
        let (status, text) = said(&format!("{{{QUESTION}}}")).await;
        let document: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(status, StatusCode::OK);
        assert_eq!(document["choices"][0]["message"]["content"], COMPLETION_TEXT);
        assert_eq!(document["usage"]["total_tokens"], 12);
    }

    // Nine words, the stop event, the usage on request, and the final marker.
    #[tokio::test(start_paused = true)]
    async fn a_stream_holds_the_text_word_by_word() {
        for (options, events) in [("", 11), (r#","stream_options":{"include_usage":true}"#, 12)] {
            let (_, text) = said(&format!("{{{QUESTION},\"stream\":true{options}}}")).await;
            let document: Vec<_> = text.split_terminator("\n\n").collect();
            assert_eq!(document.len(), events, "{text}");
            assert_eq!(document.last(), Some(&"data: [DONE]"));
            let documents = document.iter().filter_map(|event| event.strip_prefix("data: "));
            let chunks = documents.filter_map(|text| serde_json::from_str::<Value>(text).ok());
            let words: String = chunks
                .filter_map(|chunk| {
                    let word = chunk["choices"][0]["delta"]["content"].as_str();
                    word.map(str::to_owned)
                })
                .collect();
            assert_eq!(words, COMPLETION_TEXT);
        }
    }

    // Three words, and the completion's nine or as many as the caller allows.
    #[test]
    fn a_request_counts_its_prompt_and_its_completion() {
        for (more, count, tokens) in [
            ("", TokenCount::Asked, 12),
            (",\"max_tokens\":380", TokenCount::Asked, 383),
            (",\"max_tokens\":380", TokenCount::Used, 12),
        ] {
            let counted = count_tokens(format!("{{{QUESTION}{more}}}").as_bytes(), count);
            assert_eq!(counted, Some(Cost::new(tokens)), "{count:?}");
        }
        assert_eq!(count_tokens(b"{}", TokenCount::Asked), None);
    }

    #[tokio::test]
    async fn rejects_a_body_without_a_prompt() {
        for wrong in ["", "{", "[]", "{\"messages\":1}"] {
            let (status, text) = said(wrong).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}");
            assert!(text.contains("invalid_request_error"), "{text}");
        }
    }
}
