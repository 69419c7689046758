//! Prints settings: those in force, or a commented example of a configuration file.

use std::fmt::Write;

use clap::Args;
use toml::{Table, Value};

use crate::settings::Settings;
use crate::settings::sources::EffectiveSettings;

/// Settings whose values are secret and not shown. Other secrets are in files, whose names are
/// shown.
const SECRETS: &[&str] = &["otlp-header"];
/// The column of the comments that name the source of a value.
const COMMENT_COLUMN: usize = 44;

/// Formats the settings in force as a valid configuration file, each with its origin.
pub(crate) fn effective(effective: &EffectiveSettings) -> String {
    let mut text = String::new();
    for name in names() {
        let line = match effective.values.get(&name) {
            Some(_) if SECRETS.contains(&name.as_str()) => format!("# {name} is set, and hidden"),
            Some(value) => format!("{name} = {value}"),
            None => format!("# {name} is not set"),
        };
        match effective.origins.get(&name) {
            Some(origin) => {
                let _ = writeln!(text, "{line:<COMMENT_COLUMN$}  # {origin}");
            }
            None => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

/// Formats an example file with every setting, its help and its default, all commented out.
pub(crate) fn example() -> String {
    let mut text = "# Settings of `pellucid serve --config FILE.toml`. Each is also a flag and a \
                    variable of the\n# environment: value-max, --value-max, PELLUCID_VALUE_MAX. \
                    Flags go before the environment,\n# the environment before this file. What is \
                    commented out here is the default, or an example.\n"
        .to_owned();
    let defaults = Table::try_from(Settings::defaults()).unwrap_or_default();
    for argument in Settings::augment_args(clap::Command::new("settings")).get_arguments() {
        let name = argument.get_long().unwrap_or_default();
        // A setting that this build does not support has no value to show.
        let Some(value) = defaults.get(name).cloned().or_else(|| instance(name)) else { continue };
        let help = argument.get_long_help().or(argument.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        text.push('\n');
        for line in wrap(&help) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "#{name} = {value}");
    }
    text
}

/// An example value of a setting without a default.
fn instance(name: &str) -> Option<Value> {
    Some(Value::from(match name {
        "data" => "/var/lib/pellucid",
        "tls-cert" => "/etc/pellucid/certificate.pem",
        "tls-key" => "/etc/pellucid/key.pem",
        "allowed-hosts" => "db.example.com",
        "allowed-origins" => "https://console.example.com",
        "cluster" => "http://10.0.0.1:8080,http://10.0.0.2:8080,http://10.0.0.3:8080",
        "advertise" => "http://10.0.0.1:8080",
        "cluster-secret-file" => "/etc/pellucid/cluster-secret",
        "jwt-secret-file" => "/etc/pellucid/jwt-secret",
        "bodies-max" => "1216M",
        "request-memory" => "8G",
        "connections-per-address-max" => return Some(Value::Integer(4_096)),
        "connections-of-loopback-max" => return Some(Value::Integer(16_384)),
        "cql" => "10.0.0.1:9042,10.0.0.2:9042",
        "cql-user" => "pellucid",
        "cql-password-file" => "/etc/pellucid/ring-password",
        "cql-tls-ca" => "/etc/pellucid/ring-authority.pem",
        "cql-tls-name" => "ring.example",
        "cql-replication" => return Some(Value::Integer(3)),
        "engine-log" => "30s",
        "otlp" => "http://127.0.0.1:4318",
        "otlp-header" => "x-key: secret",
        "threads" => return Some(Value::Integer(4)),
        _ => return None,
    }))
}

fn names() -> Vec<String> {
    let command = Settings::augment_args(clap::Command::new("settings"));
    let names = command.get_arguments().filter_map(|argument| argument.get_long());
    names.map(str::to_owned).collect()
}

/// Breaks a text into lines of at most 94 bytes.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always one line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= 94 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(all(test, feature = "cql"))]
mod tests {
    use super::*;
    use crate::settings::sources::parse;

    /// `pellucid serve --print-config=example` generates the file in the documentation.
    #[test]
    fn the_documented_example_is_up_to_date() {
        let documented = include_str!("../../../../docs/pellucid.example.toml");
        assert!(documented == example(), "print it again: it is not what settings are now");
    }

    #[test]
    fn every_line_of_the_example_is_a_valid_setting() {
        let is_setting = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
        let example = example();
        let lines: Vec<&str> = example.lines().filter(is_setting).map(|line| &line[1..]).collect();
        assert_eq!(lines.len(), names().len());
        let settings = parse(&lines.join("\n")).unwrap();
        let table = Table::try_from(&settings).unwrap();
        assert_eq!(table.len(), lines.len(), "each is set");
        for (name, value) in Table::try_from(Settings::defaults()).unwrap() {
            assert_eq!(table.get(&name), Some(&value));
        }
    }
}
