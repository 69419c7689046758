//! `pellucid profile` on servers that let not everybody in, over TLS.

use std::path::Path;
use std::process::Output;

use crate::common::{Serving, finish, pellucid, run, text};
use tempfile::TempDir;

fn done(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn fails(output: &Output, code: i32, word: &str) {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(word) && !errors.contains("panicked"), "{word}: {errors}");
}

/// An account without a password and with this grant, and a token of it.
fn token_of(data: &Path, name: &str, grant: &str) -> String {
    let account = |arguments: &[&str]| {
        let output = run(&[&["account", "--data", data.to_str().unwrap()], arguments].concat());
        done(&output).trim().to_owned()
    };
    account(&["add", name, "--no-password", "--grant", grant]);
    account(&["token", "add", name, "profiles"])
}

#[test]
fn a_profile_is_taken_over_tls_with_a_token_and_refusals_say_what_is_missing() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(file("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(file("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let admin = token_of(&data, "ada", "admin=read");
    let reader = token_of(&data, "bob", "table/entities=read");
    let tls = ["--tls-cert", &file("cert.pem"), "--tls-key", &file("key.pem")];
    let server = Serving::start(&data, &tls);
    let url = format!("https://localhost:{}", server.address.port());
    let ca = file("cert.pem");
    let output = file("heap.svg");
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
    // The kinds that had no past, and a certificate that is taken as it is.
    for arguments in [
        &["lock", "--from", "-60", "--insecure", "--token", &admin][..],
        &["heap", "--from", "-60", "--insecure", "--token", &admin],
        &["heap", "--base", "-60", "--insecure", "--token", &admin],
        &["cpu", "--seconds", "0.2", "--insecure", "-H", &format!("Authorization: Bearer {admin}")],
    ] {
        assert!(done(&profile(arguments, None)).contains("phase or job"), "{arguments:?}");
    }
    fails(&profile(&["heap", "--ca", &ca], None), 1, "the server answered 401");
    fails(&profile(&["heap", "--ca", &ca], None), 1, "PELLUCID_TOKEN");
    fails(&profile(&["heap", "--ca", &ca], Some(&reader)), 1, "admin=read");
    fails(&profile(&["heap"], Some(&admin)), 1, "--insecure");
    fails(&profile(&["heap", "--ca", "/nowhere.pem"], Some(&admin)), 1, "/nowhere.pem");
    fails(&profile(&["heap", "--ca", &ca, "-H", "no header"], None), 2, "no header");
    server.stop();
}
