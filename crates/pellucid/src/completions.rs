//! `pellucid completions`: prints shell completions for this command line.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::Failure;

/// Print completions for a shell.
///
/// Example: pellucid completions bash > /etc/bash_completion.d/pellucid
#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

/// Prints the completions of the command line `line`.
pub(crate) fn run(arguments: &CompletionsArguments, mut line: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut line, "pellucid", &mut text);
    print_part!("{}", String::from_utf8_lossy(&text));
    Ok(())
}
