//! Finds circular imports between the files of a crate.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Item, ItemMod, ItemUse, UseTree, Visibility};

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// A module's path within its crate.
type Module = Vec<String>;

/// The modules of one crate by their paths, each with its file.
type Files<'a> = BTreeMap<Module, &'a File>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Files<'_>> = BTreeMap::new();
    for file in tree.rust().filter(|file| file.tests_from() > 0) {
        if let Some((package, module)) = file.source_of().zip(module_of(file)) {
            crates.entry(package).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(circles_of).collect()
}

/// The path of the module in a file.
fn module_of(file: &File) -> Option<Module> {
    let (_, rest) = file.in_package()?;
    let inner = rest.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut module: Module = inner.split('/').map(str::to_owned).collect();
    match module.last().map(String::as_str) {
        Some("lib" | "main") if module.len() == 1 => module.clear(),
        Some("mod") => {
            module.pop();
        }
        _ => {}
    }
    Some(module)
}

/// The names that each module re-exports by `pub use`, with the paths that they come from.
type Exports = BTreeMap<Module, BTreeMap<String, Module>>;

fn circles_of(files: &Files<'_>) -> Vec<Finding> {
    let parsed: BTreeMap<&Module, syn::File> = files
        .iter()
        .filter_map(|(module, file)| Some((module, syn::parse_file(file.text()?).ok()?)))
        .collect();
    let mut exports = Exports::new();
    for (module, file) in &parsed {
        let mut found = BTreeMap::new();
        for item in &file.items {
            let Item::Use(ItemUse { vis, tree, .. }) = item else { continue };
            if !matches!(vis, Visibility::Inherited) {
                let mut paths = Vec::new();
                paths_of(tree, &mut Vec::new(), &mut paths);
                let named = paths
                    .into_iter()
                    .filter_map(|(path, name)| Some((name, absolute(&path, module)?)));
                found.extend(named);
            }
        }
        exports.insert((*module).clone(), found);
    }
    let mut edges: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (module, file) in &parsed {
        let mut names = Names { module, paths: Vec::new() };
        names.visit_file(file);
        let uses = names.paths.iter().filter_map(|path| owner(path, files, &exports));
        let uses = uses.filter(|used| used != module).collect();
        edges.insert(module, uses);
    }
    components(&edges)
        .into_iter()
        .map(|circle| {
            let names: Vec<_> = circle.iter().map(|module| files[*module].path.as_str()).collect();
            let what = format!("{} files import each other: {}", names.len(), names.join(", "));
            let cure = "move what both need into a file below them, or give it as an argument";
            Finding::new(names[0], 1, what, cure)
        })
        .collect()
}

/// The module that defines the name at the end of the path.
fn owner<'a>(path: &[String], files: &'a Files<'_>, exports: &Exports) -> Option<&'a Module> {
    let mut path = path.to_vec();
    // A name may be re-exported by several modules in turn.
    for _ in 0..8 {
        let end = (0..=path.len()).rev().find(|end| files.contains_key(&path[..*end]))?;
        let handed_on = path.get(end).and_then(|name| exports.get(&path[..end])?.get(name));
        match handed_on {
            Some(from) if !from.starts_with(&path[..=end]) => {
                path = [from, &path[end + 1..]].concat();
            }
            _ => return files.get_key_value(&path[..end]).map(|(module, _)| module),
        }
    }
    None
}

/// The path from the root of the crate; `None` if it is invalid. A path into another crate is taken
/// for one below `module`, which then names no file.
fn absolute(path: &[String], module: &Module) -> Option<Module> {
    let first = path.first()?;
    match first.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let above = module.len().checked_sub(ups)?;
            Some([&module[..above], &path[ups..]].concat())
        }
        _ => Some([module, path].concat()),
    }
}

/// Collects each path of a `use`, with the name that it imports.
fn paths_of(tree: &UseTree, before: &mut Vec<String>, paths: &mut Vec<(Vec<String>, String)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            paths_of(&path.tree, before, paths);
            before.pop();
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            let path = [&before[..], std::slice::from_ref(&name)].concat();
            paths.push((path, name));
        }
        UseTree::Rename(name) => {
            let path = [&before[..], &[name.ident.to_string()]].concat();
            paths.push((path, name.rename.to_string()));
        }
        UseTree::Glob(_) => paths.push((before.clone(), "*".to_owned())),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| paths_of(tree, before, paths));
        }
    }
}

/// The paths into the crate that a file names.
struct Names<'a> {
    module: &'a Module,
    paths: Vec<Module>,
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        // A re-export does not depend on the names itself.
        if matches!(item.vis, Visibility::Inherited) {
            let mut paths = Vec::new();
            paths_of(&item.tree, &mut Vec::new(), &mut paths);
            self.paths.extend(paths.iter().filter_map(|(path, _)| absolute(path, self.module)));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if parts.len() > 1 && path.leading_colon.is_none() {
            self.paths.extend(absolute(&parts, self.module));
        }
        visit::visit_path(self, path);
    }
}

/// Finds groups of two or more modules that reach each other.
fn components<'a>(edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> Vec<Vec<&'a Module>> {
    let reach = |from: &'a Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(edges.get(module).into_iter().flatten().filter(|to| seen.insert(**to)));
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        edges.keys().map(|module| (*module, reach(module))).collect();
    let mut done = BTreeSet::new();
    let mut groups = Vec::new();
    for (module, from) in &reached {
        let back = |other: &&&Module| reached.get(**other).is_some_and(|to| to.contains(module));
        let group: Vec<_> = from.iter().filter(back).copied().collect();
        if group.len() > 1 && group.iter().all(|member| done.insert(*member)) {
            groups.push(group);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree_of;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        check(&tree_of(files)).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn files_that_import_each_other_are_found() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; mod d;"),
            ("crates/a/src/b.rs", "use crate::c::C; struct B;"),
            ("crates/a/src/c.rs", "struct C; fn f() { super::d::g(); }"),
            ("crates/a/src/d.rs", "use super::b::B; fn g() {}"),
        ];
        let all = "crates/a/src/b.rs, crates/a/src/c.rs, crates/a/src/d.rs";
        assert_eq!(circles(&files), [format!("3 files import each other: {all}")]);
    }

    #[test]
    fn reexported_names_belong_to_the_files_that_define_them() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; pub use b::B;"),
            ("crates/a/src/b/mod.rs", "mod c; pub(crate) use c::C; use c::f; pub struct B;"),
            ("crates/a/src/b/c.rs", "use std::fmt; struct C; fn f() {}"),
            ("crates/a/src/d.rs", "use crate::{B, b::C};"),
            ("crates/a/src/e.rs", "fn h() {}\n#[cfg(test)]\nmod tests { use crate::d; }"),
        ];
        assert_eq!(circles(&files), Vec::<String>::new());
    }
}
