//! Failures of an attempt, in messages that hold no secret.
//!
//! Errors of lower layers are read once, here, and dropped: their texts may quote a URL, a header
//! or the response. The fault that the policy judges, the bytes sent and a phrase from a closed set
//! remain.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use outflow_core::Fault;
use rustls::CertificateError;

use super::pool::Occupancy;
use super::resolve_error::ResolveError;

/// Failure of an attempt without a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AttemptFailure {
    /// Party at fault.
    pub(crate) kind: FailureKind,
    /// Bytes of the request that left this machine.
    pub(crate) sent: BytesSent,
    /// Message for people.
    pub(crate) message: FailureMessage,
}

/// Party at fault for a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailureKind {
    /// The network or the server: the policy judges it.
    Fault(Fault),
    /// A forbidden destination. No server took part.
    Forbidden,
    /// The caller's deadline: the server may have been about to respond.
    Deadline,
    /// The permit was revoked before anything was sent.
    Revoked,
    /// The caller, whose body failed. The server took no part.
    Caller,
}

/// Part of a request that left this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BytesSent {
    /// Provably nothing: there was no connection.
    Nothing,
    /// Sent, but the server states that it did not process the request. It may be sent again, but a
    /// server that counts arrivals has counted it.
    Unprocessed,
    /// Possibly something.
    Something,
}

/// Message from a closed set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailureMessage {
    /// Phrase of our own.
    Phrase(&'static str),
    /// Error kind of the operating system.
    Kind(io::ErrorKind),
    /// Error of the resolver.
    Unresolved(ResolveError),
}

impl fmt::Display for FailureMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phrase(phrase) => f.write_str(phrase),
            Self::Kind(kind) => kind.fmt(f),
            Self::Unresolved(error) => error.fmt(f),
        }
    }
}

impl AttemptFailure {
    pub(super) const fn new(fault: Fault, sent: BytesSent, phrase: &'static str) -> Self {
        Self {
            kind: FailureKind::Fault(fault),
            sent,
            message: FailureMessage::Phrase(phrase),
        }
    }

    /// Reads the error of a request without a response head.
    pub(super) fn from_head_error(error: &hyper::Error, occupancy: Occupancy) -> Self {
        // An error of the caller's body may also hold an I/O error, so this comes first.
        if error.is_user() {
            return Self::caller_failed();
        }
        if let Some(h2) = find::<h2::Error>(error) {
            return Self::from_stream_error(h2, occupancy);
        }
        match find::<io::Error>(error) {
            Some(io) => Self {
                message: FailureMessage::Kind(io.kind()),
                ..Self::reset("")
            },
            None if error.is_parse() => {
                Self::invalid_response("the response is not valid HTTP, or its head or length is too large")
            }
            None => Self::reset(phrase(error)),
        }
    }

    /// Reads the error of an HTTP/2 stream. GOAWAY names the last processed stream; only later
    /// streams end with it.
    fn from_stream_error(error: &h2::Error, occupancy: Occupancy) -> Self {
        let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
        if error.is_remote() && (error.is_go_away() || refused) {
            let phrase = "the server did not process the request";
            return Self::new(Fault::Reset, BytesSent::Unprocessed, phrase);
        }
        match error.get_io() {
            Some(io) => Self {
                message: FailureMessage::Kind(io.kind()),
                ..Self::reset("")
            },
            None if error.is_remote() => Self::reset("the server ended the request"),
            None if is_own_fault(error, occupancy) => Self::invalid_response("the response breaks the rules of HTTP/2"),
            None => Self::reset("the server broke the protocol"),
        }
    }

    /// Returns the failure of a response that is not HTTP, whose end is ambiguous, or that fits no request.
    pub(crate) const fn invalid_response(phrase: &'static str) -> Self {
        Self::new(Fault::InvalidResponse, BytesSent::Something, phrase)
    }

    /// Returns the resolver's error, if the name had no address.
    pub(crate) const fn resolve_error(&self) -> Option<ResolveError> {
        match self.message {
            FailureMessage::Unresolved(error) => Some(error),
            FailureMessage::Phrase(_) | FailureMessage::Kind(_) => None,
        }
    }

    /// Returns true if a timeout ended the attempt.
    pub(crate) fn is_timeout(&self) -> bool {
        let late = FailureKind::Fault(Fault::ConnectTimeout) == self.kind
            || FailureKind::Fault(Fault::ReadTimeout) == self.kind;
        late || self.resolve_error() == Some(ResolveError::TimedOut)
    }

    /// Reads the error that cut a response body short.
    pub(super) fn from_body_error(error: &hyper::Error, occupancy: Occupancy) -> Self {
        if find::<h2::Error>(error).is_some_and(|h2| is_own_fault(h2, occupancy)) {
            return Self::invalid_response(
                "the response body has not its announced length, or breaks another rule of HTTP/2",
            );
        }
        let message = match find::<io::Error>(error) {
            Some(io) if is_malformed_chunk(io) => {
                return Self::invalid_response("a chunk or trailer of the response body is malformed");
            }
            Some(io) => FailureMessage::Kind(io.kind()),
            None => FailureMessage::Phrase("the response body was cut short"),
        };
        Self {
            message,
            ..Self::new(Fault::TruncatedBody, BytesSent::Something, "")
        }
    }

