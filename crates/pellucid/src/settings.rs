//! The settings of `pellucid serve`: flags, else environment, else a file, else defaults.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pellucid_server::{Accounting, Acknowledgement, HandOver, ServerOptions, TlsFiles};
use serde::Deserialize;

use crate::Failure;

/// Run the server.
///
/// Example: pellucid serve --data ./data --listen 127.0.0.1:8080 --sync disk
#[derive(Args, Default)]
pub(crate) struct ServeArguments {
    /// A TOML file with any of these settings, named as the flags are.
    #[arg(long, env = "PELLUCID_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

/// Every setting may be absent, so that the next source is asked.
#[derive(Args, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    /// The folder of the store; it is made if there is none.
    #[arg(long, env = "PELLUCID_DATA")]
    data: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:8080]; port 0 takes any that is free.
    #[arg(long, env = "PELLUCID_LISTEN")]
    listen: Option<SocketAddr>,
    /// Chain of certificates in PEM, the server's own first; with --tls-key it turns on TLS.
    /// Files that change are read again, at SIGHUP at once.
    #[arg(long, env = "PELLUCID_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// Private key of the server's certificate, in PEM.
    #[arg(long, env = "PELLUCID_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// The store below [default: embedded].
    #[arg(long, env = "PELLUCID_ENGINE")]
    engine: Option<EngineKind>,
    /// What the acknowledgement of a write survives [default: os]: nothing, the process, or the
    /// machine.
    #[arg(long, env = "PELLUCID_SYNC")]
    sync: Option<Sync>,
    /// Event loops [default: one per core].
    #[arg(long, env = "PELLUCID_THREADS")]
    threads: Option<usize>,
    /// Which requests leave their event loop for another thread [default: auto, those that would
    /// wait for the disk].
    #[arg(long, env = "PELLUCID_HAND_OVER")]
    hand_over: Option<HandOverKind>,
    /// How much is accounted for [default: full].
    #[arg(long, env = "PELLUCID_ACCOUNTING")]
    accounting: Option<AccountingKind>,
    /// Memory for what is written and not yet in tables [default: 128M].
    #[arg(long, env = "PELLUCID_MEMORY")]
    memory: Option<Size>,
    /// Largest value [default: 64M].
    #[arg(long, env = "PELLUCID_VALUE_MAX")]
    value_max: Option<Size>,
    /// Largest batch [default: 64M].
    #[arg(long, env = "PELLUCID_BATCH_MAX")]
    batch_max: Option<Size>,
    /// Largest head of a request: request line and headers [default: 16K].
    #[arg(long, env = "PELLUCID_HEAD_MAX")]
    head_max: Option<Size>,
    /// Most connections at a time [default: 16384].
    #[arg(long, env = "PELLUCID_CONNECTIONS_MAX")]
    connections_max: Option<usize>,
    /// Most requests that wait for the store or are streamed at a time [default: 4096].
    #[arg(long, env = "PELLUCID_REQUESTS_IN_FLIGHT_MAX")]
    requests_in_flight_max: Option<usize>,
    /// Most bytes of request bodies at a time, over all connections [default: 192M, or the largest
    /// request if that is more].
    #[arg(long, env = "PELLUCID_BODIES_MAX")]
    bodies_max: Option<Size>,
    /// How long a connection may be open with nothing to do [default: 300s].
    #[arg(long, env = "PELLUCID_IDLE_TIMEOUT")]
    idle_timeout: Option<Span>,
    /// How long a client may take to send a request or to take in a response [default: 30s].
    #[arg(long, env = "PELLUCID_EXCHANGE_TIMEOUT")]
    exchange_timeout: Option<Span>,
    /// How often the engine's figures go to standard error, as lines of JSON [default: 0s, never].
    #[arg(long, env = "PELLUCID_ENGINE_LOG")]
    engine_log: Option<Span>,
    /// Show keys in /_admin/slow beside their hashes [default: false].
    #[arg(long, env = "PELLUCID_SHOW_KEYS", num_args = 0..=1, default_missing_value = "true")]
    show_keys: Option<bool>,
    /// How long a stop waits for requests in flight [default: 10s].
    #[arg(long, env = "PELLUCID_STOP_TIMEOUT")]
    stop_timeout: Option<Span>,
}

