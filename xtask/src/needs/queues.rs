//! The queues that the bulk engine is measured beside, and how to get each.
//!
//! They have a directory of their own under `target`. Which versions is said in one place, their manifest
//! among the benchmarks, and an installation of other versions is replaced.

use super::{NPM, Need, REDIS};

/// The server that they share, what they come by, and they themselves.
pub(crate) const QUEUES: [Need; 3] = [
    REDIS,
    NPM,
    Need {
        name: "BullMQ and bee-queue",
        probes: &["node benches/peers/node/present.js target/peers-node"],
        install: &[
            "mkdir -p target/peers-node",
            "cp benches/peers/node/package.json target/peers-node",
            "npm install --silent --prefix target/peers-node",
        ],
        reason: "the queues that most people would use instead",
    },
];
