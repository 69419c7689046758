//! `pellucid profile`: takes a profile of a running server and writes it to a file.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use pellucid_load::Target;

use crate::Failure;
use crate::client::get_within;

/// How long processor time is recorded unless said.
const SECONDS: f64 = 10.0;
/// What recording and writing may take beyond the seconds that were asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Take a profile of a running server.
///
/// Example: pellucid profile http://127.0.0.1:8080 cpu --seconds 10 -o cpu.html
#[derive(Args)]
pub(crate) struct ProfileArguments {
    /// Where the server is.
    url: String,
    /// What of.
    kind: Kind,
    /// How long to record [default: 10 for cpu; for the others everything since the start].
    #[arg(long)]
    seconds: Option<f64>,
    /// Samples per second of processor time while it is recorded [default: 99].
    #[arg(long, value_name = "HERTZ")]
    hz: Option<u32>,
    /// Processor time that has passed, from this many seconds ago: -60.
    #[arg(long, allow_hyphen_values = true, conflicts_with = "seconds")]
    from: Option<f64>,
    /// Until this many seconds ago.
    #[arg(long, allow_hyphen_values = true, requires = "from")]
    to: Option<f64>,
    /// Show the difference to another stretch of processor time: -120..-60.
    #[arg(long, allow_hyphen_values = true)]
    base: Option<String>,
    /// Of this operation alone: entity_put.
    #[arg(long)]
    op: Option<String>,
    /// Of this phase or background job alone: execute, compaction.
    #[arg(long)]
    phase: Option<String>,
    /// A file to write: .html or .svg for a flame graph, .pb.gz for `go tool pprof`, .txt for
    /// folded stacks. Without one, shares by phase and component are printed.
    #[arg(short, long)]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Processor time.
    Cpu,
    /// Memory that is allocated.
    Heap,
    /// Allocations since the start.
    Allocs,
    /// Waits for locks, by who held them.
    Lock,
    /// Waits for locks and conditions, by who waited.
    Wait,
}

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Kind::Cpu => "profile",
            Kind::Heap => "heap",
            Kind::Allocs => "allocs",
            Kind::Lock => "mutex",
            Kind::Wait => "block",
        }
    }
}

/// Takes the profile.
pub(crate) fn run(arguments: &ProfileArguments) -> Result<(), Failure> {
    let format = arguments.output.as_deref().map_or(Ok("shares"), format_of)?;
    let address = address_of(&arguments.url)?;
    let seconds = match (arguments.kind, arguments.from) {
        (Kind::Cpu, None) => arguments.seconds.unwrap_or(SECONDS),
        _ => arguments.seconds.unwrap_or(0.0),
    };
    let length = Duration::try_from_secs_f64(seconds);
    let length = length.map_err(|_| Failure::usage("--seconds is a length of time"))?;
    let path = path_of(arguments, seconds, format);
    let (status, body) = get_within(address, &path, length + PATIENCE).map_err(Failure::work)?;
    if status != 200 {
        let text = String::from_utf8_lossy(&body);
        return Err(Failure::work(format!("the server answered {status}: {}", text.trim())));
    }
    match &arguments.output {
        None => print!("{}", String::from_utf8_lossy(&body)),
        Some(file) => {
            let failed = |error| Failure::work(format!("writing {}: {error}", file.display()));
            std::fs::write(file, &body).map_err(failed)?;
            println!("wrote {} ({} bytes)", file.display(), body.len());
        }
    }
    Ok(())
}

fn format_of(file: &Path) -> Result<&'static str, Failure> {
    let name = file.to_string_lossy();
    let formats = [
        (".html", "html"),
        (".svg", "svg"),
        (".pb.gz", "pb"),
        (".pprof", "pb"),
        (".txt", "folded"),
        (".folded", "folded"),
    ];
    let found = formats.iter().find(|(ending, _)| name.ends_with(ending));
    found
        .map(|(_, format)| *format)
        .ok_or_else(|| Failure::usage(format!("{name}: name the file .html, .svg, .pb.gz or .txt")))
}

fn address_of(url: &str) -> Result<SocketAddr, Failure> {
    let target = Target::parse(url).map_err(Failure::usage)?;
    let mut addresses = target
        .address()
        .to_socket_addrs()
        .map_err(|error| Failure::work(format!("{url}: the address was not found: {error}")))?;
    addresses.next().ok_or_else(|| Failure::work(format!("{url}: there is no such address")))
}

fn path_of(arguments: &ProfileArguments, seconds: f64, format: &str) -> String {
    let mut path = format!("/debug/pprof/{}?format={format}", arguments.kind.path());
    match arguments.from {
        Some(from) => path += &format!("&from={from}"),
        None => path += &format!("&seconds={seconds}"),
    }
    let hertz = arguments.hz.map(|hertz| hertz.to_string());
    let more = [
        ("to", arguments.to.map(|to| to.to_string())),
        ("base", arguments.base.clone()),
        ("op", arguments.op.clone()),
        ("phase", arguments.phase.clone()),
        ("hz", hertz),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            path += &format!("&{name}={}", encoded(&value));
        }
    }
    path
}

/// The text with everything encoded that means something in a URL.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_the_format() {
        for (file, format) in [("a.html", "html"), ("b/c.svg", "svg"), ("d.pb.gz", "pb")] {
            assert_eq!(format_of(Path::new(file)).ok(), Some(format));
        }
        assert!(format_of(Path::new("a.gz")).is_err_and(|failure| failure.text.contains(".pb.gz")));
    }

    #[test]
    fn what_is_asked_for_stands_in_the_path() {
        let arguments = ProfileArguments {
            url: String::new(),
            kind: Kind::Cpu,
            seconds: None,
            hz: Some(199),
            from: Some(-60.0),
            to: None,
            base: None,
            op: Some("a b".to_owned()),
            phase: None,
            output: None,
        };
        let path = path_of(&arguments, 0.0, "svg");
        assert_eq!(path, "/debug/pprof/profile?format=svg&from=-60&op=a%20b&hz=199");
    }
}
