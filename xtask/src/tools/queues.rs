//! Job queues that the benchmarks compare with the bulk engine.
//!
//! They live in a directory below `target`. Their manifest in `benches/peers/node` alone names the
//! versions; other installed versions are replaced.

use super::ToolRequirement;
use super::test_tools::{NPM, REDIS};

/// The Node queues and the server that they share.
pub(crate) const QUEUES: [ToolRequirement; 2] = [
    REDIS,
    ToolRequirement::commands(
        "BullMQ and bee-queue",
        &["node benches/peers/node/check_versions.js target/peers-node"],
        &[
            "mkdir -p target/peers-node",
            "cp benches/peers/node/package.json target/peers-node",
            "npm install --silent --prefix target/peers-node",
        ],
        "they are the most common job queues on Redis",
    )
    .installed_by(&NPM),
];
