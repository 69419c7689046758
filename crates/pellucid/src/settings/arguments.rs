//! The flags of `pellucid serve`, and the task that results from them and the other sources of
//! settings.

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueEnum};
use pellucid_server::ServerOptions;

use crate::Failure;
use crate::remote_server::{TOKEN_FILE_VARIABLE, TOKEN_VARIABLE};
use crate::settings::logging::LogSettings;
use crate::settings::sources::{EffectiveSettings, Origin};
use crate::settings::{Settings, print};

/// Run the server.
///
/// Example: pellucid serve --data ./data --listen 127.0.0.1:8080 --sync disk
///
/// Example: pellucid serve --data ./data --listen unix:./pellucid.sock
#[derive(Args, Default)]
pub(crate) struct ServeArguments {
    /// A TOML file with any of these settings, named as the flags are.
    #[arg(long, env = "PELLUCID_CONFIG")]
    config: Option<PathBuf>,
    /// Print the settings in force, each with its source, or a commented example of a file, and
    /// end.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "effective")]
    print_config: Option<PrintedConfig>,
    /// Stop when standard input ends, as it does with the process that has started this one.
    #[arg(long, hide = true)]
    pub(crate) end_with_input: bool,
    #[command(flatten)]
    settings: Settings,
}

/// The configuration that `--print-config` prints.
#[derive(Clone, Copy, ValueEnum)]
enum PrintedConfig {
    Effective,
    Example,
}

/// The task of `pellucid serve`.
pub(crate) enum Task {
    /// Print this text and end.
    Print(String),
    /// Serve.
    Serve(Box<ServerOptions>, LogSettings),
}

impl ServeArguments {
    /// The task that results from all sources. `matches` are those of the command `serve`.
    pub(crate) fn task(&self, matches: &ArgMatches) -> Result<Task, Failure> {
        if let Some(PrintedConfig::Example) = self.print_config {
            return Ok(Task::Print(print::example()));
        }
        let config = self.config.as_deref();
        let effective = EffectiveSettings::gather(&self.settings, config, matches)?;
        if self.print_config.is_some() {
            return Ok(Task::Print(print::effective(&effective)));
        }
        let settings = effective.settings()?;
        let mut logging = LogSettings::of(&settings);
        logging.remarks = unknown_variables();
        if let (Some(Origin::Default), Some(data)) = (effective.origins.get("data"), &settings.data)
        {
            let data = data.display();
            logging.notes.push(format!("the store is in {data}; --data names another folder"));
        }
        Ok(Task::Serve(Box::new(settings.options()?), logging))
    }
}

/// Warnings about environment variables that begin with `PELLUCID_` but are no settings: they are
/// probably misspelt.
fn unknown_variables() -> Vec<String> {
    let command = ServeArguments::augment_args(clap::Command::new("serve"));
    let known: Vec<_> = command.get_arguments().filter_map(|argument| argument.get_env()).collect();
    let names = std::env::vars_os().map(|(name, _)| name);
    let unknown = names.filter(|name| !known.contains(&name.as_os_str()));
    let unknown = unknown.filter_map(|name| name.into_string().ok());
    let is_of_clients = |name: &String| [TOKEN_VARIABLE, TOKEN_FILE_VARIABLE].contains(&&**name);
    let unknown = unknown.filter(|name| name.starts_with("PELLUCID_") && !is_of_clients(name));
    unknown.map(|name| format!("{name} in the environment is no setting")).collect()
}
