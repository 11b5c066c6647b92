//! How a call ended, as the program that sent it tells it.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use outflow::Answer;
use outflow::core::Fault;
use serde::Deserialize;
use smol_str::SmolStr;

use super::problem::Problem;

/// What became of the call of a permit: a status with headers, or a fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ending {
    permit: SmolStr,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    fault: Option<Mishap>,
}

/// One value or several of one name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Several(Vec<String>),
}

/// Why there was no complete answer.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mishap {
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
pub(super) enum Known {
    /// An answer came.
    Response(u16, HeaderMap),
    /// None did.
    Fault(Fault),
    /// Nobody waited for it.
    Cancelled,
}

impl Ending {
    /// The number of the permit.
    pub(super) fn permit(&self) -> &str {
        &self.permit
    }

    /// Reads it.
    ///
    /// # Errors
    /// If it says both or neither, or what is no status or header.
    pub(super) fn read(&self) -> Result<Known, Problem> {
        match (self.status, self.fault) {
            (Some(code @ 100..=999), None) => Ok(Known::Response(code, self.read_headers()?)),
            (Some(_), None) => Err(Problem::bad("`status` is from 100 to 999")),
            (None, Some(mishap)) => Ok(mishap.known()),
            _ => Err(Problem::bad(
                "say how the call ended: `status` or `fault`, and one of them",
            )),
        }
    }

    fn read_headers(&self) -> Result<HeaderMap, Problem> {
        let wrong = || Problem::bad("`headers` holds what is no header");
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

impl Values {
    fn all(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

impl Mishap {
    const fn known(self) -> Known {
        Known::Fault(match self {
            Self::ConnectTimeout => Fault::ConnectTimeout,
            Self::ReadTimeout => Fault::ReadTimeout,
            Self::Dns => Fault::Dns,
            Self::Reset => Fault::Reset,
            Self::TlsHandshake => Fault::TlsHandshake,
            Self::TlsCertificate => Fault::TlsCertificate,
            Self::TruncatedBody => Fault::TruncatedBody,
            Self::Cancelled => return Known::Cancelled,
        })
    }
}

impl Known {
    /// The same in the door's words.
    pub(super) const fn as_answer(&self) -> Answer<'_> {
        match self {
            Self::Response(code, headers) => Answer::response(*code, headers),
            Self::Fault(fault) => Answer::fault(*fault),
            Self::Cancelled => Answer::cancelled(),
        }
    }
}
