//! The sections `[server]` and `[admin]`.

use std::net::SocketAddr;
use std::time::Duration;

use outflow::config::Diagnostics;
use outflow_admin::AdminConfig;
use outflow_cli::ProgramConfig;
use outflow_listener::ListenTarget;
use outflow_sidecar::ServerConfig;
use secrecy::ExposeSecret;

use super::support::{STOCK, read};

fn with(section: &str) -> Result<ProgramConfig, Diagnostics> {
    read(&format!("{section}\n{STOCK}"), &[("GATE", "open-sesame-please")])
}

fn message(section: &str) -> String {
    with(section).expect_err("an error").to_string()
}

#[test]
fn both_ports_listen_on_this_machine_by_default() {
    let config = with("").expect("no error");
    assert_eq!(config.server.listen, ServerConfig::default().listen);
    assert_eq!(config.admin.listen, AdminConfig::default().listen);
    assert!(config.server.listen.is_local() && config.admin.listen.is_local());
    assert_ne!(config.server.listen, config.admin.listen);
    assert!(config.server.token.is_none() && config.admin.token.is_none());
}

#[test]
fn listen_accepts_an_address_a_port_or_a_socket_file() {
    let listen = |written: &str| {
        let config = with(&format!("[server]\nlisten = \"{written}\""));
        config.expect("no error").server.listen
    };
    let address: SocketAddr = "127.0.0.1:9000".parse().expect("an address");
    assert_eq!(listen("127.0.0.1:9000"), ListenTarget::Tcp(address));
    assert_eq!(listen(":9000"), ListenTarget::Tcp(address));
    assert!(listen("[::1]:9000").is_local());
    assert_eq!(listen("unix:/run/outflow.sock").to_string(), "unix:/run/outflow.sock");
    assert!(message("[server]\nlisten = \"localhost\"").contains("no address to listen on"));
}

// A client of the sidecar uses its keys, and a client of the admin API can stop it.
#[test]
fn a_port_beyond_this_machine_needs_a_token() {
    for section in ["server", "admin"] {
        let open = format!("[{section}]\nlisten = \"0.0.0.0:9000\"");
        assert!(message(&open).contains("could use your keys"), "{section}");
        assert!(with(&format!("{open}\ntoken_env = \"GATE\"")).is_ok());
    }
}

#[test]
fn tokens_come_from_a_variable_or_a_file_and_never_show() {
    let config = with("[admin]\ntoken_env = \"GATE\"").expect("no error");
    let token = config.admin.token.clone().expect("read");
    assert_eq!(token.expose_secret(), "open-sesame-please");
    assert!(!format!("{config:?}").contains("open-sesame-please"));
    let written = message("[admin]\ntoken = \"open-sesame-please\"");
    assert!(written.contains("never written") && !written.contains("open-sesame-please"));
    assert!(written.contains("token_env"), "{written}");
}

// All programs of a machine have one address, and the sidecar must accept a burst of one of them.
#[test]
fn remote_addresses_have_fewer_connections_than_this_machine() {
    let max = |section: &str| {
        let config = with(section).expect("no error").server;
        config.max_connections_per_client
    };
    assert_eq!(max(""), 16_384);
    assert_eq!(max("[server]\nmax_connections = 9"), 9);
    let open = "[server]\nlisten = \"0.0.0.0:9000\"\ntoken_env = \"GATE\"";
    assert_eq!(max(open), 64);
    assert_eq!(max(&format!("{open}\nmax_connections_per_client = 7")), 7);
}

#[test]
fn server_bounds_accept_only_valid_values() {
    let config = with("[server]\nmax_header_size = \"64KiB\"\nheader_timeout = \"2s\"\nworkers = 3");
    let server = config.expect("no error").server;
    assert_eq!((server.max_header_size, server.workers), (64 << 10, Some(3)));
    assert_eq!(server.header_timeout, Duration::from_secs(2));
    for wrong in [
        "max_header_size = \"1KiB\"",
        "max_headers = 0",
        "max_memory = \"1MiB\"",
        "underscore_headers = \"drop\"",
        "max_connections = 0",
        "workers = 0",
        "grace = \"0s\"",
        "max_conections = 1",
    ] {
        assert!(with(&format!("[server]\n{wrong}")).is_err(), "{wrong}");
    }
}

// One error in each section, in the order of the file; the last one needs three sections to be read.
#[test]
fn the_reader_lists_errors_of_all_sections_in_file_order() {
    let text = "[bulk]\nlease = 3\n[log]\nlevel = \"loud\"\n[server]\nworkers = 0\n\
                [admin]\nlisten = \"x\"\n[apis.stock]\nbase_url = \"http://127.0.0.1:7070\"\n\
                [sever]\n";
    let diagnostics = read(text, &[]).expect_err("six errors");
    let keys: Vec<_> = diagnostics.iter().map(|one| one.key.as_str()).collect();
    let expected = [
        "bulk.lease",
        "log.level",
        "server.workers",
        "admin.listen",
        "apis.stock.base_url",
        "sever",
    ];
    assert_eq!(keys, expected, "{diagnostics}");
}

#[test]
fn the_client_learns_the_secrets_of_all_sections() {
    let config = with("[server]\ntoken_env = \"GATE\"").expect("no error");
    let secrets = config.client.secrets.iter();
    let secrets: Vec<_> = secrets.map(ExposeSecret::expose_secret).collect();
    assert_eq!(secrets, ["open-sesame-please"]);
}

// One letter, one character too few, and the shortest that is accepted.
#[test]
fn a_short_token_is_refused_with_a_way_to_make_one() {
    for section in ["server", "admin"] {
        let text = format!("[{section}]\ntoken_env = \"GATE\"\n{STOCK}");
        for short in ["x", "fifteen-letters"] {
            let refused = read(&text, &[("GATE", short)]).expect_err(short);
            let written = refused.to_string();
            assert!(written.contains("shorter than 16 characters"), "{written}");
            assert!(written.contains("openssl rand -hex 32"), "{written}");
        }
        assert!(read(&text, &[("GATE", "sixteen-letters!")]).is_ok());
    }
}

// A file may end in a line break, which is not part of the token. Any other one can never arrive in a header.
#[test]
fn a_token_with_a_line_break_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    for (token, is_valid) in [
        ("sixteen-letters!\n", true),
        ("sixteen-letters!\r\n", true),
        ("sixteen\nletters-and-more", false),
        ("sixteen-letters\u{7f}!", false),
    ] {
        std::fs::write(&file, token).expect("written");
        for section in ["server", "admin"] {
            let text = format!("[{section}]\ntoken_file = {:?}\n{STOCK}", file.display().to_string());
            match read(&text, &[]) {
                Ok(_) => assert!(is_valid, "{token:?}"),
                Err(refused) => {
                    let written = refused.to_string();
                    assert!(
                        !is_valid && written.contains("control character"),
                        "{token:?}: {written}"
                    );
                    assert!(!written.contains("letters"), "{written}");
                }
            }
        }
    }
}
