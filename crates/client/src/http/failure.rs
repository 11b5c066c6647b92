//! Why an attempt brought no answer, in words that hold no secret.
//!
//! The errors of the layers below are read once, here, and dropped: their texts may quote a URL, a
//! header or what the server sent. What stays is the fault that the policy judges, whether anything
//! left, and one phrase from a closed set.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use outflow_core::Fault;
use rustls::CertificateError;

use super::resolve_error::ResolveError;

/// An attempt that brought no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AttemptFailure {
    /// What is to be blamed.
    pub(crate) trouble: FailureKind,
    /// Whether anything of the request left this machine.
    pub(crate) left: BytesSent,
    /// What happened, in words.
    pub(crate) words: FailureMessage,
}

/// What is to be blamed for a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailureKind {
    /// The way or the server: the policy judges it.
    Fault(Fault),
    /// The place, which may not be called. No server had a part in it.
    Forbidden,
    /// The caller, whose time was over: the server may have been on its way.
    Deadline,
    /// Nobody: leave to send was taken back before anything was sent.
    CalledOff,
    /// The caller, whose body could not be produced: the server had no part in it.
    Caller,
}

/// Whether anything of a request left this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BytesSent {
    /// Provably nothing: there was no connection.
    Nothing,
    /// Something did, and the server says that it has done nothing with it. So it may be sent again,
    /// but whoever counts what arrives has counted it.
    Untouched,
    /// Something may have.
    Something,
}

/// What happened, from a closed set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailureMessage {
    /// Ours.
    Phrase(&'static str),
    /// The operating system's.
    Kind(io::ErrorKind),
    /// The resolver's.
    Unresolved(ResolveError),
}

impl fmt::Display for FailureMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phrase(phrase) => f.write_str(phrase),
            Self::Kind(kind) => kind.fmt(f),
            Self::Unresolved(why) => why.fmt(f),
        }
    }
}

impl AttemptFailure {
    pub(super) const fn new(fault: Fault, left: BytesSent, phrase: &'static str) -> Self {
        Self {
            trouble: FailureKind::Fault(fault),
            left,
            words: FailureMessage::Phrase(phrase),
        }
    }

    /// Reads what a connection says about a request without a response.
    pub(super) fn of_head(error: &hyper::Error) -> Self {
        // What the caller's own body broke with may be an I/O error too, so it is asked first.
        if error.is_user() {
            return Self::of_caller();
        }
        if let Some(h2) = find::<h2::Error>(error) {
            return Self::of_stream(h2);
        }
        match find::<io::Error>(error) {
            Some(io) => Self {
                words: FailureMessage::Kind(io.kind()),
                ..Self::reset("")
            },
            None => Self::reset(phrase(error)),
        }
    }

    /// Reads what ended one of the streams of a connection. A server that goes away names the last
    /// stream it has looked at, and only those behind it end by its word.
    fn of_stream(error: &h2::Error) -> Self {
        let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
        if error.is_remote() && (error.is_go_away() || refused) {
            let phrase = "the server did not begin with the request";
            return Self::new(Fault::Reset, BytesSent::Untouched, phrase);
        }
        match error.get_io() {
            Some(io) => Self {
                words: FailureMessage::Kind(io.kind()),
                ..Self::reset("")
            },
            None if error.is_remote() => Self::reset("the server ended the request"),
            None => Self::reset("the server broke the protocol"),
        }
    }

    /// Why its name has no address, if that was it.
    pub(crate) const fn unresolved(&self) -> Option<ResolveError> {
        match self.words {
            FailureMessage::Unresolved(why) => Some(why),
            FailureMessage::Phrase(_) | FailureMessage::Kind(_) => None,
        }
    }

    /// Whether it was time that ran out.
    pub(crate) fn is_timeout(&self) -> bool {
        let late = FailureKind::Fault(Fault::ConnectTimeout) == self.trouble
            || FailureKind::Fault(Fault::ReadTimeout) == self.trouble;
        late || self.unresolved() == Some(ResolveError::TimedOut)
    }

    /// Reads what ended a body before its end.
    pub(super) fn of_body(error: &hyper::Error) -> Self {
        let words = match find::<io::Error>(error) {
            Some(io) => FailureMessage::Kind(io.kind()),
            None => FailureMessage::Phrase("the body ended before its end"),
        };
        Self {
            words,
            ..Self::new(Fault::TruncatedBody, BytesSent::Something, "")
        }
    }

