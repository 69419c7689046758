//! Tests of a server on a Unix socket: its start and end, and the commands that connect to it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::tls::certificate;
use crate::common::{TestServer, done, entity, failed, finish, pellucid, run};

/// Returns the path of a socket in `folder`, and its address.
fn socket_in(folder: &TempDir) -> (PathBuf, String) {
    let path = folder.path().join("socket");
    let address = format!("unix:{}", path.display());
    (path, address)
}

/// Returns the command of a server of the data in `folder` that listens only on `address`.
fn serve(folder: &TempDir, address: &str, flags: &[&str]) -> Command {
    let data = folder.path().join("data");
    let mut command = pellucid(&["serve", "--data", data.to_str().unwrap(), "--listen", address]);
    command.args(flags);
    command
}

fn refused(command: Command, code: i32, cure: &str) {
    failed(&finish(command), code, cure);
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn commands_connect_to_a_server_with_only_a_unix_socket() {
    let folder = TempDir::new().unwrap();
    let (path, url) = socket_in(&folder);
    let server = TestServer::spawn(serve(&folder, &url, &[]));
    assert_eq!(mode(&path), 0o600);
    done(&run(&["put", &url, "greeting", "hello"]));
    assert_eq!(done(&run(&["get", &url, "greeting"])), "hello");
    assert_eq!(done(&run(&["scan", &url, "--keys"])), "greeting\n");
    assert_eq!(done(&run(&["query", &url, "RETURN 1"])), "1\n");
    done(&run(&["delete", &url, "greeting"]));
    assert_eq!(run(&["get", &url, "greeting"]).status.code(), Some(4));
    refused(pellucid(&["get", &format!("{url}:/v0"), "greeting"]), 2, "without a path");
    server.stop();
    assert!(!path.exists(), "a clean stop takes the file with it");
    refused(pellucid(&["get", &url, "greeting"]), 1, "no server listens there");
}

#[test]
fn a_server_has_a_port_and_a_socket_and_only_the_port_has_tls() {
    let folder = TempDir::new().unwrap();
    let (path, url) = socket_in(&folder);
    let data = folder.path().join("data");
    let server = TestServer::start(&data, &["--listen", &url, "--socket-mode", "0660"]);
    assert_eq!(mode(&path), 0o660);
    done(&run(&["put", &url, "greeting", "hello"]));
    assert_eq!(server.client().get(&entity("greeting")).text(), "hello");
    server.stop();
    assert!(!path.exists());
    let (certificate, key) = certificate(folder.path());
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let server = TestServer::start(&data, &[&["--listen", &url][..], &tls].concat());
    assert_eq!(done(&run(&["get", &url, "greeting"])), "hello");
    let over_tls = format!("https://localhost:{}", server.address.port());
    assert_eq!(done(&run(&["get", &over_tls, "greeting", "--insecure"])), "hello");
    server.stop();
    refused(serve(&folder, &url, &tls), 2, "without TLS");
}

#[test]
fn the_socket_of_a_dead_server_is_replaced_but_no_other_file() {
    let folder = TempDir::new().unwrap();
    let (path, url) = socket_in(&folder);
    let server = TestServer::spawn(serve(&folder, &url, &[]));
    done(&run(&["put", &url, "greeting", "hello"]));
    server.kill();
    assert!(path.exists(), "nobody was there to remove it");
    let server = TestServer::spawn(serve(&folder, &url, &[]));
    let beside = TempDir::new().unwrap();
    refused(serve(&beside, &url, &[]), 1, "in use: a server listens there");
    assert_eq!(done(&run(&["get", &url, "greeting"])), "hello");
    server.stop();
    std::fs::write(&path, "of somebody").unwrap();
    refused(serve(&folder, &url, &[]), 1, "not a socket");
    assert_eq!(std::fs::read(&path).unwrap(), b"of somebody");
}

#[test]
fn invalid_addresses_and_modes_are_refused_with_a_cure() {
    let folder = TempDir::new().unwrap();
    let (_, url) = socket_in(&folder);
    let long = format!("unix:/{}", "x".repeat(107));
    refused(serve(&folder, &long, &[]), 2, "107 bytes at most");
    refused(serve(&folder, "unix:", &[]), 2, "names no file");
    refused(serve(&folder, &url, &["--socket-mode", "0066"]), 2, "0660");
    refused(serve(&folder, "unix:/nowhere/socket", &[]), 1, "make the socket's folder");
    refused(pellucid(&["get", &long, "k"]), 2, "107 bytes at most");
    // No account is needed, like on loopback.
    drop(TestServer::spawn(serve(&folder, &url, &["--authentication", "off"])));
}
