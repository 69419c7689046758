//! Browsers at a server without accounts: pages of other sites, and names bound to its address.

use crate::common::{entity, serve, start, start_with};

/// Regression: a page of any site could write to a server on the machine of its reader.
#[test]
fn pages_of_other_sites_neither_read_nor_write() {
    let (server, mut client) = serve();
    let own = format!("http://{}", server.address);
    let text = ("Content-Type", "text/plain");
    for foreign in [
        &[("Origin", "https://evil.example"), text][..],
        &[("Origin", "null"), text],
        &[("Sec-Fetch-Site", "cross-site"), text],
        &[("Sec-Fetch-Site", "same-site"), text],
    ] {
        let refused = client.call("PUT", &entity("a"), foreign, "x");
        assert_eq!(refused.status, 403, "{foreign:?}");
        assert!(refused.text().contains("--allowed-origins"), "{}", refused.text());
        let body = "{\"query\":\"RETURN 1\"}";
        let refused = client.call("POST", "/_api/cursor", foreign, body);
        assert_eq!((refused.status, &refused.json()["code"]), (403, &403.into()));
        assert_eq!(client.call("OPTIONS", "/_api/cursor", foreign, "").status, 403);
    }
    assert_eq!(client.get(&entity("a")).status, 404, "nothing was written");
    // Allowed: the server's own pages, programs, and links that a user follows.
    let headers = [("Origin", "http://test"), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(client.call("PUT", &entity("a"), &headers, "x").status, 201);
    assert_eq!(client.call("PUT", &entity("a"), &[("Sec-Fetch-Site", "none")], "x").status, 201);
    let link = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")];
    assert_eq!(client.call("GET", "/_admin/account", &link, "").status, 200);
    assert_eq!(client.call("PUT", &entity("a"), &[("Origin", &*own)], "x").status, 403, "not Host");
}

/// Regression: with DNS rebinding, an attacker's page had the same origin as the server.
#[test]
fn a_public_name_that_resolves_to_the_server_is_refused() {
    let ask = |server: &crate::common::TestServer, host: &str| {
        let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", entity("a"));
        server.sent(request.as_bytes()).answer()
    };
    let server = start();
    let refused = ask(&server, "evil.example:8080").having(421);
    assert!(refused.text().contains("--allowed-hosts"), "{}", refused.text());
    for own in [&*server.address.to_string(), "localhost:8080", "[::1]:8080", "pellucid"] {
        assert_eq!(ask(&server, own).status, 404, "{own}");
    }
    let server = start_with(|options| options.allowed_hosts = vec!["db.example.com".to_owned()]);
    assert_eq!(ask(&server, "db.example.com:8080").status, 404);
}

#[test]
fn an_origin_that_an_operator_allows_may_ask() {
    let origin = "https://console.example.com";
    let server = start_with(|options| options.allowed_origins = vec![origin.to_owned()]);
    let headers = [("Origin", origin), ("Sec-Fetch-Site", "cross-site")];
    assert_eq!(server.client().call("PUT", &entity("a"), &headers, "x").status, 201);
}
