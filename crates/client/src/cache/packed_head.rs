//! Headers of a stored response in memory of their own.
//!
//! A response arrives in read buffers of many kilobytes, and each of its header values keeps one alive. A stored
//! response would hold a hundred times its size. So the values are copied into one buffer of their length. One per
//! value would cost an allocation each, which is more than most values have bytes.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};

/// Copies headers out of their read buffers.
pub(super) fn pack_headers(headers: &HeaderMap) -> HeaderMap {
    let mut buffer = BytesMut::with_capacity(value_bytes(headers));
    headers
        .values()
        .for_each(|value| buffer.extend_from_slice(value.as_bytes()));
    let mut rest = buffer.freeze();
    let mut packed = HeaderMap::with_capacity(headers.keys_len());
    for (name, value) in headers {
        packed.append(name, pack_value(value, &mut rest));
    }
    packed
}

/// Takes the copy of a value from the buffer.
fn pack_value(value: &HeaderValue, rest: &mut Bytes) -> HeaderValue {
    let copy = HeaderValue::from_maybe_shared(rest.split_to(value.len()));
    let mut packed = copy.unwrap_or_else(|_| value.clone());
    packed.set_sensitive(value.is_sensitive());
    packed
}

/// Returns the size of packed headers in memory, in bytes.
pub(super) fn head_weight(headers: &HeaderMap) -> usize {
    let names: usize = headers.keys().map(|name| name.as_str().len() + NAME_OVERHEAD).sum();
    let repeated = headers.len().saturating_sub(headers.keys_len());
    let table = (headers.capacity() + repeated) * FIELD_SIZE;
    names + table + value_bytes(headers) + BUFFER_OVERHEAD
}

fn value_bytes(headers: &HeaderMap) -> usize {
    headers.values().map(HeaderValue::len).sum()
}

/// Field of a header map: hash, name, value, links, and its part of the index.
const FIELD_SIZE: usize = 112;

/// The map knows common names and allocates each other one twice. Of the names of a typical API a third are such.
const NAME_OVERHEAD: usize = 16;

/// Reference count and allocator's overhead of a shared buffer.
pub(super) const BUFFER_OVERHEAD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_headers_are_equal_and_share_one_buffer() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("etag", "\"1\""), ("x-both", "a"), ("x-both", "b"), ("empty", "")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers.insert("x-secret", HeaderValue::from_static("hidden"));
        if let Some(secret) = headers.get_mut("x-secret") {
            secret.set_sensitive(true);
        }
        let packed = pack_headers(&headers);
        assert_eq!(packed, headers);
        assert!(packed["x-secret"].is_sensitive() && !packed["etag"].is_sensitive());
        let start = packed["etag"].as_bytes().as_ptr().addr();
        let near = |value: &HeaderValue| value.is_empty() || value.as_bytes().as_ptr().addr() - start < 16;
        assert!(packed.values().all(near));
    }
}
