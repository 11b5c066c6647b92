//! Sockets that a supervisor opened before the program was started.
//!
//! Whoever connects while the program is restarted then waits a moment instead of being refused. They are
//! told apart by name, `calls` and `admin`; where no name fits, the first is for calls and the second for
//! operators. Turning a number into a socket is the one thing that needs `unsafe`, and is done by a crate
//! that looks first whether it is one.

use std::io;

use listenfd::ListenFd;

use crate::Listener;

/// What was handed over at the start.
pub struct ActivatedSockets {
    sockets: ListenFd,
    names: Vec<String>,
}

impl ActivatedSockets {
    /// What this process was given. It can be asked for once.
    pub fn of_process() -> Self {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        Self {
            sockets: ListenFd::from_env(),
            names: names.split(':').map(str::to_owned).collect(),
        }
    }

    /// The socket for this purpose, if there is one.
    ///
    /// # Errors
    /// If what was handed over is no socket that can be listened on.
    pub fn take(&mut self, purpose: SocketPurpose) -> io::Result<Option<Listener>> {
        let place = place(&self.names, self.sockets.len(), purpose);
        let Some(place) = place else {
            return Ok(None);
        };
        if let Ok(Some(listener)) = self.sockets.take_tcp_listener(place) {
            return Listener::from_tcp(listener).map(Some);
        }
        let unix = self.sockets.take_unix_listener(place)?;
        unix.map(Listener::from_unix).transpose()
    }
}

/// What a socket is for.
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

    const fn place(self) -> usize {
        match self {
            Self::Calls => 0,
            Self::Admin => 1,
        }
    }
}

fn place(names: &[String], count: usize, purpose: SocketPurpose) -> Option<usize> {
    let is = |purpose: SocketPurpose| move |name: &String| name == purpose.name();
    let known = names.iter().position(is(purpose));
    let nobody = !names
        .iter()
        .any(|name| is(SocketPurpose::Calls)(name) || is(SocketPurpose::Admin)(name));
    let place = known.or_else(|| nobody.then(|| purpose.place()));
    place.filter(|place| *place < count)
}

#[cfg(test)]
mod tests {
    use super::*;

    // By name in any order; by place if nobody is called anything of ours; never one that was not given.
    #[test]
    fn a_socket_is_found_by_its_name_or_else_by_its_place() {
        let names = |list: &str| list.split(':').map(str::to_owned).collect::<Vec<_>>();
        let found = |list: &str, count| {
            let names = names(list);
            [SocketPurpose::Calls, SocketPurpose::Admin]
                .map(|purpose| place(&names, count, purpose))
        };
        assert_eq!(found("admin:calls", 2), [Some(1), Some(0)]);
        assert_eq!(found("admin", 1), [None, Some(0)]);
        assert_eq!(found("", 2), [Some(0), Some(1)]);
        assert_eq!(
            found("outflow.socket:outflow.socket", 2),
            [Some(0), Some(1)]
        );
        assert_eq!(found("", 0), [None, None]);
        assert_eq!(found("calls:admin", 1), [Some(0), None]);
    }
}
