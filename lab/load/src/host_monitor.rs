//! The machine around a run: the waits of the server's threads, if it runs here, and the share of
//! the processors that other processes have.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use pellucid_client::http::Address;
use pellucid_thread::{RunAccount, RunTimes};

use crate::waits::Waits;

/// The largest number of a server's threads that are observed.
const THREADS_MAX: usize = 256;
/// The prefix of the names of the threads of a Pellucid server that answer requests. For another
/// server, all threads are taken to answer.
const EVENT_LOOP: &str = "pellucid-loop";
/// The prefix of the names of the generator's threads, which may be in the server's process.
const GENERATOR: &str = "load-";

/// The machine around a run.
#[derive(Default)]
pub(crate) struct HostMonitor {
    server: Option<Server>,
    /// True if the server is on this machine but cannot be observed, as one of another user: its
    /// work looks like that of other programs.
    is_hidden: bool,
    /// The use of all processors at the start of the run.
    processors: Option<ProcessorUsage>,
}

/// A server on this machine, as observed from outside.
struct Server {
    /// Its processes: several if they share the socket that listens.
    processes: Vec<PathBuf>,
    threads: Vec<(RunAccount, RunTimes)>,
    waits: Waits,
}

/// The use of all processors so far, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ProcessorUsage {
    all: u64,
    /// The ticks of processes, without interrupts and without what the host took.
    processes: u64,
    /// The ticks of the generator and the server, which are among these.
    own: u64,
}

impl HostMonitor {
    /// The surroundings of a run against the server at `address`.
    pub(crate) fn of(address: &Address) -> HostMonitor {
        let is_here = match address {
            Address::Tcp(address) => is_local(address.ip()),
            Address::Unix(_) => true,
        };
        let processes = if is_here { listeners(address) } else { Vec::new() };
        let most = (THREADS_MAX / processes.len().max(1)).max(1);
        let threads = processes.iter().flat_map(|process| answering(process, most));
        let threads: Vec<_> = threads.take(THREADS_MAX).collect();
        let server = Server { processes, threads, waits: Waits::default() };
        let server = (!server.threads.is_empty()).then_some(server);
        HostMonitor { is_hidden: is_here && server.is_none(), server, processors: None }
    }

    /// True if there is a server to observe while the run lasts.
    pub(crate) fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// Begins the observation at the start of the run.
    pub(crate) fn begin(&mut self) {
        self.processors = self.used();
        if let Some(server) = &mut self.server {
            server.look(0);
            server.waits = Waits::default();
        }
    }

    /// Reads the waits of the server's threads. `elapsed_ns` is the time since the start.
    pub(crate) fn look(&mut self, elapsed_ns: u64) {
        if let Some(server) = &mut self.server {
            server.look(elapsed_ns);
        }
    }

    /// The share of all processors that other processes had since the start; `None` if it is not
    /// known.
    pub(crate) fn others_share(&self) -> Option<f64> {
        let before = self.processors.filter(|_| !self.is_hidden)?;
        let after = self.used()?;
        let since = |of: fn(&ProcessorUsage) -> u64| of(&after).saturating_sub(of(&before)) as f64;
        let others = since(|used| used.processes) - since(|used| used.own);
        Some((others / since(|used| used.all).max(1.0)).max(0.0))
    }

    /// The waits of the server's threads.
    pub(crate) fn into_waits(self) -> Option<Waits> {
        self.server.map(|server| server.waits)
    }

    fn used(&self) -> Option<ProcessorUsage> {
        let (all, processes) = machine_ticks(&fs::read_to_string("/proc/stat").ok()?)?;
        let own = PathBuf::from("/proc").join(std::process::id().to_string());
        let server = self.server.iter().flat_map(|server| &server.processes);
        let ticks = server.filter(|process| **process != own).map(|process| process_ticks(process));
        let own = process_ticks(&own) + ticks.sum::<u64>();
        Some(ProcessorUsage { all, processes, own })
    }
}

impl Server {
    /// Records the waits since the last reading: the mean of all threads, weighted by the time that
    /// each wanted to run, because a thread with more requests wants to run for longer.
    fn look(&mut self, now_ns: u64) {
        let (mut wanted_ns, mut weighed) = (0.0, 0.0);
        for (account, before) in &mut self.threads {
            let Some(times) = account.times() else { continue };
            let ran_ns = times.ran_ns.saturating_sub(before.ran_ns) as f64;
            let waited_ns = times.waited_ns.saturating_sub(before.waited_ns) as f64;
            *before = times;
            wanted_ns += ran_ns + waited_ns;
            weighed += waited_ns * (ran_ns + waited_ns);
        }
        self.waits.note(now_ns, (weighed / f64::max(wanted_ns, 1.0)) as u64);
    }
}

