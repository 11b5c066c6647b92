//! A language model, as much of one as the libraries that call one look at.
//!
//! The form is the one that `OpenAI` made common: a completion as one document, or with `"stream": true`
//! an event for each word and `[DONE]` behind them. What it says is always the same, and a token is a
//! word, so that whoever tests a caller knows both before. It thinks nothing and remembers nothing.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::payload::Payload;

/// Answers a request with this body.
pub(crate) fn reply(body: &[u8]) -> Response<Payload> {
    match serde_json::from_slice::<Question>(body) {
        Ok(question) if question.stream => streamed(&question),
        Ok(question) => document(StatusCode::OK, &completion(&question)),
        Err(_) => document(StatusCode::BAD_REQUEST, &misunderstood()),
    }
}

/// What is asked; whatever else a request says makes no difference here.
#[derive(Deserialize)]
struct Question {
    #[serde(default)]
    model: String,
    messages: Vec<Message>,
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

fn completion(question: &Question) -> Value {
    let message = json!({ "role": "assistant", "content": SAYING });
    json!({
        "id": ID,
        "object": "chat.completion",
        "created": CREATED,
        "model": question.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        "usage": usage(question),
    })
}

fn streamed(question: &Question) -> Response<Payload> {
    let choice = |delta: Value, ended: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": ended });
        chunk(question, &json!([choice]), &Value::Null)
    };
    let words = SAYING.split_inclusive(' ');
    let mut events: VecDeque<_> = words
        .map(|word| choice(json!({ "content": word }), Value::Null))
        .collect();
    events.push_back(choice(json!({}), json!("stop")));
    if question.stream_options.include_usage {
        events.push_back(chunk(question, &json!([]), &usage(question)));
    }
    events.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    let mut response = Response::new(Payload::events(events, EACH_WORD));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn chunk(question: &Question, choices: &Value, usage: &Value) -> Bytes {
    let told = json!({
        "id": ID,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": question.model,
        "choices": choices,
        "usage": usage,
    });
    format!("data: {told}\n\n").into()
}

fn usage(question: &Question) -> Value {
    let said = question.messages.iter();
    let said = said.filter_map(|message| message.content.as_str());
    let prompt: usize = said.map(|text| text.split_whitespace().count()).sum();
    let answer = SAYING.split(' ').count();
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
    })
}

fn misunderstood() -> Value {
    json!({ "error": {
        "message": "send a JSON object with `model` and a list of `messages`",
        "type": "invalid_request_error",
        "param": "messages",
        "code": null,
    } })
}

fn document(status: StatusCode, told: &Value) -> Response<Payload> {
    let mut response = Response::new(Payload::Whole(told.to_string().into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// All that it ever says.
const SAYING: &str = "Good things come to those who wait their turn.";

const ID: &str = "chatcmpl-strict";

/// Any time is as good as another; the same one keeps answers comparable.
const CREATED: u32 = 1_700_000_000;

/// About the speed of a large model, and nine words are still said within half a second.
const EACH_WORD: Duration = Duration::from_millis(20);

/// More of a question is not read: no caller in a test has more to say.
pub(crate) const LONGEST_QUESTION: usize = 1024 * 1024;

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
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(status, StatusCode::OK);
        assert_eq!(told["choices"][0]["message"]["content"], SAYING);
        assert_eq!(told["usage"]["total_tokens"], 12);
    }

    // Nine words, the end of them, the usage if it was asked for, and the end of everything.
    #[tokio::test(start_paused = true)]
    async fn a_stream_holds_the_text_word_by_word() {
        for (options, events) in [
            ("", 11),
            (r#","stream_options":{"include_usage":true}"#, 12),
        ] {
            let (_, text) = said(&format!("{{{QUESTION},\"stream\":true{options}}}")).await;
            let told: Vec<_> = text.split_terminator("\n\n").collect();
            assert_eq!(told.len(), events, "{text}");
            assert_eq!(told.last(), Some(&"data: [DONE]"));
            let documents = told.iter().filter_map(|event| event.strip_prefix("data: "));
            let chunks = documents.filter_map(|text| serde_json::from_str::<Value>(text).ok());
            let words: String = chunks
                .filter_map(|chunk| {
                    let word = chunk["choices"][0]["delta"]["content"].as_str();
                    word.map(str::to_owned)
                })
                .collect();
            assert_eq!(words, SAYING);
        }
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