    const fn caller_failed() -> Self {
        Self {
            kind: FailureKind::Caller,
            ..Self::reset("the request body could not be produced")
        }
    }

    /// Returns the failure of a caller whose body stalls while the server waits.
    pub(super) const fn caller_stalled() -> Self {
        Self {
            kind: FailureKind::Caller,
            ..Self::reset("the request body did not arrive in time")
        }
    }

    const fn reset(phrase: &'static str) -> Self {
        Self::new(Fault::Reset, BytesSent::Something, phrase)
    }
}

/// Returns true if the response of this request breaks HTTP/2. A fault of the whole connection names no
/// request: it may be in the response to another one, and this request is then worth a retry.
fn is_own_fault(error: &h2::Error, occupancy: Occupancy) -> bool {
    error.is_library() && (error.is_reset() || occupancy == Occupancy::One)
}

/// Returns true for hyper's own error of a chunk: TLS reports damaged records with the same kinds.
fn is_malformed_chunk(error: &io::Error) -> bool {
    let is_invalid = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
    is_invalid && find::<rustls::Error>(error).is_none()
}

fn phrase(error: &hyper::Error) -> &'static str {
    if error.is_incomplete_message() {
        "the connection was closed before the response"
    } else {
        "the connection was lost"
    }
}

/// Error of a connection that could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectError {
    /// The name has no address.
    Unresolved(ResolveError),
    /// The name leads to a forbidden address.
    Forbidden,
    /// The connect timeout passed.
    TimedOut,
    /// The operating system reported an error.
    Network(io::ErrorKind),
    /// The proxy refused the tunnel.
    Proxy,
    /// The TLS handshake failed.
    Handshake(&'static str),
    /// The certificate is not trusted.
    Certificate(&'static str),
}

impl ConnectError {
    /// Reads the error of a stream to the server.
    pub(super) fn from_error(error: &(dyn StdError + 'static)) -> Self {
        match (find::<Self>(error), find::<io::Error>(error)) {
            (Some(known), _) => *known,
            (None, Some(io)) if io.kind() == io::ErrorKind::TimedOut => Self::TimedOut,
            (None, Some(io)) => Self::Network(io.kind()),
            (None, None) => Self::Network(io::ErrorKind::Other),
        }
    }

    /// Reads the error of TLS over a stream. Errors that are not rustls's count as handshake
    /// errors: a server that closes during the handshake is no ordinary reset.
    pub(super) fn from_tls_error(error: &(dyn StdError + 'static)) -> Self {
        match (find::<Self>(error), find::<rustls::Error>(error)) {
            (Some(known), _) => *known,
            (None, Some(tls)) => Self::from_rustls(tls),
            (None, None) => Self::Handshake("the server closed the connection during the TLS handshake"),
        }
    }

    fn from_rustls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::Certificate(certificate_phrase(error)),
            rustls::Error::NoCertificatesPresented => Self::Certificate("the server presents no certificate"),
            rustls::Error::PeerIncompatible(_) => Self::Handshake("the server supports no safe TLS version"),
            rustls::Error::AlertReceived(_) => Self::Handshake("the server refused the TLS handshake"),
            _ => Self::Handshake("the TLS handshake failed"),
        }
    }

    pub(super) fn into_failure(self) -> AttemptFailure {
        let failed = |fault, phrase| AttemptFailure::new(fault, BytesSent::Nothing, phrase);
        match self {
            Self::Unresolved(error) => AttemptFailure {
                message: FailureMessage::Unresolved(error),
                ..failed(Fault::Dns, "")
            },
            Self::Forbidden => AttemptFailure {
                kind: FailureKind::Forbidden,
                ..failed(
                    Fault::Dns,
                    "the name resolves to a private network: allow it with `addresses = \"any\"`",
                )
            },
            Self::TimedOut => failed(Fault::ConnectTimeout, "no connection in time"),
            Self::Network(kind) => AttemptFailure {
                message: FailureMessage::Kind(kind),
                ..failed(Fault::Reset, "")
            },
            Self::Proxy => failed(Fault::Reset, "the proxy refused the connection"),
            Self::Handshake(phrase) => failed(Fault::TlsHandshake, phrase),
            Self::Certificate(phrase) => failed(Fault::TlsCertificate, phrase),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.into_failure().message.fmt(f)
    }
}

impl StdError for ConnectError {}

fn certificate_phrase(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the server's certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet"
        }
        CertificateError::UnknownIssuer => "the server's certificate has an unknown issuer",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another name"
        }
        CertificateError::Revoked => "the server's certificate was revoked",
        _ => "the server's certificate is not trusted",
    }
}

/// Finds the first error of a type in a chain. Skips I/O errors that only wrap another I/O error.
fn find<'e, E: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = wrapped_error(error);
        let carries_io = matches!(inner, Some(inner) if inner.is::<io::Error>());
        match error.downcast_ref::<E>() {
            Some(found) if !carries_io => return Some(found),
            _ => next = inner.or_else(|| error.source()),
        }
    }
    None
}

/// Returns the error inside an I/O error.
fn wrapped_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)> {
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    Some(inner)
}

/// Failure after which the connection gets no further request.
pub(super) const INVALID_RESPONSE: FailureKind = FailureKind::Fault(Fault::InvalidResponse);
