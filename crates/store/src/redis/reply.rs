//! Replies of scripts, read value by value.

use std::time::Duration;
use std::vec;

use bytes::Bytes;
use redis::Value;

use super::error_map::unexpected_reply;
use crate::contract::StoreResult;
use crate::name::Name;

/// Values of one reply.
pub(super) struct ScriptReply(vec::IntoIter<Value>);

impl ScriptReply {
    /// Reads the parts of a list.
    pub(super) fn new(value: Value) -> StoreResult<Self> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            _ => Err(unexpected_reply()),
        }
    }

    /// Reads the parts of a list, or `None` if there is no list.
    pub(super) fn from_optional(value: Value) -> StoreResult<Option<Self>> {
        match value {
            Value::Nil => Ok(None),
            value => Self::new(value).map(Some),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_slice().len()
    }

    pub(super) fn value(&mut self) -> StoreResult<Value> {
        self.0.next().ok_or_else(unexpected_reply)
    }

    pub(super) fn signed(&mut self) -> StoreResult<i64> {
        match self.value()? {
            Value::Int(number) => Ok(number),
            _ => Err(unexpected_reply()),
        }
    }

    pub(super) fn number(&mut self) -> StoreResult<u64> {
        u64::try_from(self.signed()?).map_err(|_| unexpected_reply())
    }

    pub(super) fn small(&mut self) -> StoreResult<u32> {
        u32::try_from(self.number()?).map_err(|_| unexpected_reply())
    }

    /// Reads a number in text form: a cursor, or a score.
    pub(super) fn text_number(&mut self) -> StoreResult<u64> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(&bytes).map_err(|_| unexpected_reply())?;
        text.parse().map_err(|_| unexpected_reply())
    }

    pub(super) fn span(&mut self) -> StoreResult<Duration> {
        self.number().map(Duration::from_micros)
    }

    /// Reads a span, or `None` from a negative number.
    pub(super) fn maybe_span(&mut self) -> StoreResult<Option<Duration>> {
        let number = self.signed()?;
        Ok(u64::try_from(number).ok().map(Duration::from_micros))
    }

    pub(super) fn bytes(&mut self) -> StoreResult<Bytes> {
        self.maybe_bytes()?.ok_or_else(unexpected_reply)
    }

    pub(super) fn maybe_bytes(&mut self) -> StoreResult<Option<Bytes>> {
        maybe_bytes(self.value()?)
    }

    pub(super) fn name(&mut self) -> StoreResult<Name> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(&bytes).map_err(|_| unexpected_reply())?;
        Name::new(text).map_err(|_| unexpected_reply())
    }

    /// Reads values until the end.
    pub(super) fn read_all<T>(mut self, read: impl Fn(&mut Self) -> StoreResult<T>) -> StoreResult<Vec<T>> {
        let mut values = Vec::with_capacity(self.len());
        while !self.is_empty() {
            values.push(read(&mut self)?);
        }
        Ok(values)
    }

    pub(super) fn list(&mut self) -> StoreResult<Self> {
        Self::new(self.value()?)
    }
}

/// Reads a reply that is one number.
pub(super) fn number(value: &Value) -> StoreResult<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| unexpected_reply()),
        _ => Err(unexpected_reply()),
    }
}

/// Reads a reply that is one text, if present.
pub(super) fn maybe_bytes(value: Value) -> StoreResult<Option<Bytes>> {
    match value {
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        Value::Nil => Ok(None),
        _ => Err(unexpected_reply()),
    }
}
