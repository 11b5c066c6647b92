//! How a call ended, as the program that sent it tells it.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use outflow::AttemptResult;
use outflow::core::Fault;
use serde::Deserialize;
use smol_str::SmolStr;

use super::problem::AdminProblem;

/// What became of the call of a permit: a status with headers, or a fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportedResult {
    permit: SmolStr,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, HeaderValues>,
    fault: Option<FailureParam>,
}

/// One value or several of one name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum HeaderValues {
    One(String),
    Several(Vec<String>),
}

/// Why there was no complete answer.
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
    Cancelled,
}

/// An ending that makes sense.
#[derive(Debug)]
pub(crate) enum KnownResult {
    /// An answer came.
    Response(u16, HeaderMap),
    /// None did.
    Fault(Fault),
    /// Nobody waited for it.
    Cancelled,
}

impl ReportedResult {
    /// The number of the permit.
    pub(crate) fn permit(&self) -> &str {
        &self.permit
    }

    /// Reads it.
    ///
    /// # Errors
    /// If it says both or neither, or what is no status or header.
    pub(crate) fn read(&self) -> Result<KnownResult, AdminProblem> {
        match (self.status, self.fault) {
            (Some(code @ 100..=999), None) => Ok(KnownResult::Response(code, self.read_headers()?)),
            (Some(_), None) => Err(AdminProblem::bad("`status` is from 100 to 999")),
            (None, Some(mishap)) => Ok(mishap.known()),
            _ => Err(AdminProblem::bad(
                "say how the call ended: `status` or `fault`, and one of them",
            )),
        }
    }

    fn read_headers(&self) -> Result<HeaderMap, AdminProblem> {
        let wrong = || AdminProblem::bad("`headers` holds what is no header");
        let mut headers = HeaderMap::new();
        for (name, values) in &self.headers {
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            for value in values.all() {
                let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
                let added = headers.try_append(name.clone(), value);
                added.map_err(|_| wrong())?;
            }
        }
        Ok(headers)
    }
}

impl HeaderValues {
    fn all(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

impl FailureParam {
    const fn known(self) -> KnownResult {
        KnownResult::Fault(match self {
            Self::ConnectTimeout => Fault::ConnectTimeout,
            Self::ReadTimeout => Fault::ReadTimeout,
            Self::Dns => Fault::Dns,
            Self::Reset => Fault::Reset,
            Self::TlsHandshake => Fault::TlsHandshake,
            Self::TlsCertificate => Fault::TlsCertificate,
            Self::TruncatedBody => Fault::TruncatedBody,
            Self::Cancelled => return KnownResult::Cancelled,
        })
    }
}

impl KnownResult {
    /// The same in the door's words.
    pub(crate) const fn as_answer(&self) -> AttemptResult<'_> {
        match self {
            Self::Response(code, headers) => AttemptResult::response(*code, headers),
            Self::Fault(fault) => AttemptResult::fault(*fault),
            Self::Cancelled => AttemptResult::cancelled(),
        }
    }
}
