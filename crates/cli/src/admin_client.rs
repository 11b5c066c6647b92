//! Client of the admin API of a running program.

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use outflow::redact;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::admin_address::AdminAddress;
use crate::commands::ConfigArgs;
use crate::exit::Exit;
use crate::http_once::{ExchangeError, HttpTarget, exchange};
use crate::terminal::{answer, answer_json};

/// Address and token of a running program.
#[derive(Args)]
pub(crate) struct AdminApi {
    /// Send requests to the admin API at this address; by default `admin.listen` of the configuration.
    #[arg(long = "admin", value_name = "URL")]
    target: Option<HttpTarget>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Read the operator's token from this variable, if the program asks for one.
    #[arg(long, value_name = "VARIABLE", default_value = "OUTFLOW_ADMIN_TOKEN")]
    token_env: String,
}

impl AdminApi {
    /// Sends a GET and returns the document.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::GET, path, None)
    }

    /// Sends a request and returns the document of a successful response.
    pub(crate) fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let body = body.map(Value::to_string);
        let response = self.request(method, path, body)?;
        response.map_err(|refused| self.to_error(&refused))
    }

    /// Sends a request whose body is JSON already. An unsuccessful response is the inner error.
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> anyhow::Result<Result<Value, AdminError>> {
        let address = self.address()?;
        let request = self.build_request(&address, method, path, body)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("no runtime can be started")?;
        let response = runtime.block_on(exchange(&address.target, request));
        parse_response(&address, &response.map_err(|why| explain_failure(&address, why))?)
    }

    fn address(&self) -> anyhow::Result<AdminAddress> {
        AdminAddress::find(self.target.as_ref(), &self.config)
    }

    fn build_request(
        &self,
        address: &AdminAddress,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let configured = address.token.as_ref().map(|token| token.expose_secret().to_owned());
        if let Some(token) = std::env::var(&self.token_env).ok().or(configured) {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let value = value.with_context(|| format!("`{}` holds no token", self.token_env))?;
            request = request.header(AUTHORIZATION, redact::mark_sensitive(value));
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())));
        request.context("not a path of the admin API")
    }

    /// Converts an unsuccessful response into the error for the user.
    pub(crate) fn to_error(&self, refused: &AdminError) -> anyhow::Error {
        let AdminError { status, problem } = refused;
        let text = |key| problem.get(key).and_then(Value::as_str);
        let detail = text("detail").or_else(|| text("title"));
        // The request was sent, so the address is known.
        let target = self
            .address()
            .map_or_else(|_| "the program".to_owned(), |address| address.to_string());
        match (*status, detail) {
            // Each diagnostic is a line of its own.
            (_, Some(detail)) if problem.get("diagnostics").is_some() => {
                anyhow!("the previous configuration stays in effect:\n{detail}\n\nasked: {target}")
            }
            (StatusCode::UNAUTHORIZED, _) => {
                anyhow!("{target} requires the operator's token: set `{}`", self.token_env)
            }
            (_, Some(detail)) => anyhow!("{detail} (asked: {target})"),
            (StatusCode::NOT_FOUND, None) => {
                anyhow!("{target} does not know this path: it may be another program, or an earlier version")
            }
            (status, None) => anyhow!("{target} answered {status}"),
        }
    }
}

fn explain_failure(address: &AdminAddress, why: ExchangeError) -> anyhow::Error {
    let message = match why {
        ExchangeError::TooLarge => format!("cannot read the response of {address}"),
        ExchangeError::Broken => {
            format!("{address} closed the connection or timed out: check its log, and check the address")
        }
        ExchangeError::Unreachable(_) => format!(
            "no program listens at {address}: start one with `outflow serve` or `outflow dev`, or \
             name it with `--admin URL`"
        ),
    };
    anyhow::Error::new(why).context(message)
}

fn parse_response(address: &AdminAddress, response: &Response<Bytes>) -> anyhow::Result<Result<Value, AdminError>> {
    let status = response.status();
    let body: Option<Value> = serde_json::from_slice(response.body()).ok();
    match body {
        _ if !status.is_success() => {
            let problem = body.unwrap_or_default();
            Ok(Err(AdminError { status, problem }))
        }
        Some(document) => Ok(Ok(document)),
        None if response.body().is_empty() => Ok(Ok(Value::Null)),
        None => bail!("{address} is no admin API: name its address with `--admin URL`"),
    }
}

/// Running program, and the form of its response.
#[derive(Args)]
pub(crate) struct AdminTarget {
    #[command(flatten)]
    pub(crate) admin: AdminApi,
    /// Print the response as one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

impl AdminTarget {
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.admin.get(path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.admin.send(Method::POST, path, Some(body))
    }

    pub(crate) fn print(&self, document: &Value, table: impl FnOnce(&Value) -> String) -> anyhow::Result<Exit> {
        if self.json {
            answer_json(document)?;
        } else {
            answer(&table(document))?;
        }
        Ok(Exit::Done)
    }
}

/// Unsuccessful response.
#[derive(Debug)]
pub(crate) struct AdminError {
    pub(crate) status: StatusCode,
    /// Problem document, null if the body is no JSON.
    pub(crate) problem: Value,
}

/// Joins percent-encoded segments into a path.
pub(crate) fn path<const N: usize>(segments: [&str; N]) -> String {
    format!("/{}", segments.map(encoded).join("/"))
}

/// Percent-encodes all characters that are not unreserved.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Characters other than the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_cannot_leave_its_place_in_the_path() {
        assert_eq!(path(["v1", "apis", "a/../b", "health"]), "/v1/apis/a%2F..%2Fb/health");
        assert_eq!(encoded("ä?&"), "%C3%A4%3F%26");
    }
}
