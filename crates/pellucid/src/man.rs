//! `pellucid man`: writes manual pages, generated from the help texts of the command line.

use std::path::PathBuf;

use clap::{Arg, Args, Command};

use crate::Failure;

/// Write a manual page of each command into a folder.
///
/// Example: pellucid man /usr/local/share/man/man1
#[derive(Args)]
pub(crate) struct ManArguments {
    /// The folder; it is made if there is none.
    folder: PathBuf,
}

/// Writes a page for each command of the command line `line`.
pub(crate) fn run(arguments: &ManArguments, mut line: Command) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let failed = |error| Failure::work(format!("cannot write to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    line.build();
    let mut pages = Vec::new();
    add_pages("pellucid", &line, &mut pages);
    for (name, text) in pages {
        std::fs::write(folder.join(format!("{name}.1")), text).map_err(failed)?;
    }
    Ok(())
}

/// Adds the pages of a command and of its subcommands, each with its name.
fn add_pages(name: &str, command: &Command, pages: &mut Vec<(String, String)>) {
    let below = || command.get_subcommands().filter(|below| below.get_name() != "help");
    pages.push((name.to_owned(), page(name, command, below().map(Command::get_name))));
    for below in below() {
        add_pages(&format!("{name}-{}", below.get_name()), below, pages);
    }
}

fn page<'a>(name: &str, command: &Command, below: impl Iterator<Item = &'a str>) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(".TH {} 1 \"\" \"Pellucid {version}\"\n", name.to_uppercase());
    text += &format!(".SH NAME\n{name} \\- {}\n", escaped(&about));
    let usage = command.clone().render_usage().to_string();
    text += &format!(".SH SYNOPSIS\n.nf\n{}.fi\n", lines(usage.trim_start_matches("Usage: ")));
    if let Some(about) = command.get_long_about() {
        text += &format!(".SH DESCRIPTION\n{}", paragraphs(&about.to_string()));
    }
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let options: String = shown.map(option).collect();
    if !options.is_empty() {
        text += &format!(".SH OPTIONS\n{options}");
    }
    let below: Vec<String> = below.map(|below| format!("{name}-{below}(1)")).collect();
    if !below.is_empty() {
        text += &format!(".SH SEE ALSO\n{}\n", escaped(&below.join(", ")));
    }
    text
}

/// Formats an argument: its names, its help, its values, and its environment variable.
fn option(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let values = argument.get_value_names().filter(|_| argument.get_action().takes_values());
    let values = values.into_iter().flatten().map(|value| format!(" {value}"));
    let head = names.join(", ") + &values.collect::<String>();
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut text = format!(".TP\n\\fB{}\\fR\n{}", escaped(head.trim()), lines(&help));
    let possible = argument.get_possible_values();
    let shown = possible.iter().filter(|_| argument.get_action().takes_values());
    for value in shown.filter(|value| !value.is_hide_set()) {
        let help = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
        text += &format!(".br\n\\(bu {}\n", escaped(&format!("{}{help}", value.get_name())));
    }
    if let Some(variable) = argument.get_env() {
        let variable = variable.to_string_lossy();
        text += &format!(".br\nIn the environment: {}\n", escaped(&variable));
    }
    text
}

/// Formats paragraphs, which empty lines separate.
fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(|paragraph| format!(".PP\n{}", lines(paragraph))).collect()
}

/// Formats lines so that none is taken for a roff request.
fn lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", escaped(line.trim_start()))).collect()
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_for_roff() {
        assert_eq!(lines(".TH a\n'b\nc-\\d"), "\\&.TH a\n\\&'b\nc\\-\\ed\n");
    }
}
