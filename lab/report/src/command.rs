//! The command line that made a report, so that it can be repeated.

use std::env;

/// Characters that have no special meaning in any shell.
const PLAIN: &str = "%+,-./:=@_^";

/// The command line of this process, quoted so that a shell reads it as it was.
#[must_use]
pub fn command_line() -> String {
    let words = env::args_os().map(|word| quoted(&word.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

/// A word as a POSIX shell reads it back: in single quotes, unless it can go without.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_every_word_back_as_it_was() {
        let words = [
            "pellucid",
            "-H",
            "X-Token: a b",
            "",
            "it's",
            "http://127.0.0.1:8080/v0/entity?id=1&x=$HOME",
            "p99>+10%",
            "`ls`",
            "a\nb",
            "\"quoted\"",
            "~",
            "*",
            "zählen",
        ];
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        assert_eq!(line[0], "pellucid");
        let script = format!("printf '%s\\0' {}", line.join(" "));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let read: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().split('\0').collect();
        assert_eq!(read[..words.len()], words);
    }
}
