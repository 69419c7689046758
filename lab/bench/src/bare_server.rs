//! A minimal server: it waits, reads, and sends a constant, without looking at the request. It is
//! the limit of one thread with epoll, and the baseline for real servers.

use std::io::Error;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

use crate::peers::{BODY_BYTES, text};

/// The most events per call of epoll.
const EVENTS_MAX: usize = 1_024;

/// Serves on `port` of the loopback address until the process ends.
pub fn serve(port: u16) -> Result<(), String> {
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n{}",
        "v".repeat(BODY_BYTES)
    );
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(text)?;
    listener.set_nonblocking(true).map_err(text)?;
    // SAFETY: the call has no other effect than its result.
    let epoll = unsafe { libc::epoll_create1(0) };
    watch(epoll, listener.as_raw_fd())?;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
    loop {
        // SAFETY: the array has room for as many events as are asked for.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), EVENTS_MAX as i32, -1) };
        for event in events.iter().take(count.max(0) as usize) {
            let descriptor = event.u64 as RawFd;
            if descriptor != listener.as_raw_fd() {
                answer_one(descriptor, answer.as_bytes());
                continue;
            }
            while let Ok((socket, _)) = listener.accept() {
                socket.set_nonblocking(true).map_err(text)?;
                socket.set_nodelay(true).map_err(text)?;
                pace_locally(socket.as_raw_fd());
                watch(epoll, socket.into_raw_fd())?;
            }
        }
    }
}

/// Sets the same congestion control as Pellucid for connections within one machine, so that both
/// are paced alike.
fn pace_locally(descriptor: RawFd) {
    let name = b"reno";
    // SAFETY: the descriptor is open, and `name` has the given length. If the system does not
    // support this congestion control, the connection keeps its default.
    unsafe {
        let length = name.len() as libc::socklen_t;
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
        libc::setsockopt(descriptor, level, option, name.as_ptr().cast(), length);
    }
}

fn answer_one(descriptor: RawFd, answer: &[u8]) {
    let mut request = [0_u8; 4_096];
    // SAFETY: the descriptor is a connection that is closed only here, and the buffers have the
    // given lengths.
    unsafe {
        if libc::read(descriptor, request.as_mut_ptr().cast(), request.len()) > 0 {
            libc::write(descriptor, answer.as_ptr().cast(), answer.len());
        } else {
            libc::close(descriptor);
        }
    }
}

fn watch(epoll: RawFd, descriptor: RawFd) -> Result<(), String> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: descriptor as u64 };
    // SAFETY: both descriptors are open, and the event outlives the call.
    let outcome = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, descriptor, &mut event) };
    if outcome == 0 { Ok(()) } else { Err(text(Error::last_os_error())) }
}
