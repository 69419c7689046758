//! Tests that run the commands of all pages except that of the tasks. Only hosts, folders and
//! durations are replaced. The servers and files that a reader of the page has are created first.

use std::fs;

use tempfile::TempDir;

use super::{documents, free_ports, run_script, steps, with_ports};
use crate::common::root;

/// The words that a line of commands begins with.
const PROGRAMS: [&str; 11] = [
    "bpftrace", "cargo", "curl", "docker", "dpkg", "git", "go", "install", "make", "pellucid",
    "systemctl",
];

/// The blocks of commands that are not run here: page, beginning of the first line, and reason.
const NOT_RUN: [(&str, &str, &str); 13] = [
    ("README.md", "pellucid study", "minutes: `study.rs` runs the study in a small size"),
    ("docs/studies.md", "pellucid study", "minutes: `study.rs` runs the study in a small size"),
    ("docs/tasks.md", "pellucid study", "minutes: `study.rs` runs the study in a small size"),
    ("docs/tasks.md", "make build", "compiles"),
    ("docs/tasks.md", "dpkg", "changes the machine: `packaging/test-package` does it in a tree"),
    ("docs/tasks.md", "QUICK=1 make", "minutes, and it wants the machine for itself"),
    ("docs/tasks.md", "cargo run", "compiles: `packaging/test-crates` runs the example"),
    (
        "docs/operating.md",
        "dpkg",
        "changes the machine: `packaging/test-package` does it in a tree",
    ),
    (
        "docs/operating.md",
        "install",
        "changes the machine: `packaging/test-package` does it in a tree",
    ),
    ("docs/operating.md", "docker load", "needs root and podman: `packaging/test-image` runs it"),
    ("docs/operating.md", "docker stop", "needs root, podman and an image from a registry"),
    (
        "docs/upgrading.md",
        "systemctl",
        "changes the machine: `packaging/test-package` does it in a tree",
    ),
    ("docs/observability.md", "bpftrace", "needs root: `probes.rs` runs the script"),
];
/// More blocks that are not run here, because not every machine has their programs.
const NEEDS_MORE: [(&str, &str, &str); 3] = [
    (
        "docs/profiles.md",
        "go tool",
        "opens a browser: `crates/server/tests/profiles.rs` runs it with -top",
    ),
    (
        "docs/stores.md",
        "pellucid serve --data /var/lib/pellucid --engine rocksdb",
        "a build with it",
    ),
    ("docs/stores.md", "pellucid serve --data /var/lib/pellucid --engine cql", "a ring"),
];

/// The end of an export command: a build without Parquet must exit with 2.
const PARQUET: &str =
    if cfg!(feature = "parquet") { "-o users.parquet" } else { "-o users.parquet || test $? = 2" };

/// A page of commands, and the preparations for running them.
struct Page {
    path: &'static str,
    /// The commands that run before those of the page.
    before: &'static str,
    /// Texts of the page, each with its replacement.
    here: &'static [(&'static str, &'static str)],
    /// The commands that run after those of the page, and check their effects.
    after: &'static str,
}

