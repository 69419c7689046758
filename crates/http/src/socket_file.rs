//! Files of Unix sockets: creates them with their mode, replaces those of dead servers, and removes
//! them.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// The file of a listening Unix socket. Dropping this removes the file.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The device and inode of the file, because another file may have taken its place.
    identity: (u64, u64),
}

impl SocketFile {
    /// Listens at `path`, with a queue of `backlog` connections. Users who may write to the file,
    /// by its `mode`, may connect.
    ///
    /// # Errors
    /// If a server listens there, the file exists and is not a socket, or it cannot be created.
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
        // Nobody can connect before it listens, so that the default mode never takes effect.
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
            // If the removal fails, the next server replaces the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Removes the file at `path` if it is a socket without a listener. Any other file is an error.
fn make_room(path: &Path, address: &SockAddr) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let text = "the file exists and is not a socket: it is not replaced";
        return Err(io::Error::new(ErrorKind::AlreadyExists, text));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    let in_use = || io::Error::new(ErrorKind::AddrInUse, "it is in use: a server listens there");
    match probe.connect(address) {
        Ok(()) => Err(in_use()),
        // The queue of its listener is full.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(in_use()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => {
            let text = format!("there is a socket, and it is unknown if it is in use: {error}");
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
    fn the_file_has_its_mode_and_is_removed_with_its_listener() {
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
        // The file of a dead listener stays behind.
        drop(UnixListener::bind(&path).unwrap());
        let (_file, _listener) = SocketFile::listen(&path, 0o600, BACKLOG).unwrap();
        // Each probe stays in its queue; a full queue still counts as in use.
        for attempt in 0..BACKLOG + 4 {
            let error = SocketFile::listen(&path, 0o600, BACKLOG).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::AddrInUse, "attempt {attempt}: {error}");
        }
        assert!(path.exists());
    }

    #[test]
    fn files_of_other_kinds_are_not_replaced() {
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
        // A socket of another type is not replaced either.
        let _other = UnixDatagram::bind(path("datagrams")).unwrap();
        assert!(SocketFile::listen(&path("datagrams"), 0o600, BACKLOG).is_err());
        assert!(path("datagrams").exists());
    }

    /// A server that ends late must not remove the file of the server that has replaced it.
    #[test]
    fn the_file_of_another_server_is_not_removed() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("socket");
        let (ended, _listener) = SocketFile::listen(&path, 0o600, BACKLOG).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(ended);
        assert!(path.exists());
    }
}
