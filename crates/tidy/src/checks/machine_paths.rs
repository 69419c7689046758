//! Finds paths of a developer's machine and hosts of package registries: neither works for
//! everybody. The words are concatenated from pieces, so that the check does not find this file.

use crate::finding::Finding;
use crate::tree::Tree;

const FOLDERS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

const HOSTS: &[&str] = &[
    concat!("static", ".crates.io"),
    concat!("index", ".crates.io"),
    concat!("registry", ".npmjs.org"),
    concat!("files", ".pythonhosted.org"),
    concat!("py", "pi.org"),
    concat!("repo.maven", ".apache.org"),
    concat!("repo1.maven", ".org"),
    concat!("proxy.go", "lang.org"),
    concat!("deb.deb", "ian.org"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.written() {
        for (number, line) in file.lines() {
            if let Some(folder) = FOLDERS.iter().find(|folder| begins_a_path(line, folder)) {
                let what = format!("a path of one machine, `{folder}…`");
                let cure = "make it relative, or take it from the environment";
                findings.push(Finding::new(&file.path, number, what, cure));
            }
            if let Some(host) = HOSTS.iter().find(|host| line.contains(**host)) {
                let what = format!("the host of a package registry, `{host}`");
                let cure = "leave it to the tool: people build behind mirrors";
                findings.push(Finding::new(&file.path, number, what, cure));
            }
        }
    }
    findings
}

/// Returns true if a path in `line` begins with `folder`; a folder of that name inside a path does
/// not count.
fn begins_a_path(line: &str, folder: &str) -> bool {
    let goes_on = |letter: char| letter.is_alphanumeric() || "._-~})*]>".contains(letter);
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(goes_on))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn paths_and_hosts_are_found() {
        for folder in FOLDERS {
            let text = format!("fine\ncd {folder}somewhere\n");
            let findings = check(&tree_of(&[("a.md", &text)]));
            assert_eq!(findings.len(), 1, "{folder}");
            assert_eq!(findings[0].line, 2);
            let through = format!("curl http://example.com{folder}a\n$HOME{folder}b ..{folder}c");
            assert_eq!(check(&tree_of(&[("a.md", &through)])), []);
        }
        for host in HOSTS {
            let text = format!("url = \"https://{host}/a\"");
            assert_eq!(check(&tree_of(&[("a.toml", &text)])).len(), 1, "{host}");
            assert_eq!(check(&tree_of(&[("Cargo.lock", &text)])).len(), 0, "{host}");
        }
    }
}
