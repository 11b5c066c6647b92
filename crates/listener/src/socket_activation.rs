//! Sockets that a supervisor opened before it started the program.
//!
//! A client that connects during a restart waits a moment instead of being refused. The names `calls` and
//! `admin` identify the sockets; without these names, the first is for calls and the second for operators.
//! Turning a descriptor into a socket needs `unsafe`; the crate `listenfd` does it and checks the descriptor.

use std::io;

use listenfd::ListenFd;

use crate::Listener;

/// Sockets from the supervisor, each taken at most once.
pub struct ActivatedSockets {
    sockets: ListenFd,
    names: Vec<String>,
}

impl ActivatedSockets {
    /// Takes over the sockets of this process. A second call finds none.
    pub fn from_env() -> Self {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        Self {
            sockets: ListenFd::from_env(),
            names: names.split(':').map(str::to_owned).collect(),
        }
    }

    /// Takes the socket for this purpose, if there is one.
    ///
    /// # Errors
    /// If the descriptor is not a listening socket.
    pub fn take(&mut self, purpose: SocketPurpose) -> io::Result<Option<Listener>> {
        let Some(index) = find_index(&self.names, self.sockets.len(), purpose) else {
            return Ok(None);
        };
        if let Ok(Some(listener)) = self.sockets.take_tcp_listener(index) {
            return Listener::from_tcp(listener).map(Some);
        }
        let unix = self.sockets.take_unix_listener(index)?;
        unix.map(Listener::from_unix).transpose()
    }
}

/// Purpose of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketPurpose {
    /// Calls of programs, to the sidecar.
    Calls,
    /// Requests of operators, to the admin API.
    Admin,
}

impl SocketPurpose {
    const fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Admin => "admin",
        }
    }

    const fn default_index(self) -> usize {
        match self {
            Self::Calls => 0,
            Self::Admin => 1,
        }
    }
}

fn find_index(names: &[String], count: usize, purpose: SocketPurpose) -> Option<usize> {
    let position = |purpose: SocketPurpose| names.iter().position(|name| name == purpose.name());
    let has_names = [SocketPurpose::Calls, SocketPurpose::Admin]
        .into_iter()
        .any(|purpose| position(purpose).is_some());
    let index = if has_names {
        position(purpose)
    } else {
        Some(purpose.default_index())
    };
    index.filter(|index| *index < count)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Names count in any order; the position counts if no name is known; a missing socket is never returned.
    #[test]
    fn a_socket_is_found_by_its_name_or_else_by_its_position() {
        let names = |list: &str| list.split(':').map(str::to_owned).collect::<Vec<_>>();
        let found = |list: &str, count| {
            let names = names(list);
            [SocketPurpose::Calls, SocketPurpose::Admin].map(|purpose| find_index(&names, count, purpose))
        };
        assert_eq!(found("admin:calls", 2), [Some(1), Some(0)]);
        assert_eq!(found("admin", 1), [None, Some(0)]);
        assert_eq!(found("", 2), [Some(0), Some(1)]);
        assert_eq!(found("outflow.socket:outflow.socket", 2), [Some(0), Some(1)]);
        assert_eq!(found("", 0), [None, None]);
        assert_eq!(found("calls:admin", 1), [Some(0), None]);
    }
}
