//! The built-in description of work: the requests of a load, in a small TOML file.
//!
//! A script can make any request, but it has to be written, and its draws and checks are hidden in
//! code. Most loads need no more than a mix of operations over a set of keys, and that is what the
//! file describes. Its format is documented in `docs/load.md`. A mistake in it is reported with the
//! file, the line, and what is allowed there.

mod check;
mod document;
mod keys;
mod operation;
mod settings;
mod source;
mod template;
mod value;
mod workload_file;

use std::path::Path;
use std::sync::Arc;

use crate::error::LoadError;
use crate::options::{Limit, LoadOptions};
use crate::source::{RequestSource, RequestSources, ThreadShare};
use crate::stages::Stage;
use document::Document;
pub use operation::MAX_OPERATIONS;
use operation::Operation;
pub use settings::Settings;
use source::Source;
use workload_file::{ParseError, WorkloadFile};

/// A description of work that has been read.
#[derive(Clone, Debug)]
pub struct Workload {
    pub(crate) settings: Settings,
    pub(crate) stages: Vec<Stage>,
    pub(crate) operations: Vec<Operation>,
    seed: u64,
}

impl Workload {
    /// Reads a file.
    ///
    /// # Errors
    /// [`LoadError::Work`] names the file, the line and what is allowed there.
    pub fn read(path: &Path) -> Result<Workload, LoadError> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|reason| LoadError::Work(format!("cannot read {shown}: {reason}")))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Workload::parse(&text, folder)
            .map_err(|(line, reason)| LoadError::Work(format!("{shown}:{line}: {reason}")))
    }

    fn parse(text: &str, folder: &Path) -> Result<Workload, ParseError> {
        let place = WorkloadFile { text, folder };
        let document = Document::parse(&place)?;
        Ok(Workload {
            operations: document.operations(&place)?,
            stages: document.stage,
            settings: document.load,
            seed: document.seed,
        })
    }

    /// The file's settings of the run itself.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Applies the file's settings of the run: connections, rate, stages and the like.
    pub fn apply_settings(&self, options: &mut LoadOptions) {
        let settings = &self.settings;
        let set = |value: &mut usize, setting: Option<usize>| *value = setting.unwrap_or(*value);
        set(&mut options.connections, settings.connections);
        set(&mut options.threads, settings.threads);
        options.rate_per_second = settings.rate_per_second.or(options.rate_per_second);
        options.arrivals = settings.arrivals.unwrap_or(options.arrivals);
        options.warm_up = settings.warm_up.unwrap_or(options.warm_up);
        options.timeout = settings.timeout.unwrap_or(options.timeout);
        options.keep_alive = settings.keep_alive.unwrap_or(options.keep_alive);
        if let Some(duration) = settings.duration {
            options.limit = Limit::Duration(duration);
        }
        options.stages.clone_from(&self.stages);
    }

    /// Makes a run send these requests. The target, the headers and `keep_alive` of the options
    /// must be set before.
    pub fn use_in(self, options: &mut LoadOptions) {
        let mut host = format!("Host: {}\r\n", options.target.host_header());
        let mut fixed = String::new();
        for header in &options.headers {
            let line = format!("{}: {}\r\n", header.name, header.value);
            if header.name.eq_ignore_ascii_case("host") {
                host = line;
            } else {
                fixed.push_str(&line);
            }
        }
        if !options.keep_alive {
            fixed.push_str("Connection: close\r\n");
        }
        options.sources = Some(Arc::new(Sources { workload: self, host, fixed }));
    }
}

/// The factory of the sources of a run's threads.
struct Sources {
    workload: Workload,
    /// The line `Host` of operations that have none of their own.
    host: String,
    /// Further headers of every request.
    fixed: String,
}

impl RequestSources for Sources {
    fn source(&self, share: ThreadShare) -> Box<dyn RequestSource> {
        let Workload { operations, seed, .. } = &self.workload;
        Box::new(Source::new(operations, [&self.host, &self.fixed], *seed, share))
    }

    fn operations(&self) -> Vec<String> {
        self.workload.operations.iter().map(|operation| operation.name.clone()).collect()
    }

    fn wants_answers(&self) -> bool {
        self.workload.operations.iter().any(|operation| operation.check.wants_body())
    }
}

#[cfg(test)]
mod tests;