/// True if the address belongs to this machine.
fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The folders in `/proc` of the processes that listen at `address`, as far as they can be found.
fn listeners(address: &Address) -> Vec<PathBuf> {
    let paths = match address {
        Address::Tcp(_) => &["/proc/net/tcp", "/proc/net/tcp6"][..],
        Address::Unix(_) => &["/proc/net/unix"],
    };
    let tables: Vec<String> =
        paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    let inodes = tables.iter().flat_map(|table| match address {
        Address::Tcp(address) => listening(table, *address),
        Address::Unix(path) => listening_at_file(table, path),
    });
    let sockets: Vec<PathBuf> =
        inodes.map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let holds = |process: &PathBuf| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| sockets.contains(&link))
    };
    let is_process = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    processes.filter(is_process).filter(holds).collect()
}

/// The inodes of sockets that listen at `address`, from one of the kernel's tables.
fn listening(table: &str, address: SocketAddr) -> Vec<&str> {
    const LISTENS: &str = "0A";
    let mut inodes = Vec::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, LISTENS, _, _, _, _, _, inode, ..] = fields[..] else { continue };
        let Some((host, port)) = local.split_once(':') else { continue };
        let is_at = host == hexadecimal(address.ip()) || host.bytes().all(|digit| digit == b'0');
        if is_at && u16::from_str_radix(port, 16) == Ok(address.port()) {
            inodes.push(inode);
        }
    }
    inodes
}

/// The inodes of sockets that listen at the file `path`, from the kernel's table of Unix sockets.
/// The table has the path as the server gave it.
fn listening_at_file<'table>(table: &'table str, path: &Path) -> Vec<&'table str> {
    const LISTENS: u32 = 0x1_0000;
    let mut inodes = Vec::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, flags, _, _, inode, at] = fields[..] else { continue };
        let listens = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS != 0);
        if listens && Path::new(at) == path {
            inodes.push(inode);
        }
    }
    inodes
}

/// An address in the form of the kernel's tables: words of 32 bits in the byte order of the
/// supported processors.
fn hexadecimal(address: IpAddr) -> String {
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let words = bytes.chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]);
    words.map(|word| format!("{:08X}", u32::from_le_bytes(word))).collect()
}

/// The threads of a process that answer requests, at most `most` of them.
fn answering(process: &Path, most: usize) -> Vec<(RunAccount, RunTimes)> {
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let named = tasks.map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        (name, task.path().join("schedstat"))
    });
    let named: Vec<(String, PathBuf)> = named.collect();
    let has_loops = named.iter().any(|(name, _)| name.starts_with(EVENT_LOOP));
    let answers = |name: &str| match has_loops {
        true => name.starts_with(EVENT_LOOP),
        false => !name.starts_with(GENERATOR),
    };
    let answering = named.iter().filter(|(name, _)| answers(name));
    let accounts = answering.filter_map(|(_, path)| RunAccount::open(path).ok());
    let accounts = accounts.filter_map(|account| account.times().map(|times| (account, times)));
    accounts.take(most).collect()
}

/// The ticks of all processors, and those of processes.
fn machine_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|text| text.parse().ok()).collect();
    // User, nice, system; then idle and others. Guests are in the first two, too.
    let [user, nice, system, ..] = ticks[..] else { return None };
    Some((ticks.iter().take(8).sum(), user + nice + system))
}

