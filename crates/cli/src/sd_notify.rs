//! The supervisor of the program, if it has one that listens: systemd, or whoever speaks like it.
//!
//! It is told when calls are taken, when the configuration is being read again and when the end has
//! begun, in datagrams of a few words to the socket that it named. That is all of the protocol we need,
//! and less than a crate for it would bring. Nobody listening, or not any more, is no reason to fail.

use std::ffi::{OsStr, OsString};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use outflow::SystemClock;
use outflow::core::Clock;

use crate::terminal::say;

/// Who is told how the program is.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: Option<OsString>,
}

impl ServiceManager {
    /// The one that started this process.
    pub(crate) fn of_process() -> Self {
        Self {
            socket: std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
        }
    }

    /// Calls are taken.
    pub(crate) fn ready(&self) {
        self.notify("READY=1");
    }

    /// The configuration is being read again. Without the time a newer systemd ends the program.
    pub(crate) fn reloading(&self) {
        let micros = SystemClock::new().now().as_nanos() / 1_000;
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// No more calls are taken.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    fn notify(&self, words: &str) {
        let Some(name) = &self.socket else {
            return;
        };
        let sent = UnixDatagram::unbound().and_then(|socket| {
            let address = address(name)?;
            socket.send_to_addr(words.as_bytes(), &address)
        });
        if let Err(error) = sent {
            say!("outflow: the supervisor cannot be told: {error}");
        }
    }
}

/// A path, or a name without a file where it begins with `@`.
fn address(name: &OsStr) -> std::io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(rest) => SocketAddr::from_abstract_name(rest),
        None => SocketAddr::from_pathname(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_one_datagram() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let supervisor = ServiceManager {
            socket: Some(path.into_os_string()),
        };
        supervisor.ready();
        supervisor.reloading();
        supervisor.stopping();
        let heard = || {
            let mut bytes = [0; 100];
            let length = socket.recv(&mut bytes).expect("a datagram");
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        };
        assert_eq!(heard(), "READY=1");
        let reloading = heard();
        let (word, time) = reloading.split_once('\n').expect("two lines");
        let micros = time.strip_prefix("MONOTONIC_USEC=").expect("the time");
        assert_eq!((word, micros.parse::<u64>().is_ok()), ("RELOADING=1", true));
        assert_eq!(heard(), "STOPPING=1");
    }

    // The socket is gone: that is the supervisor's business.
    #[test]
    fn nobody_who_listens_is_no_reason_to_fail() {
        let socket = Some("/no/such/socket".into());
        ServiceManager { socket }.ready();
        ServiceManager { socket: None }.ready();
    }
}
