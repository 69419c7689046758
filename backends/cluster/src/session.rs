//! The keys of one connection between nodes, and the encrypted records that it carries.
//!
//! Each side sends a key share that it made for this connection alone (X25519, RFC 7748). The
//! shared value of both shares, the cluster's secret, and everything sent before give two keys, one
//! for each direction (HKDF-SHA-256, RFC 5869). A side that does not know the secret derives other
//! keys, so a record that decrypts proves that its sender knows the secret. A record is encrypted
//! with AES-128-GCM, and its nonce is its number in its direction: a record that was changed, left
//! out, repeated or moved does not decrypt.

use std::fmt::Write;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hmac;
use ring::rand::SystemRandom;

use crate::frame::PROTOCOL;

/// Length of a key share in bytes.
const SHARE_BYTES: usize = 32;
/// Length of a key of the cipher in bytes.
const KEY_BYTES: usize = 16;
/// Length in bytes of the length field in front of a record.
const LENGTH_BYTES: usize = 4;
/// Length in bytes of the authentication tag at the end of a record.
const TAG_BYTES: usize = 16;
/// Limit of a record's plain text in bytes.
pub const RECORD_BYTES_MAX: usize = 32 * 1024;
/// Limit of an encrypted record in bytes.
pub(crate) const SEALED_BYTES_MAX: usize = LENGTH_BYTES + RECORD_BYTES_MAX + TAG_BYTES;

/// A buffer of plain text with a larger capacity is freed once it is empty.
const OPENED_KEPT_BYTES: usize = 1024 * 1024;

/// One of the two sides of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that opened the connection and sends asks.
    Initiator,
    /// The side that accepted the connection and sends answers.
    Responder,
}

/// The inputs of the key derivation that both sides have to agree on.
#[derive(Clone, Copy, Debug)]
pub struct KeyDerivationInputs<'a> {
    /// The name of the initiator, as it sent it in clear text.
    pub from: &'a str,
    /// The name of the node that the initiator wants to reach, sent likewise.
    pub to: &'a str,
    /// The secret of the cluster, if it has one. It is never sent.
    pub secret: Option<&'a [u8]>,
}

/// One end's share of a connection's keys.
pub struct KeyShare {
    private: EphemeralPrivateKey,
    text: String,
}

impl KeyShare {
    /// A new random key share.
    ///
    /// # Errors
    /// If the system's random number generator fails.
    pub fn new() -> Result<KeyShare, String> {
        let failed = |_| "the system gives no randomness".to_owned();
        let private =
            EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(failed)?;
        let public = private.compute_public_key().map_err(failed)?;
        Ok(KeyShare { private, text: hex(public.as_ref()) })
    }

    /// The public part, for the other side, in hexadecimal.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The keys of both directions of one connection.
pub struct Session {
    /// Encrypts the bytes that this side sends.
    pub sealer: Sealer,
    /// Decrypts the bytes that the other side sends.
    pub opener: Opener,
}

impl Session {
    /// Derives the session's keys from the own key share `own` and the other side's `theirs`, in
    /// hexadecimal. Returns `None` if `theirs` is not a valid key share.
    #[must_use]
    pub fn agree(
        own: KeyShare,
        theirs: &str,
        side: Side,
        parties: KeyDerivationInputs<'_>,
    ) -> Option<Session> {
        let shares = match side {
            Side::Initiator => [own.text.as_str(), theirs],
            Side::Responder => [theirs, own.text.as_str()],
        };
        let said = [PROTOCOL, parties.from, parties.to, shares[0], shares[1]].join("\n");
        let public = UnparsedPublicKey::new(&X25519, unhex(theirs)?);
        let key = hmac::Key::new(hmac::HMAC_SHA256, parties.secret.unwrap_or_default());
        let agreed = agree_ephemeral(own.private, &public, |common| {
            let mut extract = hmac::Context::with_key(&key);
            extract.update(common);
            extract.update(said.as_bytes());
            hmac::Key::new(hmac::HMAC_SHA256, extract.sign().as_ref())
        });
        let agreed = agreed.ok()?;
        let of_caller = direction(&agreed, b"caller\x01");
        let of_owner = direction(&agreed, b"owner\x01");
        let (sealed_by, opened_by) = match side {
            Side::Initiator => (of_caller, of_owner),
            Side::Responder => (of_owner, of_caller),
        };
        let opener = Opener { key: opened_by, count: 0, sealed: Vec::new(), opened: Vec::new() };
        Some(Session { sealer: Sealer { key: sealed_by, count: 0 }, opener })
    }
}

/// The key of one direction. `name` is that of its sender (docs/format.md).
fn direction(agreed: &hmac::Key, name: &[u8]) -> LessSafeKey {
    let bytes = hmac::sign(agreed, name);
    let key = UnboundKey::new(&AES_128_GCM, &bytes.as_ref()[..KEY_BYTES]);
    LessSafeKey::new(key.expect("the key has the length of the cipher's keys"))
}

/// The nonce of the next record: its number, so that no two records of a key have the same nonce.
fn next_nonce(count: &mut u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&count.to_le_bytes());
    *count += 1;
    Nonce::assume_unique_for_key(bytes)
}

