//! The types of settings' values, for flags, the environment and files.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use pellucid_server::ListenAddress;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Defines an enum for a setting with a fixed set of words, and optionally its conversion to a type
/// of the server.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($word:ident),* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Serialize, Deserialize, ValueEnum)]
        #[serde(rename_all = "kebab-case")]
        pub(crate) enum $name { $($word),* }
    };
    ($(#[$about:meta])* $name:ident { $($word:ident),* } => $of:ty) => {
        words!($(#[$about])* $name { $($word),* });

        impl From<$name> for $of {
            fn from(word: $name) -> $of {
                match word { $($name::$word => Self::$word),* }
            }
        }
    };
}

words! {
    /// The kind of store below the server.
    EngineKind { Embedded, Rocksdb, Cql }
}
words! {
    /// The failure that an acknowledged write survives.
    Sync { Memory, Os, Disk } => pellucid_server::Acknowledgement
}
words! {
    /// The requests that leave their event loop.
    HandOverKind { Auto, Always, Never } => pellucid_server::HandOverPolicy
}
words! {
    /// The condition under which requests need credentials.
    AuthenticationKind { Auto, On, Off } => pellucid_server::access::Authentication
}
words! {
    /// Least level of what is logged.
    LogLevel { Error, Warn, Info, Debug }
}
words! {
    /// Form of the log.
    LogFormat { Text, Json }
}
words! {
    /// The detail of the account.
    AccountingKind { Off, Ring, Full } => pellucid_server::Accounting
}

/// Bytes, as `64M` or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// A length of time, as `30s` or a plain number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub(crate) Duration);

/// The mode of a socket's file, as `0660`. The owner must be able to read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketMode(pub(crate) u32);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            _ => return Err(format!("`{text}` is no size: write it as 64M")),
        };
        let number: u64 =
            digits.parse().map_err(|_| format!("`{text}` is no size: write it as 64M"))?;
        number.checked_mul(1 << shift).map(Size).ok_or_else(|| format!("`{text}` is too large"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "G"), (20, "M"), (10, "K")];
        let fits = |(shift, _): &(u32, &str)| self.0 > 0 && self.0.is_multiple_of(1 << shift);
        match units.into_iter().find(fits) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeSpan, String> {
        let parsed = pellucid_clock::parse_duration(text);
        parsed
            .map(TimeSpan)
            .ok_or_else(|| format!("`{text}` is no length of time: write it as 30s"))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Settings pass through this text, so it must not lose anything: whole microseconds are the
        // finest length that can be given.
        match self.0.subsec_nanos() {
            0 => write!(f, "{}s", self.0.as_secs()),
            nanos if nanos.is_multiple_of(1_000_000) => write!(f, "{}ms", self.0.as_millis()),
            _ => write!(f, "{}us", self.0.as_micros()),
        }
    }
}

impl FromStr for SocketMode {
    type Err = String;

    fn from_str(text: &str) -> Result<SocketMode, String> {
        let mode = u32::from_str_radix(text, 8).ok();
        let mode = mode.filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600);
        mode.map(SocketMode)
            .ok_or_else(|| format!("`{text}` is no mode of a socket: write it as 0600 or 0660"))
    }
}

impl fmt::Display for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

/// Reads the path of a folder. An empty one would stand for the current folder.
pub(crate) fn read_folder<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::deserialize(from)?;
    if path.as_os_str().is_empty() {
        return Err(serde::de::Error::custom("an empty path: name a folder"));
    }
    Ok(Some(path))
}

/// Addresses in a file: a string for one, or a list of strings.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an address as \"127.0.0.1:8080\" or a list of them")]
enum Addresses {
    One(String),
    Several(Vec<String>),
}

/// Reads the addresses to listen on.
pub(crate) fn read_addresses<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<ListenAddress>>, D::Error> {
    let texts = match Addresses::deserialize(from)? {
        Addresses::One(text) => vec![text],
        Addresses::Several(texts) => texts,
    };
    if texts.is_empty() {
        return Err(serde::de::Error::custom("an empty list: name an address"));
    }
    let addresses = texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom));
    addresses.collect::<Result<_, _>>().map(Some)
}

/// Writes the addresses to listen on, if there are any.
pub(crate) fn write_addresses<S: Serializer>(
    addresses: &Option<Vec<ListenAddress>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match addresses.as_deref() {
        None => to.serialize_none(),
        Some([address]) => to.collect_str(address),
        Some(addresses) => to.collect_seq(addresses.iter().map(ToString::to_string)),
    }
}

/// A visitor for values that a file may contain as a number or as a string.
struct NumberOrText<T>(&'static str, PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for NumberOrText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        from.deserialize_any(NumberOrText("a size as \"64M\" or a number of bytes", PhantomData))
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TimeSpan, D::Error> {
        let expected = "a length of time as \"30s\" or a number of seconds";
        from.deserialize_any(NumberOrText(expected, PhantomData))
    }
}

impl<'de> Deserialize<'de> for SocketMode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SocketMode, D::Error> {
        // Only a string: the base of a number would be unclear.
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for SocketMode {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        assert_eq!("64M".parse(), Ok(Size(64 << 20)));
        assert_eq!("1kib".parse(), Ok(Size(1_024)));
        assert_eq!("7".parse(), Ok(Size(7)));
        for text in ["", "M", "-1", "1T", "99999999999999G"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn values_round_trip() {
        for size in [0, 1, 1_023, 1_024, 1_536, 64 << 20, 3 << 30] {
            assert_eq!(Size(size).to_string().parse(), Ok(Size(size)));
        }
        for span_us in [0, 1, 500, 1_500, 1_000_001, 1_000, 500_000, 1_000_000, 90_000_000] {
            let span = TimeSpan(Duration::from_micros(span_us));
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        assert_eq!(Size(64 << 20).to_string(), "64M");
        for mode in [0o600, 0o660, 0o666, 0o777] {
            assert_eq!(SocketMode(mode).to_string().parse(), Ok(SocketMode(mode)));
        }
        assert_eq!(SocketMode(0o660).to_string(), "0660");
    }

    #[test]
    fn invalid_modes_are_refused() {
        assert_eq!("660".parse(), Ok(SocketMode(0o660)));
        for text in ["", "0o660", "rw", "888", "0066", "1777", "4600"] {
            assert!(text.parse::<SocketMode>().is_err(), "{text}");
        }
    }
}
