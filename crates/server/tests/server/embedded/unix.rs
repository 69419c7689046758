//! A server on a Unix socket, beside TCP.

use pellucid_server::access::Authentication;
use pellucid_server::{ListenAddress, Log, start};
use tempfile::TempDir;

use crate::common::nodes::{free_addresses, list_of, options};
use crate::common::{Client, entity, start_with};

#[test]
fn a_unix_socket_needs_credentials_if_there_are_accounts() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let at = ListenAddress::Unix(path.as_path().into());
    let _running = start_with(|options| {
        options.listen.push(at);
        options.authentication = Authentication::On;
    });
    let mut client = Client::at_file(&path);
    assert_eq!(client.get(&entity("key")).status, 401);
    // `ada:wrong` in base64.
    let wrong = [("Authorization", "Basic YWRhOndyb25n")];
    assert_eq!(client.call("GET", &entity("key"), &wrong, b"").status, 401);
}

#[test]
fn a_node_of_a_cluster_needs_a_tcp_address() {
    let folder = TempDir::new().unwrap();
    let addresses = free_addresses(2);
    let mut options = options(&folder, addresses[0], &list_of(&addresses));
    options.listen = vec![ListenAddress::Unix(folder.path().join("socket").into())];
    let error = start(options, Log::new(|_| {})).err().unwrap();
    assert!(error.to_string().contains("over TCP"), "{error}");
}