/// The ticks that a process has used.
fn process_ticks(process: &Path) -> u64 {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The name may hold spaces; what follows its closing parenthesis does not.
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.map_while(|text| text.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::{Domain, Type};

    use super::*;

    /// This process. Others may hold its sockets, too: the children of other tests do until they
    /// execute their program.
    fn own() -> PathBuf {
        PathBuf::from("/proc").join(std::process::id().to_string())
    }

    #[test]
    fn a_server_on_this_machine_is_found_by_its_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut around = HostMonitor::of(&listener.local_addr().unwrap().into());
        assert!(around.server.as_ref().unwrap().processes.contains(&own()));
        around.begin();
        let share = around.others_share().unwrap();
        assert!((0.0..=1.0).contains(&share), "{share}");
        // An address that is reserved for documentation, so nobody has it.
        assert!(!HostMonitor::of(&"192.0.2.1:80".parse().unwrap()).has_server());
    }

    /// Regression: of a server with several processes, one was watched, and the others counted as
    /// other programs.
    #[test]
    fn all_processes_that_share_a_socket_are_the_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = std::os::fd::OwnedFd::from(listener.try_clone().unwrap());
        let child = std::process::Command::new("sleep").arg("60").stdin(shared).spawn();
        let mut child = child.unwrap();
        let around = HostMonitor::of(&listener.local_addr().unwrap().into());
        child.kill().unwrap();
        child.wait().unwrap();
        let found = &around.server.as_ref().unwrap().processes;
        let expected = [own(), Path::new("/proc").join(child.id().to_string())];
        assert!(expected.iter().all(|process| found.contains(process)), "{found:?}");
    }

    /// Regression: a local server that could not be found, such as one of another user, counted as
    /// other programs.
    #[test]
    fn beside_a_local_server_that_is_not_found_the_others_are_not_known() {
        // The socket keeps the port from other tests, and does not listen.
        let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let mut around = HostMonitor::of(&address.into());
        around.begin();
        assert!(!around.has_server());
        assert_eq!(around.others_share(), None);
    }

    #[test]
    fn a_server_at_a_unix_socket_is_found_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address: Address = format!("unix:{}", path.display()).parse().unwrap();
        assert!(!HostMonitor::of(&address).has_server());
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let around = HostMonitor::of(&address);
        assert!(around.server.as_ref().unwrap().processes.contains(&own()));
    }

    /// Regression: the threads of the first process left no room for those of the others.
    #[test]
    fn no_more_threads_of_a_process_than_its_share_are_watched() {
        let (_release, released) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || released.recv());
        assert_eq!(answering(&own(), 1).len(), 1);
        assert!(answering(&own(), THREADS_MAX).len() > 1);
    }

    #[test]
    fn tables_of_the_kernel_are_read() {
        let table = "sl local_address rem_address st tx rx tr tm retr uid timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 77 1\n\
             1: 0100007F:1F90 0100007F:9999 01 0:0 0:0 0 0 0 78 1\n\
             2: 00000000:1F90 00000000:0000 0A 0:0 0:0 0 0 0 79 1\n\
             3: 0200007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 80 1\n";
        let at = |address: &str| listening(table, address.parse().unwrap());
        assert_eq!((at("127.0.0.1:8080"), at("127.0.0.1:80")), (vec!["77", "79"], vec![]));
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
             0: 00000002 00000000 00010000 0001 01   77 /run/x.sock\n\
             0: 00000003 00000000 00000000 0001 03   78 /run/x.sock\n\
             0: 00000003 00000000 00000000 0001 03   79\n\
             0: 00000002 00000000 00010000 0001 01   80 /run/y.sock\n";
        assert_eq!(listening_at_file(table, Path::new("/run/x.sock")), ["77"]);
        let loopback = hexadecimal("::1".parse().unwrap());
        assert_eq!(loopback, "00000000000000000000000001000000");
        let stat = "cpu  10 20 30 400 5 6 7 8 9 9\ncpu0 1 2";
        assert_eq!(machine_ticks(stat), Some((486, 60)));
    }

    /// The counts of threads are read from files, so that the test can write any.
    #[test]
    fn the_waits_of_a_server_are_weighted_by_the_time_that_its_threads_want_to_run() {
        let folder = tempfile::tempdir().unwrap();
        let tell = |thread: usize, ran_ms: u64, waited_ms: u64| {
            let line = format!("{} {} 1\n", ran_ms * 1_000_000, waited_ms * 1_000_000);
            fs::write(folder.path().join(thread.to_string()), line).unwrap();
        };
        let mut server =
            Server { processes: Vec::new(), threads: Vec::new(), waits: Waits::default() };
        for thread in 0..3 {
            tell(thread, 100, 1_000);
            let account = RunAccount::open(&folder.path().join(thread.to_string())).unwrap();
            server.threads.push((account, RunTimes::default()));
        }
        server.look(0);
        server.waits = Waits::default();
        // One thread waits for all of the time that it wants to run, one for a quarter, and one
        // sleeps.
        tell(0, 100, 1_040);
        tell(1, 130, 1_010);
        server.look(40_000_000);
        let mut expected = Waits::default();
        expected.note(40_000_000, 25_000_000);
        assert_eq!(format!("{:?}", server.waits), format!("{expected:?}"));
    }
}
