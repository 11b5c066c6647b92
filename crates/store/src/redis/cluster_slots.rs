//! Slots of a cluster: which one holds a queue, and which nodes serve it.

use std::ops::RangeInclusive;

use redis::{FromRedisValue as _, Value};

/// Address of a node as the cluster announces it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NodeAddress {
    /// Empty if it is that of the node which was asked.
    pub(super) host: String,
    pub(super) port: u16,
}

/// Slots of one primary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SlotRange {
    pub(super) slots: RangeInclusive<u16>,
    /// The primary, then its replicas.
    pub(super) nodes: Vec<NodeAddress>,
}

/// Returns the slot of all keys with this tag.
pub(super) fn slot_of(tag: &[u8]) -> u16 {
    crc16(tag) % SLOTS
}

/// Reads the reply to `CLUSTER SLOTS`. Nodes whose address is unknown are left out.
pub(super) fn parse_ranges(reply: &Value) -> Vec<SlotRange> {
    let Value::Array(ranges) = reply else {
        return Vec::new();
    };
    ranges.iter().filter_map(parse_range).collect()
}

fn parse_range(range: &Value) -> Option<SlotRange> {
    let Value::Array(parts) = range else { return None };
    let [first, last, nodes @ ..] = parts.as_slice() else {
        return None;
    };
    Some(SlotRange {
        slots: u16::from_redis_value_ref(first).ok()?..=u16::from_redis_value_ref(last).ok()?,
        nodes: nodes.iter().filter_map(parse_node).collect(),
    })
}

fn parse_node(node: &Value) -> Option<NodeAddress> {
    let Value::Array(parts) = node else { return None };
    let [host, port, ..] = parts.as_slice() else {
        return None;
    };
    let host = match host {
        Value::Nil => String::new(),
        host => String::from_redis_value_ref(host).ok()?,
    };
    let port = u16::from_redis_value_ref(port).ok()?;
    (host != UNKNOWN_HOST && port > 0).then_some(NodeAddress { host, port })
}

/// CRC-16/XMODEM, which clusters use.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            let carry = if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            (crc << 1) ^ carry
        })
    })
}

const SLOTS: u16 = 16_384;

/// A node announces this while it does not know another one's address.
const UNKNOWN_HOST: &str = "?";

#[cfg(test)]
mod tests {
    use super::*;

    // The check value of this CRC, and slots that `CLUSTER KEYSLOT` returns.
    #[test]
    fn a_tag_has_the_slot_that_servers_compute() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (tag, slot) in [("foo", 12_182), ("bar", 5_061), ("hello", 866), ("", 0)] {
            assert_eq!(slot_of(tag.as_bytes()), slot, "{tag}");
        }
    }

    #[test]
    fn a_range_has_its_primary_first_and_no_unknown_nodes() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(Vec::new())]);
        let reply = Value::Array(vec![
            Value::Array(vec![
                Value::Int(0),
                Value::Int(5_460),
                node(text("10.0.0.1"), 7_000),
                node(text("?"), 7_001),
                node(Value::Nil, 7_002),
            ]),
            Value::Array(vec![Value::Int(1)]),
        ]);
        let address = |host: &str, port| NodeAddress {
            host: host.to_owned(),
            port,
        };
        let range = SlotRange {
            slots: 0..=5_460,
            nodes: vec![address("10.0.0.1", 7_000), address("", 7_002)],
        };
        assert_eq!(parse_ranges(&reply), [range]);
        assert_eq!(parse_ranges(&Value::Nil), []);
    }
}