#[derive(Clone, Copy, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum EngineKind {
    Embedded,
}

#[derive(Clone, Copy, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Sync {
    Memory,
    Os,
    Disk,
}

#[derive(Clone, Copy, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum HandOverKind {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccountingKind {
    Off,
    Ring,
    Full,
}

impl fmt::Display for AccountingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccountingKind::Off => "off",
            AccountingKind::Ring => "ring",
            AccountingKind::Full => "full",
        })
    }
}

/// Bytes, as `64M` or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Text")]
pub(crate) struct Size(pub(crate) u64);

/// A length of time, as `30s` or a plain number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Text")]
struct Span(Duration);

/// A value that a file may have as a number or as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Number(u64),
    Text(String),
}

impl Text {
    fn parse<T: FromStr<Err = String>>(self) -> Result<T, String> {
        match self {
            Text::Number(number) => number.to_string().parse(),
            Text::Text(text) => text.parse(),
        }
    }
}

impl TryFrom<Text> for Size {
    type Error = String;

    fn try_from(text: Text) -> Result<Size, String> {
        text.parse()
    }
}

impl TryFrom<Text> for Span {
    type Error = String;

    fn try_from(text: Text) -> Result<Span, String> {
        text.parse()
    }
}

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

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let parsed = pellucid_load::parse_duration(text);
        parsed.map(Span).map_err(|_| format!("`{text}` is no length of time: write it as 30s"))
    }
}

impl Settings {
    /// Takes from `other` what is absent here.
    fn or(self, other: Settings) -> Settings {
        Settings {
            data: self.data.or(other.data),
            listen: self.listen.or(other.listen),
            tls_cert: self.tls_cert.or(other.tls_cert),
            tls_key: self.tls_key.or(other.tls_key),
            engine: self.engine.or(other.engine),
            sync: self.sync.or(other.sync),
            threads: self.threads.or(other.threads),
            hand_over: self.hand_over.or(other.hand_over),
            accounting: self.accounting.or(other.accounting),
            memory: self.memory.or(other.memory),
            value_max: self.value_max.or(other.value_max),
            batch_max: self.batch_max.or(other.batch_max),
            head_max: self.head_max.or(other.head_max),
            connections_max: self.connections_max.or(other.connections_max),
            requests_in_flight_max: self.requests_in_flight_max.or(other.requests_in_flight_max),
            bodies_max: self.bodies_max.or(other.bodies_max),
            idle_timeout: self.idle_timeout.or(other.idle_timeout),
            exchange_timeout: self.exchange_timeout.or(other.exchange_timeout),
            engine_log: self.engine_log.or(other.engine_log),
            show_keys: self.show_keys.or(other.show_keys),
            stop_timeout: self.stop_timeout.or(other.stop_timeout),
        }
    }

