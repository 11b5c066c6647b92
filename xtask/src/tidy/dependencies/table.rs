//! The dependencies that each crate may have.
//!
//! Spaces separate the names. A row may list more than its crate uses, and its crate need not exist.

/// Allowed dependencies of one crate.
pub(super) struct CrateRow {
    /// Package name.
    pub(super) name: &'static str,
    /// Own crates in the product; each has a row above.
    pub(super) own: &'static str,
    /// Foreign crates in the product.
    pub(super) foreign: &'static str,
    /// Further crates in tests.
    pub(super) tests: &'static str,
}

/// Rows in the order of the dependencies: a crate uses crates above it.
pub(super) const CRATES: &[CrateRow] = &[
    CrateRow {
        name: "outflow-core",
        own: "",
        foreign: "",
        tests: "loom outflow-testkit proptest",
    },
    CrateRow {
        name: "outflow-sync",
        own: "",
        foreign: "",
        tests: "",
    },
    CrateRow {
        name: "outflow-ledger",
        own: "outflow-core",
        foreign: "blake3 getrandom rustix xxhash-rust",
        tests: "outflow-testkit proptest tempfile",
    },
    CrateRow {
        name: "outflow-store",
        own: "outflow-core outflow-sync",
        foreign: "blake3 bytes futures-util redis rusqlite rustls smol_str tokio xxhash-rust",
        tests: "outflow-testkit proptest tempfile",
    },
    CrateRow {
        name: "outflow-config",
        own: "outflow-core",
        foreign: "annotate-snippets secrecy serde smol_str strsim toml",
        tests: "outflow-testkit proptest tempfile",
    },
    CrateRow {
        name: "outflow",
        own: "outflow-core outflow-sync outflow-ledger outflow-store outflow-config",
        foreign: "aho-corasick arc-swap blake3 bytes fastrand foldhash h2 http http-body http-body-util \
                  http-cache-semantics hyper hyper-rustls hyper-util percent-encoding \
                  pin-project-lite prometheus-client quick_cache rustix rustls \
                  rustls-platform-verifier secrecy serde serde_json slab smol_str tokio \
                  tokio-util tower-layer tower-service tracing tracing-subscriber",
        tests: "outflow-mock outflow-testkit proptest tempfile",
    },
    CrateRow {
        name: "outflow-bulk",
        own: "outflow-core outflow-sync outflow-store outflow-config outflow",
        foreign: "arc-swap aws-lc-rs base64 bytes fastrand http secrecy serde serde_json smol_str \
                  tokio",
        tests: "outflow-ledger outflow-mock outflow-testkit proptest tempfile",
    },
    CrateRow {
        name: "outflow-listener",
        own: "outflow-sync outflow-config outflow",
        foreign: "listenfd rustix secrecy tokio",
        tests: "outflow-testkit proptest tempfile",
    },
    CrateRow {
        name: "outflow-sidecar",
        own: "outflow-core outflow-sync outflow-config outflow outflow-listener",
        foreign: "arc-swap bytes getrandom http http-body http-body-util hyper hyper-util \
                  secrecy serde_json smol_str subtle tokio",
        tests: "outflow-mock outflow-testkit proptest tempfile",
    },
    CrateRow {
        name: "outflow-admin",
        own: "outflow-core outflow-sync outflow-store outflow-config outflow outflow-bulk outflow-listener",
        foreign: "axum bytes getrandom http http-body http-body-util hyper hyper-util secrecy \
                  serde serde_json smol_str subtle tokio",
        tests: "outflow-mock outflow-testkit proptest tempfile",
    },
    CrateRow {
        name: "outflow-simulate",
        own: "outflow-core outflow",
        foreign: "fastrand http serde_json",
        tests: "outflow-testkit proptest",
    },
    CrateRow {
        name: "outflow-mock",
        own: "outflow-core outflow-sync",
        foreign: "bytes fastrand http http-body http-body-util hyper hyper-util rcgen rustls serde \
                  serde_json tokio tokio-rustls",
        tests: "proptest",
    },
    CrateRow {
        name: "outflow-cli",
        own: "outflow-core outflow-sync outflow-ledger outflow-store outflow-config outflow outflow-bulk outflow-listener \
              outflow-sidecar outflow-admin outflow-simulate outflow-mock",
        foreign: "anyhow arc-swap blake3 bytes clap clap_complete clap_mangen csv http \
                  http-body-util hyper hyper-util indicatif notify percent-encoding secrecy \
                  serde serde_json tikv-jemallocator tokio",
        tests: "outflow-testkit proptest tempfile",
    },
    // No product row lists the next two, so only tests use them.
    CrateRow {
        name: "outflow-testkit",
        own: "outflow-core outflow-sync outflow outflow-mock",
        foreign: "fastrand proptest rcgen rustix serde_json tempfile tokio",
        tests: "",
    },
    CrateRow {
        name: "outflow-parser-laws",
        own: "outflow-core outflow-sync outflow-config outflow outflow-bulk outflow-sidecar outflow-admin \
              outflow-mock outflow-cli",
        foreign: "bytes http serde_json tempfile tokio",
        tests: "outflow-testkit proptest",
    },
    CrateRow {
        name: "xtask",
        own: "",
        foreign: "anyhow lexopt regex serde_json",
        tests: "",
    },
];

/// Foreign crates with one user, so that each can be replaced in one place.
pub(super) const OWNED_CRATES: &[(&str, &str)] = &[
    ("redis", "outflow-store"),
    ("rusqlite", "outflow-store"),
    ("annotate-snippets", "outflow-config"),
    ("strsim", "outflow-config"),
    ("toml", "outflow-config"),
    ("listenfd", "outflow-listener"),
    ("axum", "outflow-admin"),
    ("clap", "outflow-cli"),
    ("clap_complete", "outflow-cli"),
    ("clap_mangen", "outflow-cli"),
    ("indicatif", "outflow-cli"),
    ("notify", "outflow-cli"),
    ("tikv-jemallocator", "outflow-cli"),
];
