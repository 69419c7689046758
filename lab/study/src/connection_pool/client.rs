//! The client: an unmodified driver in Node.js.
//!
//! The packages are installed once into the user's cache folder; their lock file pins them by hash.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::plan::Connection;
use crate::error::StudyError;
use crate::process::Process;

const PACKAGES: &str = include_str!("../../../drivers/javascript/package.json");
const LOCK: &str = include_str!("../../../drivers/javascript/package-lock.json");
const PROGRAM: &str = include_str!("client.mjs");

/// The name of an empty file that marks a complete installation.
const READY: &str = "ready";

/// The installed packages of the drivers.
pub(super) struct Drivers {
    folder: PathBuf,
}

impl Drivers {
    /// Installs the packages unless they are installed. Needs Node.js with npm, and a network the
    /// first time.
    pub(super) fn install() -> Result<Drivers, StudyError> {
        let folder =
            cache()?.join("pellucid/study").join(format!("drivers-{:016x}", name_of(LOCK)));
        let failed = |error: std::io::Error| StudyError::file("use", &folder, error);
        std::fs::create_dir_all(&folder).map_err(failed)?;
        // Another study may be installing them: wait for it, and find them installed.
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        if !folder.join(READY).exists() {
            std::fs::write(folder.join("package.json"), PACKAGES).map_err(failed)?;
            std::fs::write(folder.join("package-lock.json"), LOCK).map_err(failed)?;
            npm(&folder)?;
            std::fs::write(folder.join(READY), "").map_err(failed)?;
        }
        Ok(Drivers { folder })
    }
}

/// The user's cache folder.
fn cache() -> Result<PathBuf, StudyError> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || named("HOME").map(|home| Path::new(&home).join(".cache"));
    named("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).ok_or_else(|| {
        let what = "the drivers are installed below ~/.cache: set HOME or XDG_CACHE_HOME";
        StudyError::Options(what.to_owned())
    })
}

/// A 64-bit FNV-1a hash of a text.
fn name_of(text: &str) -> u64 {
    let step = |name: u64, byte: u8| (name ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn npm(folder: &Path) -> Result<(), StudyError> {
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
    let installed = Command::new("npm")
        .args(arguments)
        .args(["--loglevel", "error"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    match installed {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(StudyError::Step(format!(
            "npm could not install the drivers in {}: {}",
            folder.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
        Err(error) => Err(StudyError::Step(format!(
            "this study needs Node.js 20 or later and npm, as its clients are ArangoDB's drivers: \
             install them ({error})"
        ))),
    }
}

/// The client's instructions for one run.
#[derive(Serialize)]
struct Plan<'a> {
    driver: &'a str,
    /// The URLs of the servers; several if the driver is to choose among nodes.
    urls: Vec<String>,
    strategy: Option<&'a str>,
    sockets: Option<usize>,
    queries: u64,
    ids: &'a [String],
    /// The number of documents in a correct answer.
    documents: u64,
}

/// The client's account of one run. Times are in milliseconds; those of stages are means per query.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ClientRun {
    pub(super) wall_ms: f64,
    pub(super) answered: u64,
    /// Queries answered with a wrong number of documents.
    pub(super) wrong: u64,
    /// The number of failed queries, by HTTP status and error number.
    pub(super) failures: BTreeMap<String, u64>,
    /// Sockets that carried requests, including those opened in an earlier run.
    pub(super) sockets: u64,
    /// The number of answers by server port; empty for drivers that use fetch.
    pub(super) nodes: BTreeMap<String, u64>,
    pub(super) processor_ms: f64,
    pub(super) median_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    pub(super) stages: Stages,
    /// The server's account of a query, by phase and part.
    pub(super) server: BTreeMap<String, Option<f64>>,
}

/// The parts of a query's time as the client sees them; `None` if a query failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Stages {
    /// The wait for a slot in the driver, until it hands the request to the HTTP module.
    pub(super) driver_ms: Option<f64>,
    /// The wait for a socket.
    pub(super) socket_ms: Option<f64>,
    /// The time to connect a new socket.
    pub(super) connect_ms: Option<f64>,
    /// The time in the server, by the server's account.
    pub(super) server_ms: Option<f64>,
    /// The time between client and server: the kernel, and the client's event loop.
    pub(super) between_ms: Option<f64>,
    /// The time from the answer until the driver returns the documents.
    pub(super) decode_ms: Option<f64>,
}

/// A process of Node.js with one driver.
pub(super) struct Client {
    process: Process,
    connection: Connection,
}

impl Client {
    pub(super) fn start(
        drivers: &Drivers,
        connection: Connection,
        folder: &Path,
    ) -> Result<Client, StudyError> {
        let path = folder.join("client.mjs");
        std::fs::write(&path, PROGRAM).map_err(|error| StudyError::file("write", &path, error))?;
        let program: [OsString; 3] =
            ["node".into(), path.into_os_string(), drivers.folder.clone().into_os_string()];
        let process = Process::start("the client in Node.js", &program, Stdio::inherit())?;
        Ok(Client { process, connection })
    }

    /// Runs `queries` concurrent queries, each for one of `ids`. A correct answer has `documents`
    /// documents.
    pub(super) fn run(
        &mut self,
        servers: &[SocketAddr],
        queries: u64,
        (ids, documents): (&[String], u64),
    ) -> Result<ClientRun, StudyError> {
        let plan = Plan {
            driver: self.connection.driver,
            urls: servers.iter().map(|server| format!("http://{server}")).collect(),
            strategy: self.connection.strategy,
            sockets: self.connection.sockets,
            queries,
            ids,
            documents,
        };
        let step = |error: serde_json::Error| StudyError::Step(format!("the client: {error}"));
        let answer = self.process.ask(&serde_json::to_string(&plan).map_err(step)?)?;
        serde_json::from_str(&answer).map_err(step)
    }

    /// Stops the process.
    pub(super) fn stop(self) -> Result<(), StudyError> {
        self.process.stop()
    }
}
