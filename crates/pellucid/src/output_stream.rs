//! The output of a command's data: standard output, or a file.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write, stdout};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::Failure;

/// The prefix of the name of an incomplete file.
const PART_PREFIX: &str = ".pellucid-part-";
/// The mode of a new file, before the process's umask.
const FILE_RIGHTS: u32 = 0o666;

/// An output for data. If the reader of a pipe closes it early, that is no failure.
pub(crate) struct OutputStream {
    to: OutputDestination,
    name: String,
    is_closed: bool,
}

enum OutputDestination {
    Standard(io::StdoutLock<'static>),
    /// A temporary file, and the path that it is renamed to once it is complete.
    File(NamedTempFile, PathBuf),
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
            OutputDestination::File(file, _) => file.write_all(bytes),
            OutputDestination::Special(file) => file.write_all(bytes),
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
        let OutputStream { to: OutputDestination::File(file, path), name, .. } = self else {
            return Ok(());
        };
        let synced = file.as_file().sync_all();
        let kept = synced.and_then(|()| file.persist(path).map_err(|error| error.error));
        kept.map_err(|error| Failure::work(unwritable(&name, &error)))?;
        Ok(())
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
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(PART_PREFIX);
    if there.is_none() {
        builder.permissions(Permissions::from_mode(FILE_RIGHTS));
    }
    let file = builder.tempfile_in(folder)?;
    if let Some(there) = there {
        keep_rights(file.as_file(), &there)?;
    }
    Ok(OutputDestination::File(file, path))
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
