//! Exports the spans of traced requests: makes them from the records, and posts them in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use pellucid_account::Record;
use serde_json::Value;

use crate::observer::Observer;
use crate::reporter::collector::TraceCollector;
use crate::reporter::spans::{ClockAnchor, document, spans};
use crate::reporter::trace_registry::Trace;

/// The limit of requests whose spans are posted together.
pub(crate) const BATCH_MAX: usize = 256;
/// The longest time that spans wait for others before they are posted.
const BATCH_PAUSE: Duration = Duration::from_secs(1);

/// The record of a traced request.
pub(crate) struct TracedRequest {
    pub(crate) record: Record,
    pub(crate) trace: Trace,
}

/// Makes the spans, and posts them to the collector.
pub(crate) struct SpanExporter {
    observer: Arc<Observer>,
    collector: TraceCollector,
    batch: Vec<Value>,
    /// The number of requests in the batch.
    requests: usize,
    /// True if the last post failed, so that a lasting failure is logged once.
    is_failing: bool,
    /// True if spans are not posted any more.
    is_abandoned: Arc<AtomicBool>,
}

impl SpanExporter {
    pub(crate) fn new(
        observer: Arc<Observer>,
        collector: TraceCollector,
        is_abandoned: Arc<AtomicBool>,
    ) -> SpanExporter {
        let (batch, requests, is_failing) = (Vec::new(), 0, false);
        SpanExporter { observer, collector, batch, requests, is_failing, is_abandoned }
    }

    /// Exports the requests of `queue` until it is closed.
    pub(crate) fn run(mut self, queue: &Receiver<TracedRequest>) {
        let clock = self.observer.account.clock();
        let mut batch_age = clock.stopwatch();
        loop {
            let age = Duration::from_nanos(batch_age.elapsed_ns());
            let received = queue.recv_timeout(BATCH_PAUSE.saturating_sub(age));
            let is_over = matches!(received, Err(RecvTimeoutError::Disconnected));
            if let Ok(TracedRequest { record, trace }) = received {
                let anchor = ClockAnchor::now(clock);
                let names = self.observer.account.names();
                self.batch.extend(spans(&record, &trace, names, &anchor));
                self.requests += 1;
            }
            let is_due = Duration::from_nanos(batch_age.elapsed_ns()) >= BATCH_PAUSE;
            if is_over || is_due || self.requests >= BATCH_MAX {
                self.post();
                batch_age = clock.stopwatch();
            }
            if is_over {
                return;
            }
        }
    }

    fn post(&mut self) {
        if self.requests == 0 {
            return;
        }
        let spans = std::mem::take(&mut self.batch);
        let requests = std::mem::take(&mut self.requests) as u64;
        let Observer { followed: figures, log, version, .. } = &*self.observer;
        if self.is_abandoned.load(Ordering::Relaxed) {
            figures.export_lost.fetch_add(requests, Ordering::Relaxed);
            return;
        }
        let body = document(spans, version).to_string();
        let collector = &self.collector;
        match collector.post(body.as_bytes()) {
            Ok(()) => {
                figures.exported.fetch_add(requests, Ordering::Relaxed);
                if std::mem::take(&mut self.is_failing) {
                    log.info(&format!("the collector at {collector:?} takes spans again"));
                }
            }
            Err(error) => {
                figures.export_lost.fetch_add(requests, Ordering::Relaxed);
                if !std::mem::replace(&mut self.is_failing, true) {
                    let line = format!("spans are lost: the collector at {collector:?}: {error}");
                    log.write(&line);
                }
            }
        }
    }
}
