//! Notifications to the service manager of the process, such as systemd.
//!
//! A datagram to the manager's socket reports that the program is ready, reloads or stops. The protocol is
//! too small for a dependency. A missing or closed socket is no error.

use std::ffi::{OsStr, OsString};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use outflow::SystemClock;
use outflow::core::Clock;

use crate::terminal::say;

/// Service manager that receives the state of the program.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: Option<OsString>,
}

impl ServiceManager {
    /// Returns the service manager that started this process.
    pub(crate) fn of_process() -> Self {
        Self {
            socket: std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
        }
    }

    /// Reports that the program accepts calls.
    pub(crate) fn ready(&self) {
        self.notify("READY=1");
    }

    /// Reports a reload. Newer versions of systemd end a program that omits the time.
    pub(crate) fn reloading(&self) {
        let micros = SystemClock::new().now().as_nanos() / 1_000;
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// Reports that the program stops.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    fn notify(&self, state: &str) {
        let Some(name) = &self.socket else {
            return;
        };
        let sent = UnixDatagram::unbound().and_then(|socket| {
            let address = address(name)?;
            socket.send_to_addr(state.as_bytes(), &address)
        });
        if let Err(error) = sent {
            say!("outflow: cannot notify the service manager: {error}");
        }
    }
}

/// Parses a path, or a name without a file if it starts with `@`.
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
        let manager = ServiceManager {
            socket: Some(path.into_os_string()),
        };
        manager.ready();
        manager.reloading();
        manager.stopping();
        let received = || {
            let mut bytes = [0; 100];
            let length = socket.recv(&mut bytes).expect("a datagram");
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        };
        assert_eq!(received(), "READY=1");
        let reloading = received();
        let (word, time) = reloading.split_once('\n').expect("two lines");
        let micros = time.strip_prefix("MONOTONIC_USEC=").expect("the time");
        assert_eq!((word, micros.parse::<u64>().is_ok()), ("RELOADING=1", true));
        assert_eq!(received(), "STOPPING=1");
    }

    // The socket does not exist.
    #[test]
    fn a_missing_socket_is_no_error() {
        let socket = Some("/no/such/socket".into());
        ServiceManager { socket }.ready();
        ServiceManager { socket: None }.ready();
    }
}
