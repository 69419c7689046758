//! Files of Unix sockets: made with their mode, in the place of a dead server's, and removed.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// The file of a socket that is listened on. It is removed with this.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode: another file may have taken its place.
    identity: (u64, u64),
}

impl SocketFile {
    /// Listens at `path`, with a queue of `backlog` connections. The right to write to the file,
    /// by its mode, is the right to connect.
    ///
    /// # Errors
    /// If somebody listens there, what is there is no socket, or the file cannot be made.
    pub(crate) fn listen(
        path: &Path,
        mode: u32,
        backlog: i32,
    ) -> io::Result<(SocketFile, UnixListener)> {
        let address = SockAddr::unix(path)?;
        make_room(path, &address)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&address)?;
        let identity = identity(&fs::symlink_metadata(path)?);
        let file = SocketFile { path: path.to_owned(), identity };
        // Nobody connects before it listens, so nobody comes in by the mode that it was made with.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        socket.listen(backlog)?;
        socket.set_nonblocking(true)?;
        Ok((file, UnixListener::from(OwnedFd::from(socket))))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| identity(&found) == self.identity) {
            // One that stays is replaced by the next server.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Removes the file of a socket on which nobody listens any more, and no other.
fn make_room(path: &Path, address: &SockAddr) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let text = "there is something that is no socket, and it stays";
        return Err(io::Error::new(ErrorKind::AlreadyExists, text));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    let in_use = || io::Error::new(ErrorKind::AddrInUse, "it is in use: a server listens there");
    match probe.connect(address) {
        Ok(()) => Err(in_use()),
        // Its queue of connections is full.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(in_use()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => {
            let text = format!("there is a socket, and nobody knows if it is in use: {error}");
            Err(io::Error::new(error.kind(), text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use tempfile::TempDir;

    use super::*;

    const BACKLOG: i32 = 1;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn the_file_has_its_mode_and_goes_with_its_listener() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("socket");
        for expected in [0o600, 0o666] {
            let (file, _listener) = SocketFile::listen(&path, expected, BACKLOG).unwrap();
            assert_eq!(mode(&path), expected);
            UnixStream::connect(&path).unwrap();
            drop(file);
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("socket");
        // The file of a listener that nobody removed.
        drop(UnixListener::bind(&path).unwrap());
        let (_file, _listener) = SocketFile::listen(&path, 0o600, BACKLOG).unwrap();
        // Its queue fills up, and it is no less alive.
        for attempt in 0..BACKLOG + 4 {
            let error = SocketFile::listen(&path, 0o600, BACKLOG).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::AddrInUse, "attempt {attempt}: {error}");
        }
        assert!(path.exists());
    }

    #[test]
    fn nothing_else_is_touched() {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        let target = path("target");
        drop(UnixListener::bind(&target).unwrap());
        fs::write(path("file"), "of somebody").unwrap();
        fs::create_dir(path("folder")).unwrap();
        std::os::unix::fs::symlink(&target, path("link")).unwrap();
        for name in ["file", "folder", "link"] {
            let error = SocketFile::listen(&path(name), 0o600, BACKLOG).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{name}: {error}");
        }
        assert_eq!(fs::read(path("file")).unwrap(), b"of somebody");
        assert!(path("folder").is_dir() && path("link").is_symlink() && target.exists());
        // A socket of another kind is nobody's to replace while it is in use.
        let _other = UnixDatagram::bind(path("datagrams")).unwrap();
        assert!(SocketFile::listen(&path("datagrams"), 0o600, BACKLOG).is_err());
        assert!(path("datagrams").exists());
    }

    /// A server that ended late would have taken the file of the one that had replaced it.
    #[test]
    fn the_file_of_another_stays() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("socket");
        let (ended, _listener) = SocketFile::listen(&path, 0o600, BACKLOG).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(ended);
        assert!(path.exists());
    }
}
