//! Merges the sources of settings: flags, the environment, a file, and defaults, in this order of
//! precedence.
//!
//! Each source is a table from names to values. The tables are merged, so a new setting needs no
//! code here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;
use toml::Table;

use crate::Failure;
use crate::remote_server::read_small;
use crate::settings::Settings;

/// The largest configuration file, in bytes.
const FILE_LENGTH_MAX: u64 = 1 << 20;

/// The source of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment,
    File(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Environment => f.write_str("environment"),
            Origin::File(path) => path.display().fmt(f),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// All settings that have a value, and the origin of each.
pub(crate) struct EffectiveSettings {
    pub(crate) values: Table,
    pub(crate) origins: BTreeMap<String, Origin>,
}

impl EffectiveSettings {
    /// Merges all sources. `given` has the settings from flags and the environment; `matches` tells
    /// which of the two each comes from.
    pub(crate) fn gather(
        given: &Settings,
        config: Option<&Path>,
        matches: &ArgMatches,
    ) -> Result<EffectiveSettings, Failure> {
        let mut effective = EffectiveSettings { values: Table::new(), origins: BTreeMap::new() };
        let defaults = Settings { data: default_folder(), ..Settings::defaults() };
        effective.lay(&defaults, |_| Origin::Default)?;
        if let Some(path) = config {
            effective.lay(&read_file(path)?, |_| Origin::File(path.to_owned()))?;
        }
        effective.lay(given, |name| {
            // clap names arguments with `_` in place of `-`.
            match matches.value_source(&name.replace('-', "_")) {
                Some(ValueSource::EnvVariable) => Origin::Environment,
                _ => Origin::Flag,
            }
        })?;
        Ok(effective)
    }

    fn lay(&mut self, settings: &Settings, origin: impl Fn(&str) -> Origin) -> Result<(), Failure> {
        // This fails for a path that is not UTF-8, which TOML cannot represent.
        let table = Table::try_from(settings).map_err(Failure::usage)?;
        for (name, value) in table {
            self.origins.insert(name.clone(), origin(&name));
            self.values.insert(name, value);
        }
        Ok(())
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        self.values.clone().try_into().map_err(Failure::usage)
    }
}

/// The default folder of the store: `pellucid` in the user's data folder; `None` if there is no
/// such folder.
pub(crate) fn default_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    let home = || folder("HOME").filter(absolute).map(|home| home.join(".local/share"));
    Some(folder("XDG_DATA_HOME").filter(absolute).or_else(home)?.join("pellucid"))
}

/// Reads a configuration file.
pub(crate) fn read_file(path: &Path) -> Result<Settings, Failure> {
    let name = path.display();
    let unreadable = |error| Failure::usage(format!("cannot read {name}: {error}"));
    let bytes = read_small(path, FILE_LENGTH_MAX).map_err(unreadable)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("cannot read {name}: it is no UTF-8")))?;
    parse(&text).map_err(|(line, what)| Failure::usage(format!("{name}, line {line}: {what}")))
}

