//! Rows of the table of responses: bytes of an API, and the outcome for the caller.

/// Bytes of an API.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) bytes: String,
    /// True if the API closes behind them; otherwise it waits for the next request.
    pub(super) closes: bool,
}

impl Answer {
    pub(super) fn held(bytes: &str) -> Self {
        Self {
            bytes: bytes.to_owned(),
            closes: false,
        }
    }

    fn closed(bytes: &str) -> Self {
        Self {
            closes: true,
            ..Self::held(bytes)
        }
    }
}

/// Outcome for the caller.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    /// 502 with this part of a reason.
    Refused(&'static str),
    /// The head is sound and the body is not: 502, or an aborted response if it is streamed.
    Malformed,
    /// The body ends early: as above.
    Cut,
    /// A response with this status and body.
    Whole(u16, &'static str),
}

/// A request method, the answer to it and the outcome.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) method: &'static str,
    pub(super) answer: Answer,
    pub(super) expected: Expected,
}

/// Returns all rows.
pub(super) fn rows() -> Vec<Row> {
    let row = |method, answer, expected| Row {
        method,
        answer,
        expected,
    };
    let get = |bytes: &str, expected| row("GET", Answer::held(bytes), expected);
    let ok = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}");
    let chunked = |rest: &str| ok(&format!("Transfer-Encoding: chunked\r\n\r\n{rest}"));
    let refused_heads = REFUSED_HEADERS
        .iter()
        .map(|(lines, reason)| get(&ok(lines), Expected::Refused(reason)));
    let refused = REFUSED
        .iter()
        .map(|(bytes, reason)| get(bytes, Expected::Refused(reason)));
    let to_head = REFUSED_TO_HEAD
        .iter()
        .map(|(lines, reason)| row("HEAD", Answer::held(&ok(lines)), Expected::Refused(reason)));
    let malformed = MALFORMED_CHUNKS
        .iter()
        .map(|body| get(&chunked(body), Expected::Malformed));
    let cut = CUT
        .iter()
        .map(|bytes| row("GET", Answer::closed(&ok(bytes)), Expected::Cut));
    let held = WHOLE
        .iter()
        .map(|(method, bytes, status, body)| row(method, Answer::held(bytes), Expected::Whole(*status, body)));
    let closed = WHOLE_BY_CLOSE
        .iter()
        .map(|(bytes, body)| row("GET", Answer::closed(bytes), Expected::Whole(200, body)));
    let all = refused_heads.chain(refused).chain(to_head).chain(malformed);
    all.chain(cut).chain(held).chain(closed).collect()
}

const BOTH: &str = "both Content-Length and Transfer-Encoding";
const CODING: &str = "Transfer-Encoding of the response is not `chunked`";
const NOT_HTTP: &str = "not valid HTTP";

/// Headers behind a status line of 200, with the reason of the refusal.
const REFUSED_HEADERS: [(&str, &str); 31] = [
    (
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
        BOTH,
    ),
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
        BOTH,
    ),
    (
        "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        BOTH,
    ),
    (
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        BOTH,
    ),
    ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BOTH),
    ("Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", CODING),
    (
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        CODING,
    ),
    ("Transfer-Encoding: chunked, gzip\r\n\r\n2\r\nab\r\n0\r\n\r\n", CODING),
    (
        "Transfer-Encoding: chunked, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        CODING,
    ),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        CODING,
    ),
    ("Transfer-Encoding: gzip\r\n\r\nab", CODING),
    ("Transfer-Encoding: identity\r\n\r\nab", CODING),
    ("Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nab", CODING),
    ("Transfer-Encoding: xchunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", CODING),
    ("Transfer-Encoding: \"chunked\"\r\n\r\n2\r\nab\r\n0\r\n\r\n", CODING),
    ("Transfer-Encoding: chunked;q=1\r\n\r\n2\r\nab\r\n0\r\n\r\n", CODING),
    ("Transfer-Encoding:\r\n\r\nab", CODING),
    (
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        "more than one Content-Length",
    ),
    ("Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc", NOT_HTTP),
    ("Content-Length: 2, 2\r\n\r\nab", "not a plain number"),
    ("Content-Length: 2, 3\r\n\r\nabc", NOT_HTTP),
    ("Content-Length: +2\r\n\r\nab", NOT_HTTP),
    ("Content-Length: -2\r\n\r\nab", NOT_HTTP),
    ("Content-Length: 0x2\r\n\r\nab", NOT_HTTP),
    ("Content-Length: 2 2\r\n\r\nab", NOT_HTTP),
    ("Content-Length: 2.0\r\n\r\nab", NOT_HTTP),
    ("Content-Length: two\r\n\r\nab", NOT_HTTP),
    ("Content-Length:\r\n\r\nab", NOT_HTTP),
    ("Content-Length: 18446744073709551616\r\n\r\nab", NOT_HTTP),
    ("Content-Length: 18446744073709551615\r\n\r\nab", "too large"),
    ("Content-Length: 2;x=1\r\n\r\nab", NOT_HTTP),
];