    const fn of_caller() -> Self {
        Self {
            trouble: FailureKind::Caller,
            ..Self::reset("the request's body could not be produced")
        }
    }

    /// The server was there and waited for the caller.
    pub(super) const fn of_late_caller() -> Self {
        Self {
            trouble: FailureKind::Caller,
            ..Self::reset("the request's body did not come in time")
        }
    }

    const fn reset(phrase: &'static str) -> Self {
        Self::new(Fault::Reset, BytesSent::Something, phrase)
    }
}

fn phrase(error: &hyper::Error) -> &'static str {
    if error.is_parse() {
        "what came back is not HTTP, or its head is too large"
    } else if error.is_incomplete_message() {
        "the connection was closed before the response"
    } else {
        "the connection was lost"
    }
}

/// Why there is no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectError {
    /// The name has no address.
    Unresolved(ResolveError),
    /// The name leads where we do not go.
    Forbidden,
    /// It took too long.
    Slow,
    /// The network said no.
    Network(io::ErrorKind),
    /// The proxy said no.
    Proxy,
    /// TLS did not come about.
    Handshake(&'static str),
    /// The certificate is not to be trusted.
    Certificate(&'static str),
}

impl ConnectError {
    /// Reads why there is no stream to the server.
    pub(super) fn read(error: &(dyn StdError + 'static)) -> Self {
        match (find::<Self>(error), find::<io::Error>(error)) {
            (Some(known), _) => *known,
            (None, Some(io)) if io.kind() == io::ErrorKind::TimedOut => Self::Slow,
            (None, Some(io)) => Self::Network(io.kind()),
            (None, None) => Self::Network(io::ErrorKind::Other),
        }
    }

    /// Reads why there is no TLS over a stream. What is not of the stream is of the handshake: a
    /// server that hangs up in the middle of it is no ordinary reset.
    pub(super) fn read_tls(error: &(dyn StdError + 'static)) -> Self {
        match (find::<Self>(error), find::<rustls::Error>(error)) {
            (Some(known), _) => *known,
            (None, Some(tls)) => Self::of_tls(tls),
            (None, None) => Self::Handshake("the TLS handshake was cut off"),
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(why) => Self::Certificate(certificate(why)),
            rustls::Error::NoCertificatesPresented => {
                Self::Certificate("the server shows no certificate")
            }
            rustls::Error::PeerIncompatible(_) => {
                Self::Handshake("the server speaks no version of TLS that is safe")
            }
            rustls::Error::AlertReceived(_) => Self::Handshake("the server refused to speak TLS"),
            _ => Self::Handshake("the TLS handshake broke"),
        }
    }

    pub(super) fn failure(self) -> AttemptFailure {
        let of = |fault, phrase| AttemptFailure::new(fault, BytesSent::Nothing, phrase);
        match self {
            Self::Unresolved(why) => AttemptFailure {
                words: FailureMessage::Unresolved(why),
                ..of(Fault::Dns, "")
            },
            Self::Forbidden => AttemptFailure {
                trouble: FailureKind::Forbidden,
                ..of(
                    Fault::Dns,
                    "the name leads into a private network: allow it with `addresses = \"any\"`",
                )
            },
            Self::Slow => of(Fault::ConnectTimeout, "no connection in time"),
            Self::Network(kind) => AttemptFailure {
                words: FailureMessage::Kind(kind),
                ..of(Fault::Reset, "")
            },
            Self::Proxy => of(Fault::Reset, "the proxy did not let us through"),
            Self::Handshake(phrase) => of(Fault::TlsHandshake, phrase),
            Self::Certificate(phrase) => of(Fault::TlsCertificate, phrase),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure().words.fmt(f)
    }
}

impl StdError for ConnectError {}

fn certificate(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet"
        }
        CertificateError::UnknownIssuer => "nobody we trust vouches for the server's certificate",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another name"
        }
        CertificateError::Revoked => "the server's certificate was revoked",
        _ => "the server's certificate is not to be trusted",
    }
}

/// The first error of a kind in a chain. An I/O error that only carries another is passed over.
fn find<'e, E: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = carried(error);
        let carries_io = matches!(inner, Some(inner) if inner.is::<io::Error>());
        match error.downcast_ref::<E>() {
            Some(found) if !carries_io => return Some(found),
            _ => next = inner.or_else(|| error.source()),
        }
    }
    None
}

/// What an I/O error carries, if it is one and carries anything.
fn carried<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)> {
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    Some(inner)
}
