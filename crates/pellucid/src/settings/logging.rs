//! Configures the log of the process: the output, format and least level of `tracing` events.

use std::fmt;
use std::io::stderr;

use pellucid_server::ENGINE_TARGET;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::settings::Settings;
use crate::settings::values::{LogFormat, LogLevel};

/// The configuration of the log.
pub(crate) struct LogSettings {
    level: LogLevel,
    format: LogFormat,
    /// Warnings about the settings themselves.
    pub(crate) remarks: Vec<String>,
    /// Information about settings that have an important default.
    pub(crate) notes: Vec<String>,
}

impl LogSettings {
    pub(super) fn of(settings: &Settings) -> LogSettings {
        LogSettings {
            level: settings.log_level.unwrap_or(LogLevel::Info),
            format: settings.log_format.unwrap_or(LogFormat::Text),
            remarks: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Starts the log of the whole process on standard error.
    pub(crate) fn begin(&self) {
        let level = match self.level {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        };
        let log = tracing_subscriber::fmt().with_max_level(level).with_writer(stderr);
        // If standard error is closed, the server continues.
        let log = log.log_internal_errors(false);
        // This fails only if a log exists already, which then stays.
        let _ = match self.format {
            LogFormat::Text => log.map_event_format(EngineEventFormatter).try_init(),
            LogFormat::Json => {
                log.json().flatten_event(true).map_event_format(EngineEventFormatter).try_init()
            }
        };
        for remark in &self.remarks {
            tracing::warn!("{remark}");
        }
        for note in &self.notes {
            tracing::info!("{note}");
        }
    }
}

/// A formatter that writes the engine's events, which are JSON documents, unchanged, one per line.
/// All other events go to the inner formatter.
struct EngineEventFormatter<F>(F);

impl<S, N, F> FormatEvent<S, N> for EngineEventFormatter<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if event.metadata().target() != ENGINE_TARGET {
            return self.0.format_event(context, writer, event);
        }
        let mut document = MessageVisitor(String::new());
        event.record(&mut document);
        writeln!(writer, "{}", document.0)
    }
}

/// A visitor that keeps the message of an event.
struct MessageVisitor(String);

impl Visit for MessageVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
