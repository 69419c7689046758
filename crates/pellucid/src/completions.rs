//! `pellucid completions`: what a shell needs to complete our command lines.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{Arguments, Failure};

/// Print completions for a shell.
///
/// Example: pellucid completions bash > /etc/bash_completion.d/pellucid
#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

/// Prints them.
pub(crate) fn run(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "pellucid", &mut text);
    print!("{}", String::from_utf8_lossy(&text));
    Ok(())
}
