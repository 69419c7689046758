//! Checks links between documents: the file and the heading must exist.

use crate::finding::Finding;
use crate::markdown::{Link, anchors, links, resolved};
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let documents = tree.files.iter().filter(|file| file.extension() == "md");
    let dead = |file| links(file).into_iter().filter_map(move |link| finding(tree, file, link));
    documents.flat_map(dead).collect()
}

/// Returns a finding if the target of the link does not exist.
fn finding(tree: &Tree, document: &File, link: Link<'_>) -> Option<Finding> {
    let (path, heading) = link.within()?;
    let target = resolved(&document.path, path).and_then(|path| tree.file(&path));
    let Some(target) = target else {
        let what = format!("there is no file `{path}`");
        let cure = "name one that is there, by its path from this document; a folder is none";
        return Some(Finding::new(&document.path, link.line, what, cure));
    };
    if heading.is_empty() || anchors(target).contains(heading) {
        return None;
    }
    let what = format!("{} has no heading `#{heading}`", target.path);
    let cure = "write a heading in small letters, with dashes for spaces, without other signs";
    Some(Finding::new(&document.path, link.line, what, cure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    #[test]
    fn links_to_missing_files_and_headings_are_found() {
        let tree = tree_of(&[
            ("README.md", "# A\n[b](docs/b.md#c-d), [e](docs/f.md), [g](#a)\n[h](docs/)\n"),
            ("docs/b.md", "## C d\n[a](../README.md#b) [i](http://j.k/l.md#m)\n[n](../../o.md)\n"),
        ]);
        let findings = check(&tree);
        let found: Vec<_> =
            findings.iter().map(|found| (&found.path[..], found.line, &found.what[..])).collect();
        let expected = [
            ("README.md", 2, "there is no file `docs/f.md`"),
            ("README.md", 3, "there is no file `docs/`"),
            ("docs/b.md", 2, "README.md has no heading `#b`"),
            ("docs/b.md", 3, "there is no file `../../o.md`"),
        ];
        assert_eq!(found, expected);
    }
}
