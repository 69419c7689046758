//! JSON web tokens (RFC 7519), signed with HMAC-SHA-256, in the form that clients of the document
//! API send. The server issues one for a password, and later verifies it without storing it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;

/// The lifetime of tokens that the server issues.
pub(crate) const LIFETIME_SECONDS: u64 = 3_600;
/// The claim `iss` that clients expect.
const ISSUER: &str = "arangodb";

/// The key of signatures, as an HMAC that has taken in nothing else yet.
pub(crate) type Key = Hmac<Sha256>;

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    preferred_username: Option<String>,
    server_id: Option<String>,
    exp: Option<f64>,
    iat: Option<f64>,
}

/// The subject of a token: the caller that it authenticates.
#[derive(Debug, PartialEq)]
pub(crate) enum Subject {
    /// The account with this name, and the token's times of issue and expiry in seconds since the
    /// Unix epoch, if it has them.
    Account { name: String, issued_at: Option<f64>, until: Option<f64> },
    /// A holder of the secret: another server, or an operator. With the token's time of expiry, if
    /// it has one.
    Superuser { until: Option<f64> },
}

/// The key that `secret` stands for.
pub(crate) fn key_of(secret: &[u8]) -> Key {
    Hmac::new_from_slice(secret).expect("HMAC takes keys of any length")
}

/// Makes a token for the account `name`, valid for [`LIFETIME_SECONDS`].
pub(crate) fn sign(key: &Key, name: &str, now_unix_seconds: u64) -> String {
    let claims = serde_json::json!({
        "iss": ISSUER,
        "preferred_username": name,
        "iat": now_unix_seconds,
        "exp": now_unix_seconds + LIFETIME_SECONDS,
    });
    signed_with(key, &claims.to_string())
}

/// A token with these claims.
pub(super) fn signed_with(key: &Key, claims: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims));
    let signature = key.clone().chain_update(&signed).finalize().into_bytes();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Returns the subject of a token if its signature is right (compared in constant time) and it has
/// not expired.
pub(crate) fn verify(key: &Key, token: &str, now_unix_seconds: u64) -> Option<Subject> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    key.clone().chain_update(signed).verify_slice(&signature).ok()?;
    let header: Header = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
    let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let is_over = claims.exp.is_some_and(|until| until <= now_unix_seconds as f64);
    if header.alg != "HS256" || claims.iss != ISSUER || is_over {
        return None;
    }
    match (claims.preferred_username, claims.server_id) {
        (Some(name), _) if !name.is_empty() => {
            Some(Subject::Account { name, issued_at: claims.iat, until: claims.exp })
        }
        (None, Some(_)) => Some(Subject::Superuser { until: claims.exp }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_for_its_lifetime_and_secret() {
        let key = key_of(b"key");
        let token = sign(&key, "ada", 1_000);
        let until = Some(1_000.0 + LIFETIME_SECONDS as f64);
        let ada = Subject::Account { name: "ada".to_owned(), issued_at: Some(1_000.0), until };
        assert_eq!(verify(&key, &token, 1_000), Some(ada));
        assert_eq!(verify(&key, &token, 1_000 + LIFETIME_SECONDS), None);
        assert_eq!(verify(&key_of(b"other"), &token, 1_000), None);
    }

    #[test]
    fn a_forged_token_is_refused() {
        let key = key_of(b"key");
        let token = sign(&key, "ada", 1_000);
        let parts: Vec<&str> = token.split('.').collect();
        let claims = URL_SAFE_NO_PAD.encode(r#"{"iss":"arangodb","preferred_username":"root"}"#);
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        for forged in [
            format!("{}.{claims}.{}", parts[0], parts[2]),
            format!("{none}.{claims}."),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{}.{}", parts[0], parts[1]),
            String::new(),
        ] {
            assert_eq!(verify(&key, &forged, 1_000), None, "{forged}");
        }
    }

    #[test]
    fn another_algorithm_is_refused_even_with_a_right_signature() {
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        let claims = URL_SAFE_NO_PAD.encode(r#"{"iss":"arangodb","preferred_username":"root"}"#);
        let signed = format!("{header}.{claims}");
        let key = key_of(b"key");
        let signature = key.clone().chain_update(&signed).finalize().into_bytes();
        let signature = URL_SAFE_NO_PAD.encode(signature);
        assert_eq!(verify(&key, &format!("{signed}.{signature}"), 0), None);
    }

    #[test]
    fn a_holder_of_the_secret_can_be_the_superuser() {
        let key = key_of(b"key");
        let token = signed_with(&key, r#"{"iss":"arangodb","server_id":"tests"}"#);
        assert_eq!(verify(&key, &token, 0), Some(Subject::Superuser { until: None }));
        let token = signed_with(&key, r#"{"iss":"arangodb","server_id":"tests","exp":7}"#);
        assert_eq!(verify(&key, &token, 6), Some(Subject::Superuser { until: Some(7.0) }));
        assert_eq!(verify(&key, &token, 7), None);
    }
}
