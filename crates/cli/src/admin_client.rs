//! Asks the admin API of a running program.

use std::fmt::Display;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use outflow::redact;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::http_once::{ExchangeError, HttpTarget, exchange};

/// Which running program a command is about.
#[derive(Args)]
pub(crate) struct AdminApi {
    /// Where the program is operated.
    #[arg(
        long = "admin",
        value_name = "URL",
        default_value = "http://127.0.0.1:7071"
    )]
    place: HttpTarget,
    /// The variable that holds the operator's token, if one is asked for.
    #[arg(long, value_name = "VARIABLE", default_value = "OUTFLOW_ADMIN_TOKEN")]
    token_env: String,
}

impl AdminApi {
    /// What a GET answers.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::GET, path, None)
    }

    /// What any request answers, if it is a success.
    pub(crate) fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let body = body.map(Value::to_string);
        let answered = self.request(method, path, body)?;
        answered.map_err(|refused| self.to_error(&refused))
    }

    /// The same with a body that is JSON already, and with what it is refused by.
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> anyhow::Result<Result<Value, AdminError>> {
        let request = self.build_request(method, path, body)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.context("no runtime can be started")?;
        let answer = runtime.block_on(exchange(&self.place, request));
        self.read(&answer.map_err(|why| self.unanswered(why))?)
    }

    fn build_request(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Ok(token) = std::env::var(&self.token_env) {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let value = value.with_context(|| format!("`{}` holds no token", self.token_env))?;
            request = request.header(AUTHORIZATION, redact::mark_sensitive(value));
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())));
        request.context("this is no path of the admin API")
    }

    fn unanswered(&self, why: ExchangeError) -> anyhow::Error {
        let place = &self.place;
        let message = match why {
            ExchangeError::TooLarge => format!("the answer of {place} cannot be read"),
            ExchangeError::Broken => format!(
                "{place} broke off, or took too long: look at its log, and at the address if it is no \
                 admin API"
            ),
            ExchangeError::Unreachable(_) => format!(
                "no program is operated at {place}: start one with `outflow serve` or `outflow dev`, or \
                 name it with `--admin URL`"
            ),
        };
        anyhow::Error::new(why).context(message)
    }

    fn read(&self, answer: &Response<Bytes>) -> anyhow::Result<Result<Value, AdminError>> {
        let status = answer.status();
        let body: Option<Value> = serde_json::from_slice(answer.body()).ok();
        match body {
            _ if !status.is_success() => {
                let problem = body.unwrap_or_default();
                Ok(Err(AdminError { status, problem }))
            }
            Some(document) => Ok(Ok(document)),
            None if answer.body().is_empty() => Ok(Ok(Value::Null)),
            None => bail!(
                "{} answers, but is no admin API: name its address with `--admin URL`",
                self.place
            ),
        }
    }

    /// Why it was refused, for whoever called.
    pub(crate) fn to_error(&self, refused: &AdminError) -> anyhow::Error {
        let AdminError { status, problem } = refused;
        let text = |key| problem.get(key).and_then(Value::as_str);
        let told = text("detail").or_else(|| text("title"));
        let place = &self.place;
        match (*status, told) {
            // Each mistake is a line that says so itself.
            (_, Some(told)) if problem.get("mistakes").is_some() => {
                anyhow!("the configuration before stays in effect:\n{told}")
            }
            (StatusCode::UNAUTHORIZED, _) => anyhow!(
                "{place} wants the operator's token: put it into `{}`",
                self.token_env
            ),
            (_, Some(told)) => anyhow!("{told}"),
            (StatusCode::NOT_FOUND, None) => anyhow!("{place} has no such thing"),
            (status, None) => anyhow!("{place} answered {status}"),
        }
    }
}

/// An answer that is no success.
#[derive(Debug)]
pub(crate) struct AdminError {
    pub(crate) status: StatusCode,
    /// What was told of it, nothing if that was no JSON.
    pub(crate) problem: Value,
}

/// A path of segments that may hold anything.
pub(crate) fn path<const N: usize>(segments: [&dyn Display; N]) -> String {
    let encoded = segments.map(|segment| encoded(&segment.to_string()));
    format!("/{}", encoded.join("/"))
}

/// Percent-encodes all but what needs it nowhere.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Everything but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_in_a_path_stays_in_its_segment() {
        assert_eq!(
            path([&"v1", &"apis", &"a/../b", &"health"]),
            "/v1/apis/a%2F..%2Fb/health"
        );
        assert_eq!(encoded("ä?&"), "%C3%A4%3F%26");
    }
}