/// Encrypts the bytes that one side sends.
pub struct Sealer {
    key: LessSafeKey,
    /// Number of records so far.
    count: u64,
}

impl Sealer {
    /// Appends `bytes` to `out` as encrypted records. Without any bytes, it appends an empty
    /// record.
    pub fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        loop {
            let (record, behind) = rest.split_at(rest.len().min(RECORD_BYTES_MAX));
            let length = (record.len() + TAG_BYTES) as u32;
            out.extend_from_slice(&length.to_le_bytes());
            let begin = out.len();
            out.extend_from_slice(record);
            let nonce = next_nonce(&mut self.count);
            let tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut out[begin..]);
            let tag = tag.expect("a record is far below what the cipher seals");
            out.extend_from_slice(tag.as_ref());
            rest = behind;
            if rest.is_empty() {
                return;
            }
        }
    }
}

/// Decrypts the bytes that the other side sends.
pub struct Opener {
    key: LessSafeKey,
    /// Number of records so far.
    count: u64,
    /// The beginning of a record whose end has not arrived.
    sealed: Vec<u8>,
    /// Plain text that is not yet a complete frame.
    opened: Vec<u8>,
}

impl Opener {
    /// Decrypts the records that `bytes` complete. An incomplete record is kept for the next call.
    /// After each record, calls `take` with all plain text not yet consumed; `take` returns how
    /// many bytes it has consumed.
    ///
    /// # Errors
    /// If a record is too long or does not decrypt, or the error of `take`. The connection cannot
    /// be used any more.
    pub fn open(
        &mut self,
        bytes: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<usize, String>,
    ) -> Result<(), String> {
        if self.sealed.is_empty() {
            let used = self.open_whole(bytes, take)?;
            self.sealed.extend_from_slice(&bytes[used..]);
        } else {
            let mut sealed = std::mem::take(&mut self.sealed);
            sealed.extend_from_slice(bytes);
            let used = self.open_whole(&mut sealed, take)?;
            sealed.drain(..used);
            self.sealed = sealed;
        }
        Ok(())
    }

