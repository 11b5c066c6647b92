//! Our own program, with limits, health, metrics and the log on.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::free_port;
use super::process::Proxy;

/// Configured limit of the upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limits {
    /// A limit that is counted and never reached.
    OutOfReach,
    /// This many a second.
    PerSecond(u32),
}

/// Starts ours with this upstream.
///
/// # Errors
/// If the program was not built, or does not start.
pub(crate) fn ours(upstream: SocketAddr, limits: Limits) -> io::Result<Proxy> {
    ours_at(&api("up", upstream, limits))
}

/// Starts ours with these APIs, of which `up` is called.
///
/// # Errors
/// If the program was not built, or does not start.
pub(crate) fn ours_at(apis: &str) -> io::Result<Proxy> {
    let program = std::env::var_os("OUTFLOW_PROGRAM")
        .ok_or_else(|| io::Error::other("run it by `cargo xtask bench`, which builds the program"))?;
    let (port, admin) = (free_port()?, free_port()?);
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:{port}\"\nworkers = 1\n\
         max_connections = 4096\nmax_connections_per_client = 4096\n\
         [admin]\nlisten = \"127.0.0.1:{admin}\"\n\
         [log]\nfile = \"HOME/outflow.log\"\n{apis}"
    );
    let proxy = Proxy::start(port, ("outflow.toml", &text), |file| {
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(file);
        command
    });
    proxy.map(|proxy| proxy.with_name("Outflow").with_prefix("/up"))
}

/// Returns a thousand APIs of a hundred groups each with one upstream, the called one among them.
pub(crate) fn many_apis(upstream: SocketAddr) -> String {
    let mut text = api("up", upstream, Limits::OutOfReach);
    for number in 1..1_000 {
        text.push_str(&api(&format!("api-{number}"), upstream, Limits::OutOfReach));
        for group in 0..100 {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "groups.group-{group}.limits = [\"{}/s\"]", group + 1);
        }
    }
    text
}

fn api(name: &str, upstream: SocketAddr, limits: Limits) -> String {
    let limit = match limits {
        Limits::OutOfReach => "1000000/s".to_owned(),
        Limits::PerSecond(rate) => format!("{rate}/s"),
    };
    format!(
        "[apis.{name}]\nbase_url = \"http://{upstream}\"\nlimits = [\"{limit}\"]\n\
         concurrency = 1000\nmax_wait = \"2m\"\nretry_count = 5\n"
    )
}