    fn options(self) -> Result<ServerOptions, Failure> {
        let data = self.data.ok_or_else(|| {
            Failure::usage("say where the store is: --data DIR (see pellucid serve --help)")
        })?;
        match self.engine.unwrap_or(EngineKind::Embedded) {
            EngineKind::Embedded => {}
        }
        let mut options = ServerOptions::new(data);
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        options.listen = self.listen.unwrap_or(options.listen);
        options.tls = match (self.tls_cert, self.tls_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            _ => return Err(Failure::usage("--tls-cert and --tls-key are given both or neither")),
        };
        options.threads = self.threads.unwrap_or(options.threads);
        if options.threads == 0 {
            return Err(Failure::usage("--threads is at least 1"));
        }
        options.acknowledgement = match self.sync {
            Some(Sync::Memory) => Acknowledgement::Memory,
            Some(Sync::Os) | None => Acknowledgement::Os,
            Some(Sync::Disk) => Acknowledgement::Disk,
        };
        options.accounting = match self.accounting {
            Some(AccountingKind::Off) => Accounting::Off,
            Some(AccountingKind::Ring) => Accounting::Ring,
            Some(AccountingKind::Full) | None => Accounting::Full,
        };
        options.engine_log = self.engine_log.map_or(options.engine_log, |span| span.0);
        options.show_keys = self.show_keys.unwrap_or(options.show_keys);
        let embedded = &mut options.embedded;
        embedded.hand_over = match self.hand_over {
            Some(HandOverKind::Auto) | None => HandOver::Auto,
            Some(HandOverKind::Always) => HandOver::Always,
            Some(HandOverKind::Never) => HandOver::Never,
        };
        embedded.memory_bytes = self.memory.map_or(embedded.memory_bytes, |size| size.0);
        embedded.value_bytes_max = self.value_max.map_or(embedded.value_bytes_max, bytes);
        options.batch_bytes_max = self.batch_max.map_or(options.batch_bytes_max, bytes);
        let limits = &mut options.limits;
        limits.head_bytes = self.head_max.map_or(limits.head_bytes, bytes);
        limits.connections = self.connections_max.unwrap_or(limits.connections);
        limits.requests_in_flight =
            self.requests_in_flight_max.unwrap_or(limits.requests_in_flight);
        let largest_body = options.batch_bytes_max.max(options.embedded.value_bytes_max);
        let largest = largest_body.saturating_add(limits.head_bytes);
        limits.body_bytes_in_flight =
            self.bodies_max.map_or(limits.body_bytes_in_flight.max(largest), bytes);
        if limits.body_bytes_in_flight < largest {
            return Err(Failure::usage(format!(
                "--bodies-max has to hold the largest request, {largest} bytes: raise it, or lower \
                 --value-max and --batch-max"
            )));
        }
        limits.idle = self.idle_timeout.map_or(limits.idle, |span| span.0);
        limits.exchange = self.exchange_timeout.map_or(limits.exchange, |span| span.0);
        limits.stop = self.stop_timeout.map_or(limits.stop, |span| span.0);
        Ok(options)
    }
}

impl ServeArguments {
    /// The options of the server that all sources together ask for.
    pub(crate) fn options(self) -> Result<ServerOptions, Failure> {
        let from_file = self.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
        self.settings.or(from_file).options()
    }
}

fn read_file(path: &Path) -> Result<Settings, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    toml::from_str(&text).map_err(|error| Failure::usage(format!("{name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_before_the_file_and_the_file_before_defaults() {
        let file: Settings =
            toml::from_str("data = 'a'\nthreads = 3\nmemory = '1G'\nidle-timeout = 5").unwrap();
        let flags = Settings { threads: Some(2), ..Settings::default() };
        let options = flags.or(file).options().ok().unwrap();
        assert_eq!((options.data, options.threads), (PathBuf::from("a"), 2));
        assert_eq!(options.embedded.memory_bytes, 1 << 30);
        assert_eq!(options.limits.idle, Duration::from_secs(5));
        assert_eq!(options.limits.exchange, Duration::from_secs(30));
    }

    #[test]
    fn a_file_with_an_unknown_name_or_a_bad_value_is_refused() {
        for text in ["dat = 'a'", "memory = 'lots'", "sync = 'never'", "listen = 'here'"] {
            assert!(toml::from_str::<Settings>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!("64M".parse(), Ok(Size(64 << 20)));
        assert_eq!("1kib".parse(), Ok(Size(1_024)));
        assert_eq!("7".parse(), Ok(Size(7)));
        for text in ["", "M", "-1", "1T", "99999999999999G"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
