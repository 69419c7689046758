//! What the server shows of itself: `/_admin/account`, `/_admin/engine`, `/metrics`, and in the
//! modules below what it knows of single requests. Adding it up takes longer than a request may
//! hold up its neighbours, so the helper thread does it.

pub(crate) mod compact;
mod observed;
mod trace;

use pellucid_account::WINDOW_SECONDS_MAX;
use pellucid_embedded::engine_stats;
use pellucid_http::{Handled, Request, Response};

use crate::engine_page::document;
use crate::metrics::{Figures, page};
use crate::process::ProcessFigures;
use crate::query::number_parameter;
use crate::service::{Api, Later, Loop, respond_text};

/// A page that is ready to be sent.
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

impl Page {
    pub(crate) fn json(body: String) -> Page {
        Page { status: 200, content_type: "application/json", body: body.into_bytes() }
    }

    /// A line that says why there is no page.
    pub(crate) fn refusal(status: u16, mut line: String) -> Page {
        line.push('\n');
        Page { status, content_type: "text/plain; charset=utf-8", body: line.into_bytes() }
    }
}

impl Api {
    pub(crate) fn account_page(
        &self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let window = match number_parameter(request.query, "window") {
            Ok(Some(0)) => Err("`window` has at least one second".to_owned()),
            Ok(Some(seconds)) if seconds > WINDOW_SECONDS_MAX as u64 => {
                Err(format!("`window` reaches back {WINDOW_SECONDS_MAX} seconds at most"))
            }
            other => other,
        };
        let window = match window {
            Ok(window) => window,
            Err(what) => return respond_text(response, exchange, 400, &what),
        };
        let account = self.shared.account.clone();
        self.later(response, exchange, move || {
            // A snapshot is strings and numbers, which JSON always has a form for.
            let body = serde_json::to_string(&account.snapshot(window)).unwrap_or_default();
            Page::json(body)
        })
    }

    /// The engine's account of itself (docs/engine-account.md).
    pub(crate) fn engine_page(
        &self,
        _: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let shared = std::sync::Arc::clone(&self.shared);
        self.later(response, exchange, move || {
            let stats = engine_stats(&*shared.store);
            // A store elsewhere has an account of its own, or none.
            let document = stats.as_ref().map_or(serde_json::Value::Null, document);
            Page::json(document.to_string())
        })
    }

    pub(crate) fn metrics_page(
        &self,
        _: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let (shared, gauge) = (std::sync::Arc::clone(&self.shared), self.gauge.clone());
        self.later(response, exchange, move || {
            let figures = Figures {
                snapshot: shared.account.snapshot(None),
                transport: gauge.stats(),
                store: shared.store.figures(),
                engine: engine_stats(&*shared.store),
                cursors: shared.documents.queries.cursor_figures(),
                memory: shared.documents.memory.clone(),
                process: ProcessFigures::now(),
                followed: shared.followed_figures(),
                slow: shared.account.slow(0),
                interference: [true, false].map(|start| shared.account.interference(start)),
                activity: shared.account.activity(),
                peers: shared.cluster.as_deref().map(crate::cluster::views).unwrap_or_default(),
                outcomes: shared.account.names().outcomes,
                version: shared.version,
            };
            let body = page(&figures).into_bytes();
            Page { status: 200, content_type: "text/plain; version=0.0.4", body }
        })
    }

    pub(crate) fn later(
        &self,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
        make: impl FnOnce() -> Page + Send + 'static,
    ) -> Handled {
        let completer = exchange.completer();
        if self.shared.helper.try_run(move || completer.complete(Later::Page(make()))) {
            return Handled::Later;
        }
        respond_text(response, exchange, 503, "too many such requests wait: try again in a moment")
    }
}
