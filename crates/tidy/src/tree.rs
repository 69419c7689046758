//! Reads the files of the repository for the checks.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of cargo's lock files. Cargo writes them, so only the checks of packages read them.
pub(crate) const LOCK_NAME: &str = "Cargo.lock";

/// A file and its contents.
#[derive(Debug)]
pub(crate) struct File {
    /// The path from the top of the tree, with slashes.
    pub(crate) path: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

impl File {
    /// The contents as text; `None` if the file is not UTF-8 or contains a zero byte.
    pub(crate) fn text(&self) -> Option<&str> {
        let is_text = !self.bytes.contains(&0);
        std::str::from_utf8(&self.bytes).ok().filter(|_| is_text)
    }

    /// The lines with their numbers from 1; empty if the file is no text.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text().unwrap_or("").lines().zip(1..).map(|(line, number)| (number, line))
    }

    /// The extension of the name without the dot; empty if there is none.
    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|end| end.to_str()).unwrap_or("")
    }

    /// The name of the file without its folder.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or("")
    }

    /// The package of the workspace that the file belongs to, and the path within the package.
    pub(crate) fn in_package(&self) -> Option<(&str, &str)> {
        let (folder, rest) = self.path.split_once('/')?;
        let (name, rest) = rest.split_once('/')?;
        let is_apart = folder == "lab" && APART.contains(&name);
        (PACKAGES.contains(&folder) && !is_apart).then_some((name, rest))
    }

    /// The package if the file is one of its sources, below `src`.
    pub(crate) fn source_of(&self) -> Option<&str> {
        let (name, rest) = self.in_package()?;
        rest.starts_with("src/").then_some(name)
    }

    /// The first line of the tests: 0 if the whole file is tests, `usize::MAX` if it has none.
    pub(crate) fn tests_from(&self) -> usize {
        let folder_of_tests = self.path.split('/').any(|part| part == "tests");
        if folder_of_tests || self.name() == "tests.rs" {
            return 0;
        }
        let mark = self.lines().find(|(_, line)| line.trim() == "#[cfg(test)]");
        mark.map_or(usize::MAX, |(number, _)| number)
    }
}

/// The folders of packages.
const PACKAGES: &[&str] = &["crates", "backends", "lab"];
/// Folders of `lab` that are not packages of the workspace.
const APART: &[&str] = &["bench", "drivers"];

/// The files of a repository.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The top of the working tree.
    pub(crate) root: PathBuf,
    /// The files, ordered by path.
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Reads the files of the repository around `directory`: those that git tracks, and new ones
    /// that it does not ignore.
    ///
    /// # Errors
    /// If `directory` is in no repository, git fails, or a file cannot be read.
    pub(crate) fn around(directory: &Path) -> io::Result<Tree> {
        let top = git(directory, &["rev-parse", "--show-toplevel"])?;
        let root = PathBuf::from(top.trim_end());
        let listed = git(&root, &["ls-files", "-z", "-co", "--exclude-standard"])?;
        let mut paths: Vec<_> = listed.split_terminator('\0').map(str::to_owned).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            let place = root.join(&path);
            // A tracked file may be missing in the working tree, and links are not followed.
            if place.symlink_metadata().is_ok_and(|facts| facts.is_file()) {
                files.push(File { path, bytes: std::fs::read(place)? });
            }
        }
        Ok(Tree { root, files })
    }

    /// The file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The files that people wrote: all except the lock files.
    pub(crate) fn written(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.name() != LOCK_NAME)
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.extension() == "rs")
    }
}

/// Runs git in `directory` and returns its output.
pub(crate) fn git(directory: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("git").arg("-C").arg(directory).args(arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("git {}: {said}", arguments.join(" "))));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| io::Error::other("git printed a path that is not UTF-8: rename the file"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes a tree of these paths and texts.
    pub(crate) fn tree_of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        Tree { root: PathBuf::new(), files: files.iter().map(file).collect() }
    }

    #[test]
    fn ignored_files_are_left_out_and_new_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        git(folder.path(), &["init", "-q"]).unwrap();
        write(".gitignore", "out\n").unwrap();
        write("new.rs", "new").unwrap();
        write("out", "built").unwrap();
        let tree = Tree::around(folder.path()).unwrap();
        let paths: Vec<_> = tree.files.iter().map(|file| &file.path[..]).collect();
        assert_eq!(paths, [".gitignore", "new.rs"]);
    }

    #[test]
    fn tests_begin_at_their_attribute() {
        let tree = tree_of(&[
            ("crates/a/src/b.rs", "//! B.\nfn b() {}\n#[cfg(test)]\nmod tests {}\n"),
            ("crates/a/src/b/tests.rs", "fn b() {}\n"),
            ("crates/a/src/c.rs", "fn c() {}\n"),
        ]);
        let starts: Vec<_> = tree.files.iter().map(File::tests_from).collect();
        assert_eq!(starts, [3, 0, usize::MAX]);
        assert_eq!(tree.files[0].source_of(), Some("a"));
    }
}
