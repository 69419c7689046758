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
use pellucid_client::http::Header;
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
    /// must be set before. A header of the file replaces those of the options with its name.
    pub fn use_in(mut self, options: &mut LoadOptions) {
        let header = |name: &str, value: String| Header { name: name.to_owned(), value };
        let mut headers = options.headers.clone();
        if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("host")) {
            headers.insert(0, header("Host", options.target.host_header()));
        }
        if !options.keep_alive {
            headers.push(header("Connection", "close".to_owned()));
        }
        self.operations.iter_mut().for_each(|operation| operation.add_headers(&headers));
        options.sources = Some(Arc::new(Sources(self)));
    }
}

/// The factory of the sources of a run's threads.
struct Sources(Workload);

impl RequestSources for Sources {
    fn source(&self, share: ThreadShare) -> Box<dyn RequestSource> {
        Box::new(Source::new(&self.0.operations, self.0.seed, share))
    }

    fn operations(&self) -> Vec<String> {
        self.0.operations.iter().map(|operation| operation.name.clone()).collect()
    }

    fn wants_answers(&self) -> bool {
        self.0.operations.iter().any(|operation| operation.check.wants_body())
    }
}

#[cfg(test)]
mod tests;
