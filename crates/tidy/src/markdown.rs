//! Parses the headings, links and code of Markdown documents.

use std::collections::BTreeSet;

use crate::tree::File;

/// A link of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The target as written: a URL, or a path and a heading.
    pub(crate) target: &'a str,
}

impl<'a> Link<'a> {
    /// The path and the heading of the target, either of which may be empty; `None` for a URL of
    /// another site.
    pub(crate) fn within(self) -> Option<(&'a str, &'a str)> {
        let is_address = self.target.contains("://") || self.target.starts_with("mailto:");
        (!is_address).then(|| self.target.split_once('#').unwrap_or((self.target, "")))
    }
}

/// The links of a document, without those in code.
pub(crate) fn links(file: &File) -> Vec<Link<'_>> {
    let prose = lines(file).filter(|(_, _, is_code)| !is_code);
    let links = prose.flat_map(|(line, text, _)| {
        targets(text).into_iter().map(move |target| Link { line, target })
    });
    links.collect()
}

/// The anchors of a document's headings, as code hosting sites and mdBook generate them.
pub(crate) fn anchors(file: &File) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, text, is_code) in lines(file) {
        let level = text.len() - text.trim_start_matches('#').len();
        let heading = text[level..].strip_prefix(' ');
        if let Some(heading) = heading.filter(|_| !is_code && (1..=6).contains(&level)) {
            let anchor = anchor(heading);
            let numbered = (1..).map(|number| format!("{anchor}-{number}"));
            let mut names = std::iter::once(anchor.clone()).chain(numbered);
            let name = names.find(|name| !anchors.contains(name));
            anchors.extend(name);
        }
    }
    anchors
}

/// The pieces of code of a document with their line numbers: the lines of code blocks, and the text
/// in backquotes.
pub(crate) fn code(file: &File) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    for (line, text, is_code) in lines(file) {
        if is_code {
            pieces.push((line, text));
        } else {
            pieces.extend(text.split('`').skip(1).step_by(2).map(|piece| (line, piece)));
        }
    }
    pieces
}

/// Resolves the path of a link in the document at `from`. The result is relative to the top of the
/// tree; `None` if it is outside the tree.
pub(crate) fn resolved(from: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The lines of a document without code fences, each with its number and true if it is code.
pub(crate) fn lines(file: &File) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut is_code = false;
    file.lines().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_fence).then_some((number, line, is_code))
    })
}

/// The targets of the links in a line: the text in `](…)`, outside backquotes.
fn targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (at, mark) in line.match_indices("](") {
        let (before, behind) = (&line[..at], &line[at + mark.len()..]);
        let is_code = before.matches('`').count() % 2 == 1;
        if let Some((target, _)) = behind.split_once(')').filter(|_| !is_code) {
            targets.push(target);
        }
    }
    targets
}

fn anchor(heading: &str) -> String {
    let letters = heading.trim().to_lowercase();
    let letters = letters.chars().filter_map(|letter| match letter {
        '-' | '_' => Some(letter),
        letter if letter.is_whitespace() => Some('-'),
        letter => letter.is_alphanumeric().then_some(letter),
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    const TEXT: &str = "# A title\n[a](b.md), `[c](d)` and [`e`](f.md#g-h)\n```sh\n\
                        # no heading\n[i](j)\n```\n## Slow: `/_admin/x?n=N`\n#hash\n## A title\n\
                        [k](https://l.m)\n";

    #[test]
    fn links_and_headings_in_code_are_ignored() {
        let tree = tree_of(&[("a.md", TEXT)]);
        let links = links(&tree.files[0]);
        let found: Vec<_> = links.iter().map(|link| (link.line, link.within())).collect();
        assert_eq!(found, [(2, Some(("b.md", ""))), (2, Some(("f.md", "g-h"))), (10, None)]);
        let anchors: Vec<_> = anchors(&tree.files[0]).into_iter().collect();
        assert_eq!(anchors, ["a-title", "a-title-1", "slow-_adminxnn"]);
    }

    #[test]
    fn code_is_found_in_blocks_and_backquotes() {
        let tree = tree_of(&[("a.md", TEXT)]);
        let expected =
            [(2, "[c](d)"), (2, "e"), (4, "# no heading"), (5, "[i](j)"), (7, "/_admin/x?n=N")];
        assert_eq!(code(&tree.files[0]), expected);
    }

    #[test]
    fn paths_are_relative_to_the_document() {
        let path = |path| resolved("docs/lab/a.md", path);
        assert_eq!(path("../b.md").as_deref(), Some("docs/b.md"));
        assert_eq!(path("./b.md").as_deref(), Some("docs/lab/b.md"));
        assert_eq!(path("").as_deref(), Some("docs/lab/a.md"));
        assert_eq!(path("../../../b.md"), None);
        assert_eq!(resolved("a.md", "docs/b.md").as_deref(), Some("docs/b.md"));
    }
}
