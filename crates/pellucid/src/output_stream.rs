//! The output of a command's data: standard output, or a file.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write, stdout};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use tempfile::NamedTempFile;

use crate::Failure;

/// The folder in which each open file has a path.
const OPEN_FILES: &str = "/proc/self/fd";
/// The prefix of the name of an incomplete file.
const PART_PREFIX: &str = ".pellucid-part-";
/// The mode of a new file, before the process's umask.
const FILE_RIGHTS: u32 = 0o666;
/// The mode of an incomplete file that is to replace another one.
const PRIVATE_RIGHTS: u32 = 0o600;

/// An output for data. If the reader of a pipe closes it early, that is no failure.
pub(crate) struct OutputStream {
    to: OutputDestination,
    name: String,
    is_closed: bool,
}

enum OutputDestination {
    Standard(io::StdoutLock<'static>),
    /// A file without a name, which is gone if the process ends, and the path that it gets once it
    /// is complete.
    Unnamed(File, PathBuf),
    /// The same with a temporary name, where the file system has no files without one.
    Named(NamedTempFile, PathBuf),
    /// An existing path that is no regular file, such as a pipe or a device.
    Special(File),
}

impl OutputStream {
    pub(crate) fn standard() -> OutputStream {
        let name = "standard output".to_owned();
        OutputStream { to: OutputDestination::Standard(stdout().lock()), name, is_closed: false }
    }

    /// Opens a file for writing. It gets its new content at once in [`OutputStream::end`], and
    /// keeps its mode; if something fails before, an existing file is unchanged.
    pub(crate) fn file(path: &Path) -> Result<OutputStream, Failure> {
        let name = path.display().to_string();
        let opened = open(path).map_err(|error| Failure::work(unwritable(&name, &error)))?;
        Ok(OutputStream { to: opened, name, is_closed: false })
    }

    /// Writes bytes; returns false if the reader of a pipe has closed it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let written = match &mut self.to {
            OutputDestination::Standard(out) => out.write_all(bytes),
            OutputDestination::Named(file, _) => file.write_all(bytes),
            OutputDestination::Unnamed(file, _) | OutputDestination::Special(file) => {
                file.write_all(bytes)
            }
        };
        self.note(written)
    }

    /// Writes bytes and flushes standard output, for a reader who waits for them. Returns false if
    /// the reader of a pipe has closed it.
    pub(crate) fn write_now(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let is_read = self.write(bytes)?;
        if let OutputDestination::Standard(out) = &mut self.to {
            let flushed = out.flush();
            return self.note(flushed);
        }
        Ok(is_read)
    }

    /// Completes the output: flushes standard output, or syncs a file and gives it its name.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        if let OutputDestination::Standard(out) = &mut self.to {
            let flushed = out.flush();
            self.note(flushed)?;
        }
        let kept = match self.to {
            OutputDestination::Unnamed(file, path) => {
                file.sync_all().and_then(|()| give_name(&file, &path))
            }
            OutputDestination::Named(file, path) => {
                let synced = file.as_file().sync_all();
                synced.and_then(|()| file.persist(path).map(drop).map_err(|error| error.error))
            }
            OutputDestination::Standard(_) | OutputDestination::Special(_) => Ok(()),
        };
        kept.map_err(|error| Failure::work(unwritable(&self.name, &error)))
    }

    fn note(&mut self, written: io::Result<()>) -> Result<bool, String> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.is_closed = true,
            other => other.map_err(|error| unwritable(&self.name, &error))?,
        }
        Ok(!self.is_closed)
    }
}

fn open(path: &Path) -> io::Result<OutputDestination> {
    let there = fs::metadata(path).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return File::options().write(true).open(path).map(OutputDestination::Special);
    }
    // A symbolic link stays a link: the file that it points to gets the data.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let keep = |file: &File| there.as_ref().map_or(Ok(()), |there| keep_rights(file, there));
    let rights = if there.is_none() { FILE_RIGHTS } else { PRIVATE_RIGHTS };
    if let Ok(file) = unnamed(folder_of(&path), rights) {
        keep(&file)?;
        return Ok(OutputDestination::Unnamed(file, path));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(PART_PREFIX).permissions(Permissions::from_mode(rights));
    let file = builder.tempfile_in(folder_of(&path))?;
    keep(file.as_file())?;
    Ok(OutputDestination::Named(file, path))
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Creates a file without a name on the file system of `folder`.
fn unnamed(folder: &Path, rights: u32) -> io::Result<File> {
    // Without this folder, the file could not get its name later.
    fs::metadata(OPEN_FILES)?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::from_raw_mode(rights))?.into())
}

/// Gives a file without a name this path, and replaces the file that is there.
fn give_name(file: &File, path: &Path) -> io::Result<()> {
    let opened = format!("{OPEN_FILES}/{}", file.as_raw_fd());
    let link = |name: &Path| {
        let linked = linkat(CWD, opened.as_str(), CWD, name, AtFlags::SYMLINK_FOLLOW);
        linked.map_err(io::Error::from)
    };
    // A link replaces nothing, but a rename does.
    let named = tempfile::Builder::new().prefix(PART_PREFIX).make_in(folder_of(path), link)?;
    named.persist(path).map_err(|error| error.error)
}

/// Gives `file` the owner and the mode of the file that it replaces.
fn keep_rights(file: &File, there: &Metadata) -> io::Result<()> {
    // Only root may give files away; others keep at least a group that they belong to. What the
    // group may is for that group alone.
    let has_group = fchown(file, None, Some(there.gid())).is_ok();
    let rights = if has_group { 0o777 } else { 0o707 };
    file.set_permissions(Permissions::from_mode(there.mode() & rights))?;
    let _ = fchown(file, Some(there.uid()), None);
    Ok(())
}

fn unwritable(name: &str, error: &io::Error) -> String {
    format!("cannot write to {name}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a file that only its owner could read was readable for all after an export.
    #[test]
    fn a_replaced_file_keeps_its_mode() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("out");
        for mode in [0o600, 0o640, 0o666] {
            fs::write(&path, "before").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let mut out = OutputStream::file(&path).unwrap();
            assert!(out.write(b"after").unwrap());
            out.end().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"after");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, mode);
        }
    }

    /// Regression: a process that a signal ended left a hidden file with all data so far.
    #[test]
    fn an_incomplete_file_has_no_name() {
        let folder = tempfile::TempDir::new().unwrap();
        // Some file systems have only files with names.
        let names = usize::from(unnamed(folder.path(), FILE_RIGHTS).is_err());
        let mut out = OutputStream::file(&folder.path().join("out")).unwrap();
        assert!(out.write(b"data").unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), names);
        out.end().unwrap();
        assert_eq!(fs::read(folder.path().join("out")).unwrap(), b"data");
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_complete() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "before").unwrap();
        let mut out = OutputStream::file(&path).unwrap();
        assert!(out.write(b"after").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"before");
        drop(out);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        let mut out = OutputStream::file(&path).unwrap();
        assert!(out.write(b"after").unwrap());
        out.end().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut out = OutputStream::file(&link).unwrap();
        assert!(out.write(b"by a link").unwrap());
        out.end().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"by a link");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let failure = OutputStream::file(&folder.path().join("none/out")).err().unwrap();
        assert!(failure.text.contains("none/out"), "{}", failure.text);
    }
}