/// Complete responses, with the reason of the refusal.
const REFUSED: [(&str, &str); 27] = [
    // A bare CR, a folded line, a name with a blank and a control character hide a header from some readers.
    ("HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 200 OK\r\nContent-Length\t: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 200 OK\r\nX: 1\r\n Content-Length: 2\r\n\r\nab", NOT_HTTP),
    (
        "HTTP/1.1 200 OK\r\nX: 1\r\n\tgoes on\r\nContent-Length: 2\r\n\r\nab",
        NOT_HTTP,
    ),
    ("HTTP/1.1 200 OK\r\n Content-Length: 2\r\n\r\nab", NOT_HTTP),
    (
        "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 2\r\nContent-Length: 1\r\n\r\nab",
        NOT_HTTP,
    ),
    ("HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 200 OK\r\nContent-Length\0: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 200 OK\r\n: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 200 O\0K\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 2 OK\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("ICY 200 OK\r\nContent-Length: 2\r\n\r\nab", NOT_HTTP),
    ("{\"no\": \"head\"}\r\n\r\n", NOT_HTTP),
    // HTTP/1.0 has no codings.
    (
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        NOT_HTTP,
    ),
    // These have no body, so nothing may announce one.
    (
        "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nab",
        "announces a body",
    ),
    (
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "announces a body",
    ),
    (
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        BOTH,
    ),
    (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "switched protocols",
    ),
    // An interim response has no body: these bytes begin no response.
    (
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n\r\n",
        NOT_HTTP,
    ),
];

/// Headers behind a status line of 200 in a response to HEAD. They describe a body that does not follow, but
/// a cache or a caller may use them.
const REFUSED_TO_HEAD: [(&str, &str); 6] = [
    ("Content-Length: 18446744073709551616\r\n\r\n", "not a plain number"),
    ("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", BOTH),
    (
        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n",
        "more than one Content-Length",
    ),
    ("Content-Length: 2, 3\r\n\r\n", "not a plain number"),
    ("Content-Length: +2\r\n\r\n", "not a plain number"),
    ("Transfer-Encoding: gzip\r\n\r\n", CODING),
];

/// Bodies behind a head with `chunked`.
const MALFORMED_CHUNKS: [&str; 10] = [
    "no size\r\n",
    "-2\r\nab\r\n0\r\n\r\n",
    "0x2\r\nab\r\n0\r\n\r\n",
    "\r\nab\r\n0\r\n\r\n",
    "2\nab\r\n0\r\n\r\n",
    "2\r\nabc\r\n0\r\n\r\n",
    "2\r\nab0\r\n\r\n",
    "fffffffffffffffff\r\nab\r\n0\r\n\r\n",
    "2;x=\n\r\nab\r\n0\r\n\r\n",
    "2\r\nab\r\n0\r\nno colon\r\n\r\n",
];

/// Rest of responses with 200 that the API closes too early.
const CUT: [&str; 6] = [
    "Content-Length: 3\r\n\r\nab",
    "Content-Length: 1\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n3\r\nab",
    "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
];

/// Methods and sound responses, with the status and body that the caller gets.
const WHOLE: [(&str, &str, u16, &str); 25] = [
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, "ab"),
    ("GET", "HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\nab", 200, "ab"),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: \t2 \r\n\r\nab", 200, "ab"),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0002\r\n\r\nab", 200, "ab"),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, ""),
    ("GET", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nab", 200, "ab"),
    ("GET", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nab", 200, "ab"),
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        200,
        "ab",
    ),
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
        200,
        "ab",
    ),
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n02;a=b\r\nab\r\n000\r\nsum: 1\r\n\r\n",
        200,
        "ab",
    ),
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        200,
        "",
    ),
    // A trailer is no header: its length says nothing.
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nContent-Length: 1\r\n\r\n",
        200,
        "ab",
    ),
    (
        "GET",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
        200,
        "ab",
    ),
    (
        "GET",
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nab",
        404,
        "ab",
    ),
    (
        "GET",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nab",
        200,
        "ab",
    ),
    ("GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, "ab"),
    ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
    ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, ""),
    ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, ""),
    (
        "GET",
        "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
        304,
        "",
    ),
    ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 200, ""),
    // RFC 9110, section 8.6, bounds no length, and no body follows that could have another one.
    (
        "HEAD",
        "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n",
        200,
        "",
    ),
    ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, ""),
    // Bytes behind the end belong to no response: the caller gets the response without them.
    (
        "GET",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nc",
        200,
        "ab",
    ),
    ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, ""),
];

/// Sound responses with 200 that end with the connection, or come from lenient servers.
const WHOLE_BY_CLOSE: [(&str, &str); 6] = [
    ("HTTP/1.1 200 OK\r\n\r\nab", "ab"),
    ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab", "ab"),
    ("HTTP/1.0 200 OK\r\n\r\nab", "ab"),
    ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", "ab"),
    ("HTTP/1.1 200 OK\r\n\r\n", ""),
    // RFC 9112, section 2.2, lets a recipient take a line feed for the end of a line. The caller never gets it.
    ("HTTP/1.1 200 OK\nContent-Length: 2\n\nab", "ab"),
];