    /// Decrypts the complete records in `bytes`. Returns their length in bytes.
    fn open_whole(
        &mut self,
        bytes: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<usize, String>,
    ) -> Result<usize, String> {
        let mut used = 0;
        while let Some((length, rest)) = bytes[used..].split_first_chunk_mut::<LENGTH_BYTES>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > RECORD_BYTES_MAX + TAG_BYTES {
                let max = RECORD_BYTES_MAX + TAG_BYTES;
                return Err(format!("a record of {length} bytes; at most {max} are accepted"));
            }
            let Some(record) = rest.get_mut(..length) else { break };
            let nonce = next_nonce(&mut self.count);
            let opened = self.key.open_in_place(nonce, Aad::empty(), record);
            let opened = opened.map_err(|_| "a record that it has not sealed".to_owned())?;
            if self.opened.is_empty() {
                let taken = take(opened)?;
                self.opened.extend_from_slice(&opened[taken..]);
            } else {
                self.opened.extend_from_slice(opened);
                self.take_kept(take)?;
            }
            used += LENGTH_BYTES + length;
        }
        Ok(used)
    }

    /// Calls `take` with the plain text not yet consumed, if there is any, as [`Opener::open`]
    /// does.
    ///
    /// # Errors
    /// The error of `take`.
    pub fn take_kept(
        &mut self,
        take: &mut dyn FnMut(&[u8]) -> Result<usize, String>,
    ) -> Result<(), String> {
        if !self.opened.is_empty() {
            let taken = take(&self.opened)?;
            self.opened.drain(..taken);
            if self.opened.is_empty() && self.opened.capacity() > OPENED_KEPT_BYTES {
                self.opened = Vec::new();
            }
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<[u8; SHARE_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * SHARE_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; SHARE_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const PARTIES: KeyDerivationInputs<'static> = KeyDerivationInputs {
        from: "http://a:1",
        to: "http://b:2",
        secret: Some(b"the cluster's secret"),
    };

    /// The sessions of both ends of a connection: of the caller first.
    pub(crate) fn sessions() -> (Session, Session) {
        sessions_of(PARTIES)
    }

    /// The sessions of both ends, that of the owner with these inputs.
    fn sessions_of(of_owner: KeyDerivationInputs<'_>) -> (Session, Session) {
        let (one, two) = (KeyShare::new().unwrap(), KeyShare::new().unwrap());
        let (first, second) = (one.text().to_owned(), two.text().to_owned());
        let caller = Session::agree(one, &second, Side::Initiator, PARTIES).unwrap();
        (caller, Session::agree(two, &first, Side::Responder, of_owner).unwrap())
    }

    /// Decrypts `bytes`, which arrive in pieces of this length; all plain text is consumed at once.
    fn opened(opener: &mut Opener, bytes: &[u8], piece: usize) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        for piece in bytes.chunks(piece) {
            opener.open(&mut piece.to_vec(), &mut |bytes| {
                all.extend_from_slice(bytes);
                Ok(bytes.len())
            })?;
        }
        Ok(all)
    }

    #[test]
    fn sealed_bytes_open_in_pieces_of_any_length() {
        let long: Vec<u8> = (0..3 * RECORD_BYTES_MAX + 7).map(|at| at as u8).collect();
        for piece in [1, 5, 1_000, usize::MAX] {
            let (mut caller, mut owner) = sessions();
            let mut bytes = Vec::new();
            caller.sealer.seal(b"ask", &mut bytes);
            caller.sealer.seal(b"", &mut bytes);
            caller.sealer.seal(&long, &mut bytes);
            assert!(!bytes.windows(16).any(|window| *window == long[..16]), "it can be read");
            let expected = [b"ask".as_slice(), &long].concat();
            assert!(opened(&mut owner.opener, &bytes, piece).unwrap() == expected, "{piece}");
            let mut answer = Vec::new();
            owner.sealer.seal(b"answer", &mut answer);
            assert_eq!(opened(&mut caller.opener, &answer, piece).unwrap(), b"answer");
        }
    }

    #[test]
    fn plain_text_that_was_not_consumed_is_given_again_with_the_next() {
        let (mut caller, mut owner) = sessions();
        let mut bytes = Vec::new();
        caller.sealer.seal(b"abc", &mut bytes);
        caller.sealer.seal(b"de", &mut bytes);
        let mut seen = Vec::new();
        let take = &mut |bytes: &[u8]| {
            seen.push(bytes.to_vec());
            Ok(bytes.len().min(2))
        };
        owner.opener.open(&mut bytes, take).unwrap();
        assert_eq!(seen, [b"abc".to_vec(), b"cde".to_vec()]);
    }

    /// Regression: the memory of the largest frame so far was kept as long as the connection.
    #[test]
    fn the_memory_of_a_large_frame_is_freed() {
        let (mut caller, mut owner) = sessions();
        let mut bytes = Vec::new();
        caller.sealer.seal(&[1; 2 << 20], &mut bytes);
        let mut seen = 0;
        let take = &mut |bytes: &[u8]| {
            seen = bytes.len();
            Ok(if seen == 2 << 20 { seen } else { 0 })
        };
        owner.opener.open(&mut bytes, take).unwrap();
        assert_eq!((seen, owner.opener.opened.len()), (2 << 20, 0));
        assert!(owner.opener.opened.capacity() <= OPENED_KEPT_BYTES);
    }

    #[test]
    fn sides_that_differ_in_secret_or_names_have_different_keys() {
        for other in [
            KeyDerivationInputs { secret: Some(b"another"), ..PARTIES },
            KeyDerivationInputs { secret: None, ..PARTIES },
            KeyDerivationInputs { from: "http://c:1", ..PARTIES },
            KeyDerivationInputs { to: "http://c:1", ..PARTIES },
        ] {
            let (mut caller, mut owner) = sessions_of(other);
            let mut bytes = Vec::new();
            caller.sealer.seal(b"ask", &mut bytes);
            let error = opened(&mut owner.opener, &bytes, usize::MAX).unwrap_err();
            assert!(error.contains("not sealed"), "{error}");
        }
    }

    #[test]
    fn records_that_are_changed_left_out_or_repeated_end_the_session() {
        let sealed = |count: usize| {
            let (mut caller, owner) = sessions();
            let mut records = vec![Vec::new(); count];
            records.iter_mut().for_each(|record| caller.sealer.seal(b"ask", record));
            (records, owner.opener, caller.opener)
        };
        let (records, _, _) = sealed(1);
        for bit in 8 * LENGTH_BYTES..8 * records[0].len() {
            let (mut records, mut opener, _) = sealed(1);
            records[0][bit / 8] ^= 1 << (bit % 8);
            assert!(opened(&mut opener, &records[0], usize::MAX).is_err(), "bit {bit}");
        }
        for order in [&[0, 0][..], &[1], &[0, 2], &[1, 0]] {
            let (records, mut opener, _) = sealed(3);
            let bytes: Vec<u8> = order.iter().flat_map(|at| records[*at].clone()).collect();
            assert!(opened(&mut opener, &bytes, usize::MAX).is_err(), "{order:?}");
        }
        // A side does not accept its own records either.
        let (records, _, mut own) = sealed(1);
        assert!(opened(&mut own, &records[0], usize::MAX).is_err());
    }

    #[test]
    fn invalid_key_shares_and_records_are_refused() {
        for theirs in ["", "00", &"g".repeat(64), &"+1".repeat(32), &"0".repeat(64)] {
            let own = KeyShare::new().unwrap();
            assert!(Session::agree(own, theirs, Side::Responder, PARTIES).is_none(), "{theirs}");
        }
        let (_, mut owner) = sessions();
        let error = opened(&mut owner.opener, &[0xff; 64], usize::MAX).unwrap_err();
        assert!(error.contains("bytes; at most"), "{error}");
        let (_, mut owner) = sessions();
        assert!(opened(&mut owner.opener, &[0; 64], usize::MAX).is_err(), "too short for a tag");
    }
}