/// Parses settings. An error is the number of the wrong line and a message. The message does not
/// contain the line, because it may hold a secret.
pub(crate) fn parse(text: &str) -> Result<Settings, (usize, String)> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let key = text.lines().nth(line - 1).and_then(|line| line.split_once('='));
        let message = error.message().trim_end();
        let what = match key {
            Some((key, _)) if !message.contains(key.trim()) => {
                format!("`{}`: {message}", key.trim())
            }
            _ => message.to_owned(),
        };
        (line, what)
    })
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn problem(text: &str) -> (usize, String) {
        parse(text).err().unwrap()
    }

    #[test]
    fn an_unknown_name_is_an_error_with_its_line_and_the_known_names() {
        let (line, what) = problem("# comment\ndata = 'a'\nshine = true\n");
        assert_eq!(line, 3);
        for part in ["`shine`", "`data`", "`stop-timeout`"] {
            assert!(what.contains(part), "{what}");
        }
    }

    #[test]
    fn a_wrong_value_is_an_error_with_its_line_and_name() {
        for (text, parts) in [
            ("\nthreads = 'two'", ["`threads`", "two"]),
            ("\nmemory = 'lots'", ["`memory`", "64M"]),
            ("\nmemory = true", ["`memory`", "a size"]),
            ("\nidle-timeout = []", ["`idle-timeout`", "30s"]),
            ("\nsync = 'never'", ["never", "disk"]),
            ("\nlisten = 'here'", ["`listen`", "address"]),
            ("\nlisten = 80", ["`listen`", "127.0.0.1:8080"]),
            ("\nlisten = []", ["`listen`", "empty list"]),
            ("\ndata = ''", ["`data`", "empty path"]),
            ("\nlisten = ['127.0.0.1:1', 'unix:']", ["`listen`", "names no file"]),
            ("\nsocket-mode = '0066'", ["`socket-mode`", "0660"]),
            ("\nsocket-mode = 0o660", ["`socket-mode`", "string"]),
            ("\ninsecure-no-tls = 1", ["`insecure-no-tls`", "bool"]),
        ] {
            let (line, what) = problem(text);
            assert_eq!(line, 2, "{text}");
            assert!(parts.iter().all(|part| what.contains(part)), "{what}");
        }
        assert_eq!(problem("data = 'a'\ndata = 'b'").0, 2, "twice");
        assert_eq!(problem("data = 'a'\n\n= 3").0, 3, "no TOML");
    }

    #[test]
    fn a_wrong_value_is_not_shown() {
        let (_, what) = problem("otlp-header = 7 # hunter2");
        assert!(!what.contains("hunter2"), "{what}");
    }

    #[test]
    fn addresses_are_a_string_or_a_list_in_files_and_flags() {
        let listen = |text: &str| {
            let settings = parse(text).unwrap();
            let printed = Table::try_from(&settings).unwrap()["listen"].to_string();
            let listen = settings.listen.unwrap();
            (listen.iter().map(ToString::to_string).collect::<Vec<_>>(), printed)
        };
        let one = (vec!["127.0.0.1:1".to_owned()], "\"127.0.0.1:1\"".to_owned());
        assert_eq!(listen("listen = '127.0.0.1:1'"), one);
        assert_eq!(listen("listen = ['127.0.0.1:1']"), one);
        let (both, printed) = listen("listen = ['127.0.0.1:1', 'unix:/a b, c.sock']");
        assert_eq!(both, ["127.0.0.1:1", "unix:/a b, c.sock"]);
        assert_eq!(listen(&format!("listen = {printed}")).0, both, "{printed}");
        let apart = ["--listen", "127.0.0.1:1", "--listen", "unix:x"];
        for flags in [&["--listen", "127.0.0.1:1,unix:x"][..], &apart] {
            let command = Settings::augment_args(clap::Command::new("serve"));
            let matches = command.try_get_matches_from([&["serve"], flags].concat()).unwrap();
            let given = Settings::from_arg_matches(&matches).unwrap().listen.unwrap();
            assert_eq!(given.len(), 2, "{flags:?}");
        }
    }

    /// Regression: fractions of a millisecond were cut off, so `--slow-request 500us` was off.
    #[test]
    fn fractions_of_a_millisecond_stay_in_force() {
        let command = Settings::augment_args(clap::Command::new("serve"));
        let line = ["serve", "--data", "x", "--slow-request", "500us", "--idle-timeout", "1500us"];
        let matches = command.try_get_matches_from(line).unwrap();
        let given = Settings::from_arg_matches(&matches).unwrap();
        let effective = EffectiveSettings::gather(&given, None, &matches).ok().unwrap();
        let options = effective.settings().ok().unwrap().options().ok().unwrap();
        let us = std::time::Duration::from_micros;
        assert_eq!((options.slow_request, options.limits.idle), (us(500), us(1_500)));
    }

    #[test]
    fn each_source_takes_precedence_over_the_next() {
        let command = Settings::augment_args(clap::Command::new("serve"));
        let line = ["serve", "--data", "by-flag", "--threads", "2"];
        let matches = command.try_get_matches_from(line).unwrap();
        let given =
            Settings { data: Some("by-flag".into()), threads: Some(2), ..Settings::default() };
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("settings.toml");
        std::fs::write(&file, "threads = 3\nmemory = '1G'\nidle-timeout = 5").unwrap();
        let effective = EffectiveSettings::gather(&given, Some(&file), &matches).ok().unwrap();
        let value = |name: &str| effective.values[name].to_string();
        assert_eq!(value("threads"), "2");
        assert_eq!((value("memory"), value("idle-timeout")), ("\"1G\"".into(), "\"5s\"".into()));
        assert_eq!(value("exchange-timeout"), "\"30s\"");
        let origin = |name: &str| effective.origins[name].clone();
        assert_eq!((origin("threads"), origin("data")), (Origin::Flag, Origin::Flag));
        assert_eq!(origin("memory"), Origin::File(file));
        assert_eq!(origin("exchange-timeout"), Origin::Default);
        let options = effective.settings().ok().unwrap().options().ok().unwrap();
        assert_eq!((options.threads, options.embedded.memory_bytes), (2, 1 << 30));
        assert_eq!(options.limits.idle, std::time::Duration::from_secs(5));
    }
}
