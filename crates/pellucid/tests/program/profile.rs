//! Tests of `pellucid profile` on servers with accounts, over TLS.

use std::path::Path;

use crate::common::tls::certificate;
use crate::common::{TestServer, account, done, failed, fails, finish, pellucid};
use tempfile::TempDir;

/// Adds an account with this grant and without a password; returns a token of it.
fn token_of(data: &Path, name: &str, grant: &str) -> String {
    done(&account(data, &["add", name, "--no-password", "--grant", grant], ""));
    done(&account(data, &["token", "add", name, "profiles"], "")).trim().to_owned()
}

#[test]
fn a_profile_is_taken_over_tls_with_a_token_and_refusals_say_what_is_missing() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let (ca, key) = certificate(folder.path());
    let admin = token_of(&data, "ada", "admin=read");
    let reader = token_of(&data, "bob", "table/entities=read");
    let server = TestServer::start(&data, &["--tls-cert", &ca, "--tls-key", &key]);
    let url = format!("https://localhost:{}", server.address.port());
    let output = folder.path().join("heap.svg").to_str().unwrap().to_owned();
    let profile = |arguments: &[&str], token: Option<&str>| {
        let mut command = pellucid(&[&["profile", &url], arguments].concat());
        command.env_remove("PELLUCID_TOKEN");
        if let Some(token) = token {
            command.env("PELLUCID_TOKEN", token);
        }
        finish(command)
    };
    let taken = profile(&["heap", "--ca", &ca, "-o", &output], Some(&admin));
    assert!(done(&taken).starts_with("wrote "));
    assert!(std::fs::read_to_string(&output).unwrap().starts_with("<svg"));
    // Regression: `lock` and `heap` could not be taken of the past. The certificate is not verified
    // here.
    for arguments in [
        &["lock", "--from", "-60", "--insecure", "--token", &admin][..],
        &["heap", "--from", "-60", "--insecure", "--token", &admin],
        &["heap", "--base", "-60", "--insecure", "--token", &admin],
        &["cpu", "--seconds", "0.2", "--insecure", "-H", &format!("Authorization: Bearer {admin}")],
    ] {
        assert!(done(&profile(arguments, None)).contains("phase or job"), "{arguments:?}");
    }
    failed(&profile(&["heap", "--ca", &ca], None), 1, "the server answered 401");
    failed(&profile(&["heap", "--ca", &ca], None), 1, "PELLUCID_TOKEN");
    failed(&profile(&["heap", "--ca", &ca], Some(&reader)), 1, "admin=read");
    failed(&profile(&["heap"], Some(&admin)), 1, "--insecure");
    failed(&profile(&["heap", "--ca", "/nowhere.pem"], Some(&admin)), 1, "/nowhere.pem");
    failed(&profile(&["heap", "--ca", &ca, "-H", "no header"], None), 2, "no header");
    // Regression: the file was opened only after the recording, which was lost.
    let unwritable = ["profile", "http://127.0.0.1:1", "cpu", "-o", "/nowhere/cpu.svg"];
    fails(&unwritable, 1, "/nowhere/cpu.svg");
}
