//! Asks for a password: never as an argument, which everybody on the machine could see.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::Failure;

/// The password for `name`: from the terminal, twice and unseen, or from the first line of standard
/// input.
pub(crate) fn ask(name: &str) -> Result<String, Failure> {
    if !stdin().is_terminal() {
        return line();
    }
    let first = unseen(&format!("password for {name}: "))?;
    if first != unseen("once more: ")? {
        return Err(Failure::work("the two are not the same: nothing was changed"));
    }
    Ok(first)
}

fn unseen(prompt: &str) -> Result<String, Failure> {
    eprint!("{prompt}");
    stderr().flush()?;
    let before = tcgetattr(stdin())?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(stdin(), OptionalActions::Flush, &silent)?;
    let password = line();
    // Also where reading failed: the terminal has to be left as it was found.
    tcsetattr(stdin(), OptionalActions::Flush, &before)?;
    eprintln!();
    password
}

fn line() -> Result<String, Failure> {
    let mut line = String::new();
    let count = stdin().lock().read_line(&mut line)?;
    if count == 0 {
        return Err(Failure::usage("a password is expected on standard input, or --no-password"));
    }
    Ok(line.strip_suffix('\n').unwrap_or(&line).trim_end_matches('\r').to_owned())
}
