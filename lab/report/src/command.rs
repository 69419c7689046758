//! The command line that made a report, so that it can be repeated, without its credentials.

use std::env;

/// Characters that have no special meaning in any shell.
const PLAIN: &str = "%+,-./:=@_^";
/// The ends of the names of headers with credentials, in lower case.
const SECRET_HEADERS: [&str; 2] = ["authorization", "cookie"];

/// The command line of this process, quoted so that a shell reads it as it was. `…` stands for
/// credentials in headers and URLs.
#[must_use]
pub fn command_line() -> String {
    let words = env::args_os().map(|word| quoted(&without_credentials(&word.to_string_lossy())));
    words.collect::<Vec<_>>().join(" ")
}

/// Hides the value of a header with credentials, with or without its flag, or the user in a URL.
fn without_credentials(word: &str) -> String {
    let Some((name, rest)) = word.split_once(':') else { return word.to_owned() };
    let lower = name.trim_end().to_ascii_lowercase();
    if SECRET_HEADERS.iter().any(|secret| lower.ends_with(secret)) {
        return format!("{name}: …");
    }
    let Some(place) = rest.strip_prefix("//") else { return word.to_owned() };
    let end = place.find(['/', '?', '#']).unwrap_or(place.len());
    match place[..end].rfind('@') {
        Some(at) => format!("{name}://…{}", &place[at..]),
        None => word.to_owned(),
    }
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

    /// Regression: credentials stood in every report.
    #[test]
    fn credentials_are_left_out() {
        for (word, shown) in [
            ("Authorization: Bearer x:y", "Authorization: …"),
            ("-Hproxy-authorization:x", "-Hproxy-authorization: …"),
            ("--header=Cookie : a=b", "--header=Cookie : …"),
            ("http://user:x@y@host:1/a@b", "http://…@host:1/a@b"),
            ("https://host/a@b", "https://host/a@b"),
            ("X-Note: //a@b", "X-Note: //a@b"),
            ("unix:/run/x.sock:/v0/status", "unix:/run/x.sock:/v0/status"),
            ("-c", "-c"),
        ] {
            assert_eq!(without_credentials(word), shown);
        }
    }

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
