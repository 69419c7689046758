//! `pellucid profile`: takes a profile of a running server and writes it to a file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use pellucid_client::http::HttpRequest;

use crate::Failure;
use crate::output_stream::OutputStream;
use crate::remote_server::{ServerAddress, encoded};

/// The default duration of a recording of processor time, in seconds.
const SECONDS: f64 = 10.0;
/// The longest wait for the profile after its recording time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Take a profile of a running server.
///
/// If the server has accounts, it takes one with the right admin=read: give its token.
///
/// Example: pellucid profile http://127.0.0.1:8080 cpu --seconds 10 -o cpu.html
///
/// Example: PELLUCID_TOKEN=… pellucid profile --ca ca.pem https://127.0.0.1:8443 heap --base -600
#[derive(Parser)]
#[command(verbatim_doc_comment)]
pub(crate) struct ProfileArguments {
    #[command(flatten)]
    server: ServerAddress,
    /// The kind of profile.
    kind: Kind,
    /// The seconds to record [default: 10 for cpu; for the others everything since the start].
    #[arg(long)]
    seconds: Option<f64>,
    /// Samples per second of processor time while it is recorded [default: 99].
    #[arg(long, value_name = "HERTZ")]
    hz: Option<u32>,
    /// Of what has passed, from this many seconds ago: -60. Of heap, what was added since.
    #[arg(long, allow_hyphen_values = true, conflicts_with = "seconds")]
    from: Option<f64>,
    /// Until this many seconds ago. Of heap, without --from: as it was then.
    #[arg(long, allow_hyphen_values = true, conflicts_with = "seconds")]
    to: Option<f64>,
    /// Show the difference to another stretch: -120..-60. Of heap also to a moment: -600.
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
    /// A header of the request, as `Name: value`.
    #[arg(short = 'H', long = "header")]
    headers: Vec<String>,
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

/// Takes the profile, and prints it or writes it to a file.
pub(crate) fn run(arguments: &ProfileArguments) -> Result<(), Failure> {
    let format = arguments.output.as_deref().map_or(Ok("shares"), format_of)?;
    let remote = arguments.server.remote(&arguments.headers)?;
    let is_past = arguments.from.or(arguments.to).is_some();
    let seconds = match arguments.kind {
        Kind::Cpu if !is_past => arguments.seconds.unwrap_or(SECONDS),
        _ => arguments.seconds.unwrap_or(0.0),
    };
    let length = Duration::try_from_secs_f64(seconds);
    let length = length.map_err(|_| Failure::usage("--seconds is a length of time"))?;
    let path = path_of(arguments, (!is_past).then_some(seconds), format);
    let patience = length + PATIENCE;
    // Before the server records, perhaps for minutes.
    let open = |file| OutputStream::file(file).map(|out| (file, out));
    let output = arguments.output.as_deref().map(open).transpose()?;
    let answer = remote.ask(&HttpRequest { patience, ..HttpRequest::get(&path) })?;
    if answer.status != 200 {
        return Err(answer.failure("admin=read"));
    }
    let body = answer.body;
    match output {
        None => print_part!("{}", String::from_utf8_lossy(&body)),
        Some((file, mut out)) => {
            out.write(&body)?;
            out.end()?;
            print_line!("wrote {} ({} bytes)", file.display(), body.len());
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

fn path_of(arguments: &ProfileArguments, seconds: Option<f64>, format: &str) -> String {
    let mut path = format!("/debug/pprof/{}?format={format}", arguments.kind.path());
    let hertz = arguments.hz.map(|hertz| hertz.to_string());
    let more = [
        ("seconds", seconds.map(|seconds| seconds.to_string())),
        ("from", arguments.from.map(|from| from.to_string())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_of_the_file_chooses_the_format() {
        for (file, format) in [("a.html", "html"), ("b/c.svg", "svg"), ("d.pb.gz", "pb")] {
            assert_eq!(format_of(Path::new(file)).ok(), Some(format));
        }
        assert!(format_of(Path::new("a.gz")).is_err_and(|failure| failure.text.contains(".pb.gz")));
    }

    fn arguments(flags: &[&str]) -> ProfileArguments {
        let words = [&["profile", "http://h"], flags].concat();
        ProfileArguments::try_parse_from(words).unwrap()
    }

    #[test]
    fn flags_become_query_parameters() {
        let flags = ["cpu", "--from", "-60", "--hz", "199", "--op", "a b"];
        let path = path_of(&arguments(&flags), None, "svg");
        assert_eq!(path, "/debug/pprof/profile?format=svg&from=-60&op=a%20b&hz=199");
        let path = path_of(&arguments(&["heap", "--base", "-600"]), Some(0.0), "html");
        assert_eq!(path, "/debug/pprof/heap?format=html&seconds=0&base=-600");
    }
}
