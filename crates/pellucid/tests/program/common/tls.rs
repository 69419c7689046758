//! TLS between the tests and the built server.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;

/// Returns the configuration of a client with these protocols that accepts every certificate. The
/// tests check that the server survives, not its name.
pub(crate) fn client_config(protocols: &[&str]) -> Arc<ClientConfig> {
    let mut config = pellucid_client::http::config(None).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// Writes a certificate for `localhost` and its key; returns their paths.
pub(crate) fn certificate(folder: &Path) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    write_private(&key, &made.signing_key.serialize_pem());
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    (text(&certificate), text(&key))
}

pub(crate) fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
