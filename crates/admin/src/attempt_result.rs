//! Result of an attempt, as its sender reports it.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use outflow::AttemptResult;
use outflow::core::Fault;
use serde::Deserialize;
use smol_str::SmolStr;

use super::problem::AdminProblem;

/// Reported result: a permit with a status and headers, or with a fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportedResult {
    permit: SmolStr,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, HeaderValues>,
    fault: Option<FailureParam>,
}

/// One or several values of a header.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum HeaderValues {
    One(String),
    Several(Vec<String>),
}

/// Reason for a missing or incomplete response.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FailureParam {
    ConnectTimeout,
    ReadTimeout,
    Dns,
    Reset,
    TlsHandshake,
    TlsCertificate,
    TruncatedBody,
    InvalidResponse,
    Cancelled,
}

/// Valid result.
#[derive(Debug)]
pub(crate) enum KnownResult {
    /// A response arrived.
    Response(u16, HeaderMap),
    /// No complete response arrived.
    Fault(Fault),
    /// The sender cancelled the attempt.
    Cancelled,
}

impl ReportedResult {
    /// Returns the number of the permit.
    pub(crate) fn permit(&self) -> &str {
        &self.permit
    }

    /// Parses the result.
    ///
    /// # Errors
    /// If it has both a status and a fault or neither, or an invalid status or header.
    pub(crate) fn parse(&self) -> Result<KnownResult, AdminProblem> {
        match (self.status, self.fault) {
            (Some(code @ 100..=999), None) => Ok(KnownResult::Response(code, self.parse_headers()?)),
            (Some(_), None) => Err(AdminProblem::bad("`status` is from 100 to 999")),
            (None, Some(failure)) => Ok(failure.to_result()),
            _ => Err(AdminProblem::bad(
                "report the result of the call: either `status` or `fault`",
            )),
        }
    }

    fn parse_headers(&self) -> Result<HeaderMap, AdminProblem> {
        let invalid = || AdminProblem::bad("`headers` contains an invalid header");
        let mut headers = HeaderMap::new();
        for (name, values) in &self.headers {
            let name: HeaderName = name.parse().map_err(|_| invalid())?;
            for value in values.as_slice() {
                let value = HeaderValue::from_str(value).map_err(|_| invalid())?;
                let added = headers.try_append(name.clone(), value);
                added.map_err(|_| invalid())?;
            }
        }
        Ok(headers)
    }
}

impl HeaderValues {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

impl FailureParam {
    const fn to_result(self) -> KnownResult {
        KnownResult::Fault(match self {
            Self::ConnectTimeout => Fault::ConnectTimeout,
            Self::ReadTimeout => Fault::ReadTimeout,
            Self::Dns => Fault::Dns,
            Self::Reset => Fault::Reset,
            Self::TlsHandshake => Fault::TlsHandshake,
            Self::TlsCertificate => Fault::TlsCertificate,
            Self::TruncatedBody => Fault::TruncatedBody,
            Self::InvalidResponse => Fault::InvalidResponse,
            Self::Cancelled => return KnownResult::Cancelled,
        })
    }
}

impl KnownResult {
    /// Converts the result for the permit.
    pub(crate) const fn as_attempt_result(&self) -> AttemptResult<'_> {
        match self {
            Self::Response(code, headers) => AttemptResult::response(*code, headers),
            Self::Fault(fault) => AttemptResult::fault(*fault),
            Self::Cancelled => AttemptResult::cancelled(),
        }
    }
}
