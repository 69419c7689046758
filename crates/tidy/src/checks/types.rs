//! Checks types and `unsafe`: the inherent impls of a type are in few files, structs have few
//! fields, and a crate without `unsafe` forbids it.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Fields, Item, ItemImpl, ItemMod, Type};

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// The most files with inherent impls of one type; the second is for a constructor.
const FILES_MAX: usize = 2;
/// The most named fields of a struct.
const FIELDS_MAX: usize = 20;
/// Suffixes of the names of types that may have more fields, because each field is a setting.
const SETTINGS: &[&str] = &["Settings", "Options"];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// The files with the inherent impls of each type, by crate and name of the type.
type Impls<'a> = BTreeMap<(&'a str, String), BTreeSet<&'a str>>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut impls = Impls::new();
    for file in tree.rust().filter(|file| file.tests_from() > 0) {
        let Some(package) = file.source_of() else { continue };
        match syn::parse_file(file.text().unwrap_or_default()) {
            Ok(parsed) => look(file, package, &parsed.items, &mut impls, &mut findings),
            Err(error) => {
                let what = format!("the file is no Rust: {error}");
                findings.push(Finding::new(&file.path, 1, what, "mend it"));
            }
        }
    }
    for ((_, name), files) in impls.iter().filter(|(_, files)| files.len() > FILES_MAX) {
        let what = format!("inherent impls of `{name}` stand in {} files", files.len());
        let cure = "give each duty a type of its own, with private fields, in a file of its own";
        findings.extend(files.iter().map(|path| Finding::new(path, 1, &what[..], cure)));
    }
    findings.extend(crates_that_forbid_nothing(tree));
    findings
}

fn look<'a>(
    file: &'a File,
    package: &'a str,
    items: &[Item],
    impls: &mut Impls<'a>,
    findings: &mut Vec<Finding>,
) {
    for item in items {
        match item {
            Item::Impl(ItemImpl { trait_: None, self_ty, .. }) => {
                if let Type::Path(path) = &**self_ty
                    && let Some(last) = path.path.segments.last()
                {
                    let files = impls.entry((package, last.ident.to_string())).or_default();
                    files.insert(&file.path);
                }
            }
            Item::Struct(item) => {
                let name = item.ident.to_string();
                let Fields::Named(fields) = &item.fields else { continue };
                let count = fields.named.len();
                let is_settings = SETTINGS.iter().any(|ending| name.ends_with(ending));
                if count > FIELDS_MAX && !is_settings {
                    let what = format!("`{name}` has {count} fields, more than {FIELDS_MAX}");
                    let cure = "group those that change together into types of their own";
                    let line = line_of(file, &name);
                    findings.push(Finding::new(&file.path, line, what, cure));
                }
            }
            Item::Mod(ItemMod { content: Some((_, items)), attrs, .. })
                if !attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) =>
            {
                look(file, package, items, impls, findings);
            }
            _ => {}
        }
    }
}

fn line_of(file: &File, name: &str) -> usize {
    let mark = format!("struct {name}");
    file.lines().find(|(_, line)| line.contains(&mark)).map_or(1, |(number, _)| number)
}

/// Finds crates without `unsafe` whose root does not forbid it.
fn crates_that_forbid_nothing(tree: &Tree) -> Vec<Finding> {
    let mut unsafes: BTreeMap<&str, bool> = BTreeMap::new();
    for file in tree.rust() {
        let Some(package) = file.source_of() else { continue };
        *unsafes.entry(package).or_default() |= file.lines().any(|(_, line)| has_unsafe(line));
    }
    let roots = tree.rust().filter(|file| ["lib.rs", "main.rs"].contains(&file.name()));
    let needs = |file: &&File| {
        let depth = file.in_package().is_some_and(|(_, rest)| rest.matches('/').count() == 1);
        depth && file.source_of().is_some_and(|package| unsafes.get(package) == Some(&false))
    };
    roots
        .filter(needs)
        .filter(|file| !file.lines().any(|(_, line)| line == FORBID))
        .map(|file| {
            let cure = format!("write `{FORBID}` behind its module doc");
            Finding::new(&file.path, 1, "the crate has no `unsafe` and does not forbid it", cure)
        })
        .collect()
}

/// Returns true if `unsafe` begins a block or an item in this line.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line);
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait", "unsafe("]
        .iter()
        .any(|mark| code.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    fn whats(files: &[(&str, &str)]) -> Vec<String> {
        check(&tree_of(files)).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_type_in_three_files_is_found_and_one_in_two_is_not() {
        let files = [
            ("crates/a/src/b.rs", "struct A; impl A {} impl<T> B<T> {}"),
            ("crates/a/src/c.rs", "impl A {} impl C for B {}"),
            ("crates/a/src/d.rs", "mod e { impl B<u8> {} impl super::A {} }"),
            ("crates/b/src/d.rs", "impl B<u8> {}"),
            ("crates/a/src/f.rs", "fn f() {}\n#[cfg(test)]\nmod tests { impl B {} }"),
        ];
        assert_eq!(whats(&files), vec!["inherent impls of `A` stand in 3 files"; 3]);
    }

    #[test]
    fn wide_structs_are_found_except_settings() {
        let fields: String = (0..=FIELDS_MAX).map(|at| format!("f{at}: u8,")).collect();
        let text = format!("struct Wide {{ {fields} }} struct WideOptions {{ {fields} }}");
        let expected = ["`Wide` has 21 fields, more than 20"];
        assert_eq!(whats(&[("crates/a/src/b.rs", &text)]), expected);
    }

    #[test]
    fn crates_without_unsafe_forbid_it() {
        let block = concat!("fn f() { uns", "afe { g() } }");
        let files = [
            ("crates/a/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n"),
            ("crates/b/src/lib.rs", "//! B.\n"),
            ("crates/c/src/lib.rs", "//! C.\n"),
            ("crates/c/src/d.rs", block),
        ];
        assert_eq!(whats(&files), ["the crate has no `unsafe` and does not forbid it"]);
    }
}
