//! A program under a supervisor that opens its socket and receives its notifications, as systemd does.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::support::{ConfigFile, NAME, caller, slow_server};
use crate::support::PATIENCE;

/// A process that is killed with the test.
struct SupervisedProcess(Child);

impl SupervisedProcess {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.0.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for SupervisedProcess {
    fn drop(&mut self) {
        // A process that has already ended is fine.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// The shell passes its standard input as descriptor 3, the first socket of systemd's protocol, and its own
/// process id, which the program keeps after `exec`.
const HANDED_OVER: &str =
    "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=calls exec \"$0\" serve --config \"$1\" 3<&0 </dev/null";

#[tokio::test(flavor = "multi_thread")]
async fn the_program_serves_an_inherited_socket_and_notifies_its_supervisor() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    let path = file.dir.path().join("notify");
    let notifications = UnixDatagram::bind(&path).expect("a socket");
    notifications.set_read_timeout(Some(PATIENCE)).expect("set");
    let receive = || {
        let mut bytes = [0; 200];
        let length = notifications.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };

    let child = Command::new("sh")
        .args(["-c", HANDED_OVER, env!("CARGO_BIN_EXE_outflow")])
        .arg(file.path())
        .env("NOTIFY_SOCKET", &path)
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stderr(Stdio::null())
        .spawn();
    let mut program = SupervisedProcess(child.expect("it starts"));
    assert_eq!(receive(), "READY=1");
    let client = caller(&format!("http://{address}/strict"));
    let answer = client.get(NAME, "/a").send().await.expect("an answer");
    assert_eq!(answer.status(), 200);

    program.signal("HUP");
    let reloading = receive();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(receive(), "READY=1");
    program.signal("TERM");
    assert_eq!(receive(), "STOPPING=1");
    assert_eq!(program.0.wait().expect("its end").code(), Some(0));
}

// The socket listens on all addresses and the configuration on this machine only.
#[tokio::test]
async fn the_program_refuses_an_inherited_public_socket_without_a_token() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let socket = TcpListener::bind("0.0.0.0:0").expect("a port");
    let ended = Command::new("sh")
        .args(["-c", HANDED_OVER, env!("CARGO_BIN_EXE_outflow")])
        .arg(file.path())
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("`server.token_env`"), "{said}");
}