/// Functions of the scripts that wait until a server answers, or until a socket exists.
const WAITING: &str = "trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT
ready() { until curl -sf \"$1/v0/status\" > status.json; do sleep 0.1; done; }
there() { until [ -S \"$1\" ]; do sleep 0.1; done; }
";

fn run(page: &Page) {
    let text = fs::read_to_string(root().join(page.path)).unwrap();
    let mut commands: String = steps(&text).into_iter().map(|step| step.commands).collect();
    assert!(!commands.is_empty(), "{} has no blocks that are run", page.path);
    for (said, here) in page.here {
        assert!(commands.contains(said), "{} does not say {said}", page.path);
        commands = commands.replace(said, here);
    }
    let ports = free_ports();
    let script = format!("{WAITING}{}\n{commands}\n{}\n", page.before, page.after);
    let script = script.replace("ROOT", root().to_str().unwrap());
    let folder = TempDir::new().unwrap();
    let status = run_script(folder.path(), &with_ports(&script, &ports), &ports[0]);
    let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(status.success(), "{}: {status}: {}\n{}", page.path, read("printed"), read("errors"));
}

#[test]
fn the_readme_is_true() {
    run(&Page {
        path: "README.md",
        before: "",
        here: &[
            ("make build\n", ""),
            ("target/release/", ""),
            ("-c 64 -t 1 -d 20s -R 10000", "-c 8 -t 1 -d 1s -R 500"),
            ("--seconds 10", "--seconds 1"),
        ],
        after: "pellucid get http://127.0.0.1:8080 greeting | grep -x hello
grep -q '<svg' cpu.html",
    });
}

#[test]
fn changes_are_followed() {
    run(&Page {
        path: "docs/changes.md",
        before: "pellucid serve --data ./data &
ready http://127.0.0.1:8080
for key in a b c; do pellucid put http://127.0.0.1:8080 $key 1; done",
        // The request follows the changes until curl's time limit, which is exit code 28.
        here: &[
            ("since=0'", "since=0' | tee all.ndjson"),
            (
                "since=1234&follow=true'",
                "since=0&follow=true' --max-time 2 > some.ndjson || test $? = 28",
            ),
        ],
        after: "test \"$(grep -c '\"key\"' all.ndjson) $(grep -c '\"key\"' some.ndjson)\" = '3 3'",
    });
}

#[test]
fn documents_are_queried() {
    run(&Page {
        path: "docs/documents.md",
        before: "",
        here: &[("/_api/cursor", "/_api/cursor > found.json")],
        after: "grep -F '\"result\":[\"apple\"]' found.json",
    });
    run(&Page {
        path: "docs/aql.md",
        before: "pellucid serve --data ./data &\nready http://127.0.0.1:8080",
        here: &[("--bind n=6", "--bind n=6 > squares")],
        after: "test \"$(echo $(cat squares))\" = '4 16 36'",
    });
}

#[test]
fn a_cluster_is_started() {
    run(&Page {
        path: "docs/cluster.md",
        before: "echo 'a long password' > password",
        here: &[
            ("account add ada", "account add ada < password"),
            ("10.0.0.1:8080", "127.0.0.1:8080"),
            ("10.0.0.2:8080", "127.0.0.1:8081"),
            ("10.0.0.3:8080", "127.0.0.1:8082"),
            ("--insecure-no-tls\n", "--insecure-no-tls &\n"),
        ],
        after: "nodes=http://127.0.0.1:8080,http://127.0.0.1:8081,http://127.0.0.1:8082
for data in two three; do pellucid account add ada < password --admin --data ./$data; done
pellucid serve --data ./two --listen 127.0.0.1:8081 --advertise http://127.0.0.1:8081 \
    --cluster $nodes --cluster-secret-file secret &
pellucid serve --data ./three --listen 127.0.0.1:8082 --advertise http://127.0.0.1:8082 \
    --cluster $nodes --cluster-secret-file secret &
for node in ${nodes//,/ }; do ready $node; done
ada='--user ada --password-file password'
for key in 1 2 3 4 5 6 7 8 9; do pellucid put http://127.0.0.1:8080 $key $key $ada; done
for key in 1 2 3 4 5 6 7 8 9; do
  pellucid get http://127.0.0.1:8082 $key $ada | grep -x $key
done",
    });
}

#[test]
fn a_service_is_loaded_in_every_way() {
    run(&Page {
        path: "docs/load.md",
        before: "mkdir run
pellucid serve --data ./data --listen 127.0.0.1:8080,unix:./run/pellucid.sock &
nodes=http://127.0.0.1:8081,http://127.0.0.1:8082
pellucid serve --data ./one --listen 127.0.0.1:8081 \
    --advertise http://127.0.0.1:8081 --cluster $nodes &
pellucid serve --data ./two --listen 127.0.0.1:8082 \
    --advertise http://127.0.0.1:8082 --cluster $nodes &
for node in http://127.0.0.1:8080 ${nodes//,/ }; do ready $node; done
pellucid put http://127.0.0.1:8080 1 one
cp ROOT/lab/load/tests/lua/get_by_id.lua get.lua
printf '[[operation]]\\nname = \"get\"\\npath = \"/v0/entity?id=1\"\\n' > mix.toml
for run in before after; do
  pellucid load -d 1s -R 500 --json 'http://127.0.0.1:8080/v0/entity?id=1' > $run.json
done",
        here: &[
            ("-c 64 -d 20s", "-c 8 -d 1s"),
            ("-R 10000", "-R 500"),
            ("--work mix.toml ", "--work mix.toml -d 300ms "),
            // The search is replaced by a plain load, because it takes half a minute; `load.rs` and
            // `find_max.rs` test it.
            ("--find-max --slo p99=5ms", "--slo p99=5s"),
            ("--direct -R 5000", "--direct -d 1s -R 500"),
            ("-c 64 -R 500 unix:/run/pellucid/", "-c 8 -d 1s -R 500 unix:./run/"),
            ("-d 30s -R 20k", "-R 500"),
            ("-d 30s ", ""),
            ("http://server:8080", "http://127.0.0.1:8080"),
            // Two runs may differ on a busy machine.
            ("'p99>+10%'", "'errors>+10%'"),
        ],
        after: "grep -q '<svg' report.html",
    });
}

#[test]
fn a_server_is_operated() {
    run(&Page {
        path: "docs/operating.md",
        before: "mkdir run
ln -s data DATA
echo 'a long password' > password
pellucid serve --data ./data &
pellucid serve --data ./other --listen 127.0.0.1:8081 &
for port in :8080 :8081; do ready http://127.0.0.1$port; done
pellucid put http://127.0.0.1:8080 other entry
for node in http://127.0.0.1:8080 http://127.0.0.1:8081; do
  curl -sf $node/_api/database -d '{\"name\": \"shop\"}' > made.json
done
for path in '' /_db/shop; do
  curl -sf http://127.0.0.1:8080$path/_api/collection -d '{\"name\": \"users\"}' > made.json
  curl -sf http://127.0.0.1:8080$path/_api/document/users \
      -d '{\"name\": \"ada\", \"age\": 36}' > made.json
done",
        here: &[
            ("http://old:8080", "http://127.0.0.1:8080"),
            ("http://new:8080", "http://127.0.0.1:8081"),
            ("-o users.parquet", PARQUET),
            ("/run/pellucid/", "./run/"),
            // A server runs until the next one replaces it.
            (
                "pellucid.sock                        #",
                "pellucid.sock --data ./third & there run/pellucid.sock; kill $! && wait $! #",
            ),
            (
                "pellucid serve --listen 127.0.0.1:8080,",
                "pellucid serve --data ./third --listen 127.0.0.1:8082,",
            ),
            (
                "--socket-mode 0660",
                "--socket-mode 0660 & there run/pellucid.sock\n\
                 pellucid put unix:./run/pellucid.sock greeting hello",
            ),
            // The last steps use a folder whose server asks for no credentials.
            ("--data ./data ", "--data ./accounts "),
            ("--data ./data\n", "--data ./accounts\n"),
            ("account add ada", "account add ada < password"),
            ("account add app", "account add app < password"),
            ("account password app", "account password app < password"),
            ("\"id\": \"2026-11-25T18.00.00.000Z_daily\"", "\"id\": \"'$(ls data/backups)'\""),
            ("2026-11-25T18.00.00.000Z_daily", "$(ls data/backups)"),
        ],
        after: "test -z \"$(ls data/backups)\"
pellucid inspect NEW verify
test -s users.ndjson
pellucid get http://127.0.0.1:8081 other | grep -x entry",
    });
}

#[test]
fn profiles_are_taken() {
    run(&Page {
        path: "docs/profiles.md",
        before: "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -addext basicConstraints=critical,CA:FALSE -keyout key.pem -out ca.pem
pellucid account add app --grant admin=read --no-password --data ./secured
pellucid account token add app laptop --days 90 --data ./secured > token
pellucid serve --data ./data &
pellucid serve --data ./secured --listen 127.0.0.1:8443 --tls-cert ca.pem --tls-key key.pem &
ready http://127.0.0.1:8080
until curl -sf --cacert ca.pem https://localhost:8443/v0/status > status.json; do sleep 0.1; done",
        here: &[
            ("--seconds 10", "--seconds 1"),
            ("PELLUCID_TOKEN=…", "PELLUCID_TOKEN=$(cat token)"),
            ("db.example", "localhost"),
        ],
        after: "grep -q '<svg' cpu.html
grep -q '<svg' growth.html",
    });
}

#[test]
fn a_store_is_copied() {
    run(&Page {
        path: "docs/stores.md",
        before: "pellucid serve --data ./from &
ready http://127.0.0.1:8080
pellucid put http://127.0.0.1:8080 greeting hello
kill $! && wait $!",
        here: &[("FROM TO", "./from ./to")],
        after: "pellucid serve --data ./to --listen 127.0.0.1:8081 &
ready http://127.0.0.1:8081
pellucid get http://127.0.0.1:8081 greeting | grep -x hello",
    });
}

/// Each block of commands is run, or listed in [`NOT_RUN`] or [`NEEDS_MORE`] with a reason.
#[test]
fn every_block_of_commands_is_run_or_is_named_with_its_reason() {
    let mut named = Vec::new();
    for (path, document) in documents() {
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap().trim_start_matches("./");
        for block in document.split("```").skip(1).step_by(2) {
            let (language, body) = block.split_once('\n').unwrap();
            let body = body.replace("target/release/", "");
            let first = body.lines().next().unwrap_or_default().trim_start();
            let mut words = first.split_whitespace().skip_while(|word| word.contains('='));
            if language.is_empty() && words.next().is_some_and(|word| PROGRAMS.contains(&word)) {
                let all = NOT_RUN.iter().chain(&NEEDS_MORE);
                let reason = all.map(|(page, start, _)| (*page, *start));
                let reason =
                    reason.filter(|(page, start)| *page == path && first.starts_with(start));
                let reasons: Vec<_> = reason.collect();
                assert_eq!(
                    reasons.len(),
                    1,
                    "{path}: {first}: mark its block with `sh`, or say why not"
                );
                named.extend(reasons);
            }
        }
        let is_run = document.contains("```sh\n");
        let source = include_str!("run.rs");
        let is_here = source.contains(&format!("path: \"{path}\"")) || path == "docs/tasks.md";
        assert_eq!(
            is_run, is_here,
            "{path}: blocks marked `sh` are those of a page that is run here"
        );
        let indented = document.lines().find(|line| line.starts_with("    pellucid "));
        assert_eq!(indented, None, "{path}: commands stand between fences, so that they are found");
    }
    assert_eq!(
        named.len(),
        NOT_RUN.len() + NEEDS_MORE.len(),
        "{named:?}: each reason has its block"
    );
}
