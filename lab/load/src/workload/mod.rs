//! The built-in description of work: what requests a load consists of, in a small TOML file.
//!
//! A script can make any request, but it has to be written, and what it draws and checks is hidden
//! in its code. Most loads need no more than a mix of operations over a set of keys, so that is
//! what the file says. Its form is documented in `docs/load.md`. A mistake in it names the file,
//! the line, and what is allowed there.

mod check;
mod document;
mod keys;
mod operation;
mod place;
mod settings;
mod source;
mod template;
mod value;

use std::path::Path;
use std::sync::Arc;

use crate::error::LoadError;
use crate::options::{Limit, LoadOptions};
use crate::source::{RequestSource, RequestSources, ThreadShare};
use crate::stages::Stage;
use document::Document;
pub use operation::MAX_OPERATIONS;
use operation::Operation;
use place::{Mistake, Place};
pub use settings::Settings;
use source::Source;

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

    fn parse(text: &str, folder: &Path) -> Result<Workload, Mistake> {
        let place = Place { text, folder };
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

    /// Takes over what the file says about the run itself: connections, rate, stages and the like.
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

    /// Lets a run send these requests. Its target, its headers and whether connections are kept
    /// must be set before.
    pub fn use_in(self, options: &mut LoadOptions) {
        let mut fixed = format!("Host: {}\r\n", options.target.host_header());
        for header in &options.headers {
            if header.name.eq_ignore_ascii_case("host") {
                fixed.clear();
            }
        }
        for header in &options.headers {
            fixed.push_str(&format!("{}: {}\r\n", header.name, header.value));
        }
        if !options.keep_alive {
            fixed.push_str("Connection: close\r\n");
        }
        options.sources = Some(Arc::new(Sources { workload: self, fixed }));
    }
}

/// Makes the sources of a run's threads.
struct Sources {
    workload: Workload,
    /// Headers of every request.
    fixed: String,
}

impl RequestSources for Sources {
    fn source(&self, share: ThreadShare) -> Box<dyn RequestSource> {
        let Workload { operations, seed, .. } = &self.workload;
        Box::new(Source::new(operations, &self.fixed, *seed, share))
    }

    fn operations(&self) -> Vec<String> {
        self.workload.operations.iter().map(|operation| operation.name.clone()).collect()
    }

    fn checks(&self) -> bool {
        self.workload.operations.iter().any(|operation| operation.check.is_any())
    }

    fn wants_answers(&self) -> bool {
        self.workload.operations.iter().any(|operation| operation.check.wants_body())
    }
}

#[cfg(test)]
mod tests;
