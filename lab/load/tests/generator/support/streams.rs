//! HTTP/2 servers in virtual time: one made of the library `h2`, and one that ends its connections
//! in the middle of everything.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::{io, mem};

use http::Request;
use pellucid_load::simulation::Service;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::secure::{Reply, ResponseFunction, ServerBehaviour, ServerRuntime, Task, serve};

/// The state that the tasks share with the simulation.
#[derive(Default)]
struct SharedState {
    now_ns: AtomicU64,
    /// The times at which tasks have something to do again.
    due_ns: Mutex<BTreeSet<u64>>,
    /// True if anything was read, written, begun or ended since the last check.
    moved: AtomicBool,
    begun: Mutex<Vec<Task>>,
}

/// A server made of the library `h2`.
pub(crate) struct Http2Server {
    shared: Arc<SharedState>,
    manner: ServerBehaviour,
    respond: Arc<ResponseFunction>,
    tasks: Vec<Task>,
    /// The largest number of requests that were in flight at once on any connection.
    pub(crate) most_at_once: Arc<AtomicUsize>,
}

impl Http2Server {
    pub(crate) fn new(
        manner: ServerBehaviour,
        respond: impl Fn(Request<Vec<u8>>) -> Reply + Send + Sync + 'static,
    ) -> Http2Server {
        let respond = Arc::new(respond);
        let (shared, most_at_once) = (Arc::default(), Arc::default());
        Http2Server { shared, manner, respond, tasks: Vec::new(), most_at_once }
    }

    fn world(&self) -> ServerRuntime {
        let (spawning, sleeping) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        ServerRuntime {
            spawn: Arc::new(move |task| {
                spawning.begun.lock().unwrap().push(task);
                spawning.moved.store(true, Ordering::Relaxed);
            }),
            sleep: Arc::new(move |duration| {
                let shared = Arc::clone(&sleeping);
                let now_ns = shared.now_ns.load(Ordering::Relaxed);
                let end_ns = now_ns + duration.as_nanos() as u64;
                shared.due_ns.lock().unwrap().insert(end_ns);
                let is_over = move || shared.now_ns.load(Ordering::Relaxed) >= end_ns;
                let poll = move |_: &mut Context<'_>| match is_over() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                };
                Box::pin(std::future::poll_fn(poll))
            }),
        }
    }
}

impl Service for Http2Server {
    fn accept(&mut self, socket: UnixStream) -> io::Result<()> {
        let socket = Socket { socket, shared: Arc::clone(&self.shared) };
        let (respond, most) = (Arc::clone(&self.respond), Arc::clone(&self.most_at_once));
        self.tasks.push(Box::pin(serve(socket, self.manner.clone(), respond, most, self.world())));
        Ok(())
    }

    fn step(&mut self, now_ns: u64) -> Option<u64> {
        self.shared.now_ns.store(now_ns, Ordering::Relaxed);
        let mut context = Context::from_waker(Waker::noop());
        self.shared.moved.store(true, Ordering::Relaxed);
        while self.shared.moved.swap(false, Ordering::Relaxed) {
            let before = self.tasks.len();
            self.tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            if self.tasks.len() < before {
                self.shared.moved.store(true, Ordering::Relaxed);
            }
            self.tasks.append(&mut self.shared.begun.lock().unwrap());
        }
        let mut due = self.shared.due_ns.lock().unwrap();
        *due = due.split_off(&(now_ns + 1));
        due.first().copied()
    }
}

/// A socket that is polled in each step, instead of reporting when it is ready.
struct Socket {
    socket: UnixStream,
    shared: Arc<SharedState>,
}

impl Socket {
    fn outcome<T>(&self, outcome: io::Result<T>) -> Poll<io::Result<T>> {
        match outcome {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            outcome => {
                self.shared.moved.store(true, Ordering::Relaxed);
                Poll::Ready(outcome)
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = (&self.socket).read(buffer.initialize_unfilled());
        self.outcome(outcome).map_ok(|count| buffer.advance(count))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.outcome((&self.socket).write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = self.socket.shutdown(std::net::Shutdown::Write);
        Poll::Ready(outcome.or(Ok(())))
    }
}

const HEAD_BYTES: usize = 9;
const PREFACE_BYTES: usize = 24;
const SETTINGS: [u8; HEAD_BYTES] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// A server that answers a number of requests on each connection, and ends it with a GOAWAY that
/// refuses all later ones, as in RFC 9113 (section 6.8).
pub(crate) struct DrainingServer {
    answers: usize,
    peers: Vec<Option<(UnixStream, Vec<u8>)>>,
}

impl DrainingServer {
    pub(crate) fn after(answers: usize) -> DrainingServer {
        DrainingServer { answers, peers: Vec::new() }
    }

    /// Answers the requests that have arrived. Returns false when the connection is over.
    fn serve(answers: usize, socket: &mut UnixStream, input: &mut Vec<u8>) -> io::Result<bool> {
        let mut buffer = [0; 4_096];
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let (mut at, mut asked) = (PREFACE_BYTES, Vec::new());
        while let Some(head) = input.get(at..at + HEAD_BYTES) {
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8;
            if head[3] == 1 {
                asked.push([head[5], head[6], head[7], head[8]]);
            }
            at += HEAD_BYTES + length + usize::from(head[2]);
        }
        if asked.is_empty() {
            return Ok(true);
        }
        let mut output = Vec::new();
        let answered = &asked[..asked.len().min(answers)];
        for stream in answered {
            // A header block of one byte, ":status: 200", that ends block and stream.
            output.extend([0, 0, 1, 1, 5]);
            output.extend(stream);
            output.push(0x88);
        }
        output.extend([0, 0, 8, 7, 0, 0, 0, 0, 0]);
        output.extend(answered.last().unwrap_or(&[0; 4]));
        output.extend([0; 4]);
        socket.write_all(&output)?;
        Ok(false)
    }
}

impl Service for DrainingServer {
    fn accept(&mut self, mut socket: UnixStream) -> io::Result<()> {
        socket.write_all(&SETTINGS)?;
        self.peers.push(Some((socket, Vec::new())));
        Ok(())
    }

    fn step(&mut self, _: u64) -> Option<u64> {
        for peer in &mut self.peers {
            let Some((socket, input)) = peer else { continue };
            // A connection that the client has closed first is over as well.
            if !DrainingServer::serve(self.answers, socket, input).unwrap_or(false) {
                mem::take(peer);
            }
        }
        None
    }
}
