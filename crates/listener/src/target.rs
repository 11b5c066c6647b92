//! Address and token of a listener, which `[server]` and `[admin]` have in common.

use std::net::SocketAddr;
use std::path::PathBuf;

use outflow_config::value_readers::read_filled_text;
use outflow_config::{Environment, FieldValue, SecretKeys, TableReader, ValueError, read_secret};
use secrecy::{ExposeSecret, SecretString};

/// Address of a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenTarget {
    /// An address and a port; port 0 is any free port.
    Tcp(SocketAddr),
    /// A socket in the file system, for its owner only.
    Unix(PathBuf),
}

impl ListenTarget {
    /// Returns this port of the loopback address.
    pub fn local(port: u16) -> Self {
        Self::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// Returns true if only programs of this machine can connect.
    pub const fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl std::fmt::Display for ListenTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Reads `listen` and the token; a listener that other machines reach needs a token.
pub fn read_listener(
    table: &TableReader<'_>,
    environment: &Environment,
    default: ListenTarget,
) -> (ListenTarget, Option<SecretString>) {
    let listen = table.read("listen", read_target).unwrap_or(default);
    let token = read_secret(table, environment, TOKEN);
    if let Some(token) = &token {
        check_token(table, token.expose_secret());
    }
    let has_token = table.has("token_env") || table.has("token_file");
    if !has_token && !listen.is_local() {
        let error = ValueError::new("every client that reaches this address could use your keys");
        let help = "name a secret that callers must send in `token_env` or `token_file`, or listen on \
                    127.0.0.1";
        table.report("listen", error.help(help));
    }
    (listen, token)
}

/// Reports a token that can be guessed by trying, or that no header can carry.
fn check_token(table: &TableReader<'_>, token: &str) {
    let error = if token.chars().count() < MIN_TOKEN {
        format!("this token is shorter than {MIN_TOKEN} characters")
    } else if token.contains(char::is_control) {
        "this token has a line break or another control character, which no header can carry".to_owned()
    } else {
        return;
    };
    let key = if table.has("token_env") {
        "token_env"
    } else {
        "token_file"
    };
    let help = "make a random one, such as with `openssl rand -hex 32`";
    table.report(key, ValueError::new(error).help(help));
}

/// Reads `"127.0.0.1:7070"`, `":7070"` or `"unix:/run/outflow.sock"`.
fn read_target(item: &FieldValue<'_>) -> Result<ListenTarget, ValueError> {
    let text = read_filled_text(item)?;
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(ListenTarget::Unix(PathBuf::from(path)));
    }
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        return Ok(ListenTarget::local(port));
    }
    text.parse().map(ListenTarget::Tcp).map_err(|_| {
        ValueError::new("this is no address to listen on")
            .help("write it like \"127.0.0.1:7070\", \":7070\" or \"unix:/run/outflow.sock\"")
    })
}

/// 16 random letters need longer to guess than any token lives.
const MIN_TOKEN: usize = 16;

/// Keys of the token.
const TOKEN: SecretKeys = SecretKeys {
    inline: "token",
    variable: "token_env",
    file: "token_file",
};
