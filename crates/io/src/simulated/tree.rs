//! The names of files and directories: the live ones, and those on the medium.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::Content;

/// All directories and names of a simulated file system.
#[derive(Default)]
pub(crate) struct Tree {
    directories: BTreeSet<PathBuf>,
    /// The directories that are on the medium.
    durable_directories: BTreeSet<PathBuf>,
    live: BTreeMap<PathBuf, Arc<Content>>,
    durable: BTreeMap<PathBuf, Arc<Content>>,
    /// The names that may differ between `live` and `durable`.
    changed: BTreeSet<PathBuf>,
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} does not exist", path.display()))
}

/// True for the root of absolute or relative paths, which always exists.
fn is_root(path: &Path) -> bool {
    path.parent().is_none()
}

fn is_within(path: &Path, directories: &BTreeSet<PathBuf>) -> bool {
    path.parent().is_none_or(|parent| is_root(parent) || directories.contains(parent))
}

impl Tree {
    pub(crate) fn find(&self, path: &Path) -> io::Result<Arc<Content>> {
        self.live.get(path).cloned().ok_or_else(|| not_found(path))
    }

    pub(crate) fn create(&mut self, path: &Path) -> io::Result<Arc<Content>> {
        self.check_parent(path)?;
        if let Some(content) = self.live.get(path) {
            content.truncate();
            return Ok(Arc::clone(content));
        }
        let content = Arc::new(Content::new(&[]));
        self.live.insert(path.to_path_buf(), Arc::clone(&content));
        self.changed.insert(path.to_path_buf());
        Ok(content)
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_parent(to)?;
        let content = self.live.remove(from).ok_or_else(|| not_found(from))?;
        self.live.insert(to.to_path_buf(), content);
        self.changed.extend([from, to].map(Path::to_path_buf));
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.live.remove(path).ok_or_else(|| not_found(path))?;
        self.changed.insert(path.to_path_buf());
        Ok(())
    }

    pub(crate) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_parent(to)?;
        let content = self.find(from)?;
        if self.live.contains_key(to) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        self.live.insert(to.to_path_buf(), content);
        self.changed.insert(to.to_path_buf());
        Ok(())
    }

    /// Returns an error if a file at `path` would be in a directory that does not exist.
    fn check_parent(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if self.is_directory(parent) { Ok(()) } else { Err(not_found(parent)) }
    }

    fn is_directory(&self, path: &Path) -> bool {
        is_root(path) || self.directories.contains(path)
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.live.contains_key(path) || self.is_directory(path)
    }

    pub(crate) fn create_directory(&mut self, directory: &Path) {
        self.directories.extend(directory.ancestors().map(Path::to_path_buf));
    }

    pub(crate) fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        if !self.is_directory(directory) {
            return Err(not_found(directory));
        }
        let names = self.live.keys().filter(|path| path.parent() == Some(directory));
        let names = names.filter_map(|path| path.file_name());
        Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
    }

    pub(crate) fn sync_directory(&mut self, directory: &Path) {
        let within = |path: &&PathBuf| path.parent() == Some(directory);
        self.durable_directories.extend(self.directories.iter().filter(within).cloned());
        self.changed.retain(|path| path.parent() != Some(directory));
        self.durable.retain(|path, _| path.parent() != Some(directory));
        for (path, content) in &self.live {
            if path.parent() == Some(directory) {
                self.durable.insert(path.clone(), Arc::clone(content));
            }
        }
    }

    /// Writes some sectors and names back to the medium, as a system may do at any time.
    pub(crate) fn write_back(&mut self, survives: &mut impl FnMut() -> bool) {
        self.live.values().for_each(|content| content.write_back(survives));
        let unsynced = self.directories.difference(&self.durable_directories);
        let carried: Vec<_> = unsynced.filter(|_| survives()).cloned().collect();
        self.durable_directories.extend(carried);
        self.changed.retain(|path| {
            let is_carried = survives();
            if is_carried {
                match self.live.get(path) {
                    Some(content) => self.durable.insert(path.clone(), Arc::clone(content)),
                    None => self.durable.remove(path),
                };
            }
            !is_carried
        });
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.live.values().map(|content| content.length() as u64).sum()
    }

    /// The tree that the next process finds: everything live, with the same unsynced state.
    pub(crate) fn after_kill(&self) -> Tree {
        let mut copies: Vec<(*const Content, Arc<Content>)> = Vec::new();
        let mut copy = |content: &Arc<Content>| {
            let pointer = Arc::as_ptr(content);
            if let Some((_, copied)) = copies.iter().find(|(known, _)| *known == pointer) {
                return Arc::clone(copied);
            }
            let copied = Arc::new(content.after_kill());
            copies.push((pointer, Arc::clone(&copied)));
            copied
        };
        let live = self.live.iter().map(|(path, content)| (path.clone(), copy(content))).collect();
        let durable =
            self.durable.iter().map(|(path, content)| (path.clone(), copy(content))).collect();
        let (directories, changed) = (self.directories.clone(), self.changed.clone());
        let durable_directories = self.durable_directories.clone();
        Tree { directories, durable_directories, live, durable, changed }
    }

    /// The tree found after a loss of power. Each name has its old or its new state. A directory
    /// that does not survive takes its contents with it.
    pub(crate) fn after_crash(&self, survives: &mut impl FnMut() -> bool) -> Tree {
        let mut directories = BTreeSet::new();
        // A directory comes before those within it, by the order of paths.
        for directory in &self.directories {
            let is_durable = self.durable_directories.contains(directory) || is_root(directory);
            if is_within(directory, &directories) && (is_durable || survives()) {
                directories.insert(directory.clone());
            }
        }
        let paths: BTreeSet<&PathBuf> = self.live.keys().chain(self.durable.keys()).collect();
        let mut found: BTreeMap<PathBuf, Arc<Content>> = BTreeMap::new();
        for path in paths {
            let (new, old) = (self.live.get(path), self.durable.get(path));
            let is_same = new.map(Arc::as_ptr) == old.map(Arc::as_ptr);
            let chosen = if is_same || !survives() { old } else { new };
            if let Some(content) = chosen.filter(|_| is_within(path, &directories)) {
                let after = Content::new(&content.after_crash(survives));
                after.fail_reads_as(content);
                found.insert(path.clone(), Arc::new(after));
            }
        }
        let (durable_directories, live) = (directories.clone(), found.clone());
        let changed = BTreeSet::new();
        Tree { directories, durable_directories, live, durable: found, changed }
    }
}
