//! Reads a password from the terminal or from standard input. It is never an argument of the
//! command line, because every user of the machine can see those.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::SIGQUIT;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::Failure;
use crate::end_signals::end_signals;

/// Returns the password for `name`. A terminal is asked for it twice, without echo; otherwise it is
/// the first line of standard input.
///
/// # Errors
/// If the two passwords differ or are empty, standard input is empty, or reading fails.
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

/// Prompts for a line on the terminal with echo off.
fn unseen(prompt: &str) -> Result<String, Failure> {
    eprint!("{prompt}");
    stderr().flush()?;
    let before = tcgetattr(stdin())?;
    restore_at_signals(before.clone())?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(stdin(), OptionalActions::Flush, &silent)?;
    let password = line();
    // Before the result of `line` is looked at: echo has to come back even if reading failed.
    tcsetattr(stdin(), OptionalActions::Flush, &before)?;
    eprintln!();
    password
}

/// Makes a signal that ends this process give the terminal its modes back first.
fn restore_at_signals(before: Termios) -> Result<(), Failure> {
    let mut signals = Signals::new(end_signals().into_iter().chain([SIGQUIT]))?;
    std::thread::spawn(move || {
        for signal in &mut signals {
            let _ = tcsetattr(stdin(), OptionalActions::Flush, &before);
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}

fn line() -> Result<String, Failure> {
    let mut line = String::new();
    let count = stdin().lock().read_line(&mut line)?;
    if count == 0 {
        return Err(Failure::usage("a password is expected on standard input, or --no-password"));
    }
    let password = line.strip_suffix('\n').unwrap_or(&line).trim_end_matches('\r');
    if password.is_empty() {
        return Err(Failure::usage("the password is empty"));
    }
    Ok(password.to_owned())
}
