//! The threads of a run: starts them together, watches them, and collects their results.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_clock::{Clock, Ticks, WallTime};

use crate::control::ThreadControl;
use crate::error::LoadError;
use crate::host_monitor::HostMonitor;
use crate::options::LoadOptions;
use crate::progress::Progress;
use crate::units::nanoseconds;
use crate::waits::Waits;
use crate::worker::{Outcome, Worker, WorkerTask};

/// The interval at which the crew checks whether the caller wants to stop, while it waits for its
/// threads.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// The interval of these checks if the threads of a server on this machine are observed as well.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// The interval of progress reports to the caller.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The time from the moment when all threads are ready to the first intended start, so that all of
/// them are awake by then.
const START_DELAY: Duration = Duration::from_millis(1);

/// A message of a thread to the crew.
enum Message {
    /// The thread is ready: its connections are open.
    Ready,
    /// The thread has ended.
    Ended { thread: usize, outcome: Box<Result<Outcome, LoadError>> },
}

/// The threads of a run.
pub(crate) struct WorkerGroup {
    handles: Vec<JoinHandle<()>>,
    messages: Receiver<Message>,
    /// Send the time of the start to the threads. A thread whose sender is dropped gives up.
    starts: Vec<SyncSender<Ticks>>,
    surroundings: HostMonitor,
}

/// The measured part of a run, thread by thread.
pub(crate) struct RunMeasurement {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) started: WallTime,
    pub(crate) duration: Duration,
    /// The waits of the server's threads for a processor, if they are on this machine.
    pub(crate) server_waits: Option<Waits>,
    /// The share of the processors that other processes had.
    pub(crate) others_share: Option<f64>,
}

impl WorkerGroup {
    pub(crate) fn start(
        works: Vec<WorkerTask>,
        clock: Clock,
        surroundings: HostMonitor,
    ) -> Result<WorkerGroup, LoadError> {
        // Every thread sends at most two messages, so none of them ever blocks.
        let (sender, messages) = sync_channel(2 * works.len());
        let mut crew =
            WorkerGroup { handles: Vec::new(), messages, starts: Vec::new(), surroundings };
        for (thread, work) in works.into_iter().enumerate() {
            let (start_sender, start) = sync_channel(1);
            let sender = sender.clone();
            let body = move || work_of_thread(thread, work, clock, &sender, &start);
            let builder = std::thread::Builder::new().name(format!("load-{thread}"));
            let handle = builder.spawn(body).map_err(LoadError::system("start a thread"))?;
            crew.handles.push(handle);
            crew.starts.push(start_sender);
        }
        Ok(crew)
    }

    /// Waits until all threads are ready, starts them, and waits until all have ended.
    pub(crate) fn watch(
        mut self,
        options: &LoadOptions,
        controls: &[Arc<ThreadControl>],
        clock: Clock,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RunMeasurement, LoadError> {
        let mut outcomes: Vec<Option<Outcome>> = controls.iter().map(|_| None).collect();
        let mut failure = None;
        let (mut ready, mut running) = (0, controls.len());
        let mut start = None;
        let mut started = clock.wall();
        let mut next_progress = PROGRESS_INTERVAL;
        let looks = self.surroundings.has_server();
        let interval = if looks { LOOK_INTERVAL } else { WATCH_INTERVAL };
        while running > 0 {
            match self.messages.recv_timeout(interval) {
                Ok(Message::Ready) => ready += 1,
                Ok(Message::Ended { thread, outcome }) => {
                    running -= 1;
                    match *outcome {
                        Ok(outcome) => {
                            // A run without one of its threads is no longer the run that was asked
                            // for.
                            if outcome.failure.is_some() {
                                stop_all(controls);
                            }
                            outcomes[thread] = Some(outcome);
                        }
                        Err(error) => {
                            failure.get_or_insert(error);
                            stop_all(controls);
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) if start.is_none() && self.has_lost_a_thread() => {
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if failure.is_some() && start.is_none() {
                break;
            }
            let now = clock.now();
            if start.is_none() && ready == controls.len() {
                started = clock.wall();
                self.surroundings.begin();
                start = Some(self.let_go(Ticks(now.0 + clock.ticks(nanoseconds(START_DELAY)))));
            }
            let Some(start) = start else { continue };
            if options.stop.load(Ordering::Relaxed) {
                stop_all(controls);
            }
            let elapsed = Duration::from_nanos(clock.nanoseconds(now.since(start)));
            self.surroundings.look(nanoseconds(elapsed));
            if elapsed >= next_progress && running > 0 {
                next_progress = elapsed + PROGRESS_INTERVAL;
                progress(progress_of(elapsed, controls));
            }
        }
        let end = clock.now();
        let simulation = options.simulation.as_ref();
        let others_share = simulation
            .map_or_else(|| self.surroundings.others_share(), |simulated| simulated.others_share());
        let server_waits = std::mem::take(&mut self.surroundings).into_waits();
        self.join();
        let ticks = start.map_or(0, |start| end.since(start));
        let duration = Duration::from_nanos(clock.nanoseconds(ticks));
        let outcomes = outcomes.into_iter().flatten().collect();
        let measured = RunMeasurement { outcomes, started, duration, server_waits, others_share };
        failure.map_or(Ok(measured), Err)
    }

    fn let_go(&self, start: Ticks) -> Ticks {
        for sender in &self.starts {
            // The panic of a lost thread is found when it is joined.
            let _ = sender.try_send(start);
        }
        start
    }

    /// True if a thread has ended; before the start, that happens only by a panic.
    fn has_lost_a_thread(&self) -> bool {
        self.handles.iter().any(JoinHandle::is_finished)
    }

    /// Joins all threads, and passes on a panic to the caller.
    fn join(self) {
        drop(self.starts);
        for handle in self.handles {
            if let Err(panic) = handle.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn work_of_thread(
    thread: usize,
    work: WorkerTask,
    clock: Clock,
    sender: &SyncSender<Message>,
    start: &Receiver<Ticks>,
) {
    // If this is refused, sends may be later on a busy machine.
    let _ = pellucid_thread::schedule_for_requests();
    let prepared = Worker::new(work, clock).and_then(|mut worker| {
        worker.open_connections()?;
        Ok(worker)
    });
    let outcome = prepared.and_then(|worker| {
        // The receiver is gone only if the run has failed already.
        drop(sender.send(Message::Ready));
        match start.recv() {
            Ok(start) => Ok(worker.run(start)),
            Err(_) => Err(LoadError::Option("the run was given up before its start".to_owned())),
        }
    });
    drop(sender.send(Message::Ended { thread, outcome: Box::new(outcome) }));
}

fn stop_all(controls: &[Arc<ThreadControl>]) {
    controls.iter().for_each(|control| control.stop.store(true, Ordering::Relaxed));
}

fn progress_of(elapsed: Duration, controls: &[Arc<ThreadControl>]) -> Progress {
    let requests = controls.iter().map(|control| control.requests.load(Ordering::Relaxed)).sum();
    let errors = controls.iter().map(|control| control.errors.load(Ordering::Relaxed)).sum();
    Progress::Running { elapsed, requests, errors }
}
