//! A thread's requests on a connection that takes no more of them.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use pellucid_client::http::Address;

use super::*;
use crate::connection::ConnectionSettings;
use crate::http2::tests::use_up;
use crate::pool::PoolPlan;
use crate::recorder::RecorderSettings;
use crate::request_factory::{RequestFactory, RequestOrigin};
use crate::simulation::{Service, Simulation};
use crate::stages::Profile;
use crate::trace_sampler::TraceSampler;
use crate::worker::{Limits, WorkerTask};

/// A server that sends its HTTP/2 settings, and then nothing.
#[derive(Default)]
struct SilentServer(Vec<UnixStream>);

impl Service for SilentServer {
    fn accept(&mut self, mut socket: UnixStream) -> io::Result<()> {
        io::Write::write_all(&mut socket, &[0, 0, 0, 4, 0, 0, 0, 0, 0])?;
        self.0.push(socket);
        Ok(())
    }

    fn step(&mut self, _: u64) -> Option<u64> {
        None
    }
}

/// A thread with one connection of four streams.
fn worker(simulation: &Arc<Simulation>) -> Worker {
    let request = Request::get("http://h/").body(()).unwrap();
    let requests = RequestOrigin::FixedStream { request, body: Bytes::new() };
    let opening = ConnectionSettings {
        address: Address::Tcp(([192, 0, 2, 1], 80).into()),
        tls: None,
        http2_streams: Some(4),
        capture: false,
        simulation: Some(Arc::clone(simulation)),
    };
    let work = WorkerTask {
        thread: 0,
        pool: PoolPlan {
            opening,
            directions: None,
            places: vec![0],
            profile: Arc::new(Profile::constant(1, 1)),
            keep_alive: true,
        },
        maker: RequestFactory::new(requests, None, false, false),
        depth: 4,
        plan: None,
        watcher: TraceSampler::new(0, false, None),
        scope: RecorderSettings {
            apart: false,
            measures_batches: false,
            expected_ns: 0,
            operations: Vec::new(),
            accepted_statuses: Vec::new(),
        },
        limits: Limits {
            duration: None,
            quota: None,
            timeout: Duration::from_secs(1),
            warm_up: Duration::ZERO,
            control: Arc::default(),
            stop: Arc::default(),
        },
    };
    Worker::new(work, simulation.clock()).unwrap()
}

/// Regression: a request that the connection refused set the times of an older one to its own, so
/// that the latency of that one came out too short.
#[test]
fn a_request_that_is_not_sent_leaves_the_times_of_others() {
    let simulation = Simulation::new(SilentServer::default());
    let mut worker = worker(&simulation);
    worker.open_connections().unwrap();
    worker.send(0, 2, None).unwrap();
    let times = |worker: &Worker| -> Vec<(Ticks, Ticks)> {
        let in_flight = &worker.pool.connections[0].in_flight;
        in_flight.iter().map(|request| (request.intended, request.sent)).collect()
    };
    let before = times(&worker);
    assert_eq!(before.len(), 2);
    simulation.pass(Duration::from_millis(7));
    use_up(worker.pool.connections[0].http2.as_mut().unwrap());
    worker.send(0, 1, None).unwrap();
    assert_eq!((worker.left_out.len(), times(&worker)), (1, before));
}
