//! Law of the client for every response: it returns the response that a plain reader finds in the bytes,
//! or none.
//!
//! The client runs as its users run it, over a stream in memory. The plain reader needs all bytes at once,
//! which no client can wait for, and therefore is a page long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::Method;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use outflow::core::{Fault, Handling, Policy, PolicyRule, RuleMatch};
use outflow::{Api, Outflow, Rules};
use outflow_sync::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

/// A complete response has the status and the body of the plain reading, and one framing. The first two bytes
/// select the method, the kind of call and the size of the pieces.
pub fn response(input: &[u8]) {
    let Some(([choice, piece], bytes)) = input.split_first_chunk() else {
        return;
    };
    thread_local! {
        static FIXTURE: ClientFixture = ClientFixture::new();
    }
    let method = if choice % 4 == 0 { Method::HEAD } else { Method::GET };
    let is_streamed = choice & 0x10 != 0;
    let piece = usize::from(*piece).max(1);
    let found = FIXTURE.with(|fixture| fixture.call(method.clone(), is_streamed, (bytes, piece)));
    if let Some(found) = found {
        assert_eq!(Some(found), read_plainly(bytes, &method), "{method}");
    }
}

/// Status and body of a response.
type Reading = (u16, Vec<u8>);

/// Client of an API that sends the bytes of one input.
struct ClientFixture {
    runtime: Runtime,
    client: Outflow,
    next: Arc<Mutex<PieceStream>>,
}

impl ClientFixture {
    fn new() -> Self {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        let mut api = Api::new("odd", "http://api.example.com".parse().expect("a URL"));
        api.rules = Rules::unlimited();
        // No response may put the API to sleep: the next input would not be sent.
        api.rules.policy = ignoring_everything();
        api.retry.count = 0;
        let next = Arc::new(Mutex::new(PieceStream::default()));
        let source = Arc::clone(&next);
        let connect = move |_: &str, _: u16| -> outflow::Connecting {
            let stream = std::mem::take(&mut *source.lock());
            let stream: Box<dyn outflow::IoStream> = Box::new(stream);
            Box::pin(async move { Ok(stream) })
        };
        let client = Outflow::builder().api(api).connector(Arc::new(connect));
        let inside = runtime.enter();
        let client = client.build().expect("valid");
        drop(inside);
        Self { runtime, client, next }
    }

    /// Makes one call and returns its response, if it is complete.
    fn call(&self, method: Method, is_streamed: bool, (bytes, piece): (&[u8], usize)) -> Option<Reading> {
        *self.next.lock() = PieceStream {
            bytes: bytes.to_vec(),
            piece,
            ..PieceStream::default()
        };
        self.runtime.block_on(async {
            let call = self.client.request(method, "odd", "/").redirects(0);
            let response = if is_streamed {
                call.send_streaming().await.ok()?
            } else {
                call.send().await.ok()?
            };
            let headers = response.headers();
            let lengths = headers.get_all(CONTENT_LENGTH).iter().count();
            let codings = headers.get_all(TRANSFER_ENCODING).iter().count();
            assert!(lengths + codings <= 1, "{headers:?}");
            let status = response.status().as_u16();
            let body = response.bytes().await.ok()?;
            Some((status, body.to_vec()))
        })
    }
}

fn ignoring_everything() -> Policy {
    let faults = Fault::ALL.map(RuleMatch::Fault);
    let all = faults.into_iter().chain([RuleMatch::Statuses(0, u16::MAX)]);
    let rules: Vec<_> = all
        .map(|when| PolicyRule {
            when,
            then: Handling::NEUTRAL,
        })
        .collect();
    Policy::with(&rules)
}

/// Stream that returns its bytes in pieces once something was written, and then ends.
#[derive(Default)]
struct PieceStream {
    bytes: Vec<u8>,
    sent: usize,
    piece: usize,
    is_written: bool,
    reader: Option<Waker>,
}

impl AsyncRead for PieceStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.is_written {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let rest = self.bytes.get(self.sent..).unwrap_or_default();
        let count = rest.len().min(self.piece).min(buf.remaining());
        buf.put_slice(rest.get(..count).unwrap_or_default());
        self.sent += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PieceStream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.is_written = true;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Reads the first response that is not interim; `None` if it is ambiguous or incomplete.
fn read_plainly(bytes: &[u8], method: &Method) -> Option<Reading> {
    let mut rest = bytes;
    loop {
        let (status, fields) = read_head(&mut rest)?;
        match status {
            100 | 102..=199 => {}
            204 | 304 => return Some((status, Vec::new())),
            _ if *method == Method::HEAD => return Some((status, Vec::new())),
            _ => return Some((status, read_body(&fields, rest)?)),
        }
    }
}

/// Splits the next line off, without its end.
fn take_line<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, after) = (rest.get(..end)?, rest.get(end + 1..)?);
    *rest = after;
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// Fields that frame a body.
#[derive(Default)]
struct FramingFields {
    lengths: Vec<Vec<u8>>,
    codings: Vec<Vec<u8>>,
}

fn read_head(rest: &mut &[u8]) -> Option<(u16, FramingFields)> {
    let mut line = take_line(rest)?;
    while line.is_empty() {
        line = take_line(rest)?;
    }
    let code = line.strip_prefix(b"HTTP/1.1 ").or(line.strip_prefix(b"HTTP/1.0 "))?;
    let status = str::from_utf8(code.get(..3)?).ok()?.parse().ok()?;
    let mut fields = FramingFields::default();
    loop {
        let line = take_line(rest)?;
        if line.is_empty() {
            return Some((status, fields));
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
        if name.eq_ignore_ascii_case(b"content-length") {
            fields.lengths.push(value.trim_ascii().to_vec());
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            fields.codings.push(value.trim_ascii().to_vec());
        }
    }
}

fn read_body(fields: &FramingFields, rest: &[u8]) -> Option<Vec<u8>> {
    match (&*fields.lengths, &*fields.codings) {
        ([], []) => Some(rest.to_vec()),
        ([length], []) => {
            let length: usize = str::from_utf8(length).ok()?.parse().ok()?;
            Some(rest.get(..length)?.to_vec())
        }
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") => read_chunks(rest),
        _ => None,
    }
}

fn read_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = take_line(&mut rest)?;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = str::from_utf8(line.get(..digits)?).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            while !take_line(&mut rest)?.is_empty() {}
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?;
        take_line(&mut rest)?.is_empty().then_some(())?;
    }
}
