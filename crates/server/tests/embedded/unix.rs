//! A server on a Unix socket, beside TCP.

use std::path::PathBuf;

use pellucid_server::access::Authentication;
use pellucid_server::{ListenAddress, Log, ServerError, ServerOptions, start};
use tempfile::TempDir;

use crate::common::nodes::{free_addresses, list_of, options};
use crate::common::{Client, TestServer, entity, start_with};

/// Starts a server on TCP and on a Unix socket in `folder`, with options that `set` changes.
fn start_at_both(folder: &TempDir, set: impl FnOnce(&mut ServerOptions)) -> (TestServer, PathBuf) {
    let path = folder.path().join("socket");
    let at = ListenAddress::Unix(path.clone());
    let running = start_with(|options| {
        options.listen.push(at);
        set(options);
    });
    (running, path)
}

#[test]
fn entries_are_the_same_over_tcp_and_the_socket() {
    let folder = TempDir::new().unwrap();
    let (running, path) = start_at_both(&folder, |_| {});
    let mut client = Client::at_file(&path);
    let large = vec![b'x'; 3 << 20];
    assert_eq!(client.put(&entity("small"), "value").status, 201);
    assert_eq!(client.put(&entity("large"), &large).status, 201);
    for mut client in [client, running.client()] {
        assert_eq!(client.get(&entity("small")).text(), "value");
        assert!(client.get(&entity("large")).body == large);
    }
    drop(running);
    assert!(!path.exists());
}

#[test]
fn a_unix_socket_needs_credentials_if_there_are_accounts() {
    let folder = TempDir::new().unwrap();
    let required = |options: &mut ServerOptions| options.authentication = Authentication::On;
    let (_running, path) = start_at_both(&folder, required);
    let mut client = Client::at_file(&path);
    assert_eq!(client.get(&entity("key")).status, 401);
    // `ada:wrong` in base64.
    let wrong = [("Authorization", "Basic YWRhOndyb25n")];
    assert_eq!(client.call("GET", &entity("key"), &wrong, b"").status, 401);
}

#[test]
fn a_socket_in_use_is_left_to_its_server() {
    let folder = TempDir::new().unwrap();
    let (_running, path) = start_at_both(&folder, |_| {});
    let mut beside = ServerOptions::new(folder.path().join("beside"));
    beside.listen = vec![ListenAddress::Unix(path.clone())];
    let error = start(beside, Log::new(|_| {})).err().unwrap();
    assert!(matches!(&error, ServerError::Listen(ListenAddress::Unix(at), _) if *at == path));
    assert!(error.to_string().contains("in use"), "{error}");
    assert_eq!(Client::at_file(&path).get("/v0/status").status, 200);
}

#[test]
fn a_node_of_a_cluster_needs_a_tcp_address() {
    let folder = TempDir::new().unwrap();
    let addresses = free_addresses(2);
    let mut options = options(&folder, addresses[0], &list_of(&addresses));
    options.listen = vec![ListenAddress::Unix(folder.path().join("socket"))];
    let error = start(options, Log::new(|_| {})).err().unwrap();
    assert!(error.to_string().contains("over TCP"), "{error}");
}
