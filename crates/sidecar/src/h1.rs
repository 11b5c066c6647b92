//! HTTP/1 before the parser: strict framing, and the timeouts of heads and writes.

pub(crate) mod framing;
pub(crate) mod strict_io;
