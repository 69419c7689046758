//! Resolves addresses to functions, files and lines, with the symbols and debug information of the
//! program's own files. They are read anew for each profile, so no memory is held between profiles;
//! this happens off the request path.

use std::collections::HashMap;
use std::ffi::CStr;

use addr2line::Loader;

use crate::system_calls::{CODE_BEFORE, CODE_BEHIND, SystemCall};

/// The most inlined functions that are shown for one address.
const INLINED_MAX: usize = 32;

/// A function of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// The demangled name; the object file and an offset in it if nothing else is known.
    pub name: String,
    /// The source file; empty if it is not known.
    pub file: String,
}

/// A place in a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLocation {
    /// The function.
    pub function: Function,
    /// The line; zero if it is not known.
    pub line: u32,
}

/// A file that is mapped into the process.
struct Object {
    /// The load address: it is added to the addresses in the file.
    base: usize,
    /// The address ranges of its code.
    segments: Vec<(usize, usize)>,
    name: String,
    loader: Option<Loader>,
}

/// Finds functions by addresses.
pub(crate) struct Symbols {
    objects: Vec<Object>,
    known: HashMap<usize, Vec<SourceLocation>>,
}

impl Symbols {
    /// Lists the files that are mapped into this process now.
    pub(crate) fn of_this_process() -> Symbols {
        let mut objects: Vec<Object> = Vec::new();
        // SAFETY: the callback has the type that is asked for, and the data it is passed is the
        // list, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(note_object), (&raw mut objects).cast()) };
        Symbols { objects, known: HashMap::new() }
    }

    /// The system call that a thread with the program counter `pc` was in, if it was in one.
    pub(crate) fn system_call(&self, pc: usize) -> Option<SystemCall> {
        let segments = self.objects.iter().flat_map(|object| &object.segments);
        let (low, high) = segments.copied().find(|(low, high)| (*low..*high).contains(&pc))?;
        let from = pc.saturating_sub(CODE_BEFORE).max(low);
        let to = pc.saturating_add(CODE_BEHIND).min(high);
        // SAFETY: the bytes are code, in a segment that is mapped and that can be read, of the
        // program or a library; none is unloaded before the process ends.
        let code = unsafe { std::slice::from_raw_parts(from as *const u8, to - from) };
        SystemCall::between(&code[..pc - from], &code[pc - from..])
    }

    /// The places of `address`, the innermost inlined function first. If `is_return`, the place of
    /// the call is meant, which lies just before `address`.
    pub(crate) fn places(&mut self, address: usize, is_return: bool) -> &[SourceLocation] {
        let probe = if is_return { address.wrapping_sub(1) } else { address };
        let objects = &mut self.objects;
        self.known.entry(probe).or_insert_with(|| {
            let within = |object: &&mut Object| {
                object.segments.iter().any(|(low, high)| (*low..*high).contains(&probe))
            };
            match objects.iter_mut().find(within) {
                Some(object) => object.places(probe),
                None => vec![unnamed(format!("[{probe:#x}]"))],
            }
        })
    }
}

fn unnamed(name: String) -> SourceLocation {
    SourceLocation { function: Function { name, file: String::new() }, line: 0 }
}

impl Object {
    fn places(&mut self, address: usize) -> Vec<SourceLocation> {
        let path = if self.name.is_empty() { "/proc/self/exe" } else { &self.name };
        if self.loader.is_none() && !path.starts_with("linux-") {
            self.loader = Loader::new(path).ok();
        }
        let relative = address.wrapping_sub(self.base) as u64;
        let name = std::path::Path::new(&self.name).file_name();
        let file = name.and_then(|name| name.to_str()).unwrap_or("program");
        let Some(loader) = &self.loader else { return vec![unnamed(format!("[{file}]"))] };
        let mut places = Vec::new();
        if let Ok(mut frames) = loader.find_frames(relative) {
            while let (Ok(Some(frame)), true) = (frames.next(), places.len() < INLINED_MAX) {
                let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
                let Some(name) = name else { continue };
                let (file, line) = match &frame.location {
                    Some(location) => (location.file.unwrap_or(""), location.line.unwrap_or(0)),
                    None => ("", 0),
                };
                let name = qualified(&demangled(&name), file);
                let function = Function { name, file: in_crate(file).to_owned() };
                places.push(SourceLocation { function, line });
            }
        }
        // The symbol names the outermost function at this address with its full path, which line
        // tables leave out. Without line tables, nothing else is known.
        let symbol = loader.find_symbol(relative).map(|name| shortened(&demangled(name)));
        match (places.last_mut(), symbol) {
            (Some(outermost), Some(symbol)) => outermost.function.name = symbol,
            (None, symbol) => {
                let name = symbol.unwrap_or_else(|| format!("[{file}+{relative:#x}]"));
                places.push(SourceLocation {
                    function: Function { name, file: file.to_owned() },
                    line: 0,
                });
            }
            (Some(_), None) => {}
        }
        places
    }
}

fn demangled(name: &str) -> String {
    // The alternate form leaves out the hash of the compilation.
    format!("{:#}", rustc_demangle::demangle(name))
}

/// Removes type arguments from a name: `Vec<T>::push` becomes `Vec::push`. A leading `<…>`, as in
/// `<T as Trait>::call`, is kept.
fn shortened(name: &str) -> String {
    let (mut short, mut dropped, mut kept) = (String::new(), 0_u32, 0_u32);
    let mut before = ' ';
    for letter in name.chars() {
        match letter {
            '<' if dropped > 0 || before.is_alphanumeric() || matches!(before, '_' | ':' | '}') => {
                if dropped == 0 && before == ':' {
                    short.truncate(short.trim_end_matches(':').len());
                }
                dropped += 1;
            }
            '<' => {
                kept += 1;
                short.push(letter);
            }
            '>' if before == '-' => {
                if dropped == 0 {
                    short.push(letter);
                }
            }
            '>' if dropped > 0 => dropped -= 1,
            '>' => {
                kept = kept.saturating_sub(1);
                short.push(letter);
            }
            _ if dropped > 0 => {}
            _ => short.push(letter),
        }
        before = letter;
    }
    short
}

/// Prefixes a bare name with the module of its source file, because line tables contain only the
/// bare names of inlined functions.
fn qualified(name: &str, file: &str) -> String {
    let short = shortened(name);
    if short.contains("::") || file.is_empty() {
        return short;
    }
    let Some((folder, module)) = in_crate(file).split_once("/src/") else { return short };
    let folder = folder.rsplit('/').next().unwrap_or(folder);
    let is_ours = in_crate(file).starts_with("crates/");
    // The folder of a package from a registry ends with the version.
    let version = folder.rfind('-').filter(|at| folder[at + 1..].starts_with(char::is_numeric));
    let package = version.map_or(folder, |at| &folder[..at]).replace('-', "_");
    let family = if is_ours && package != "pellucid" { "pellucid_" } else { "" };
    let module = module.trim_end_matches(".rs").replace('/', "::");
    let module = module.trim_end_matches("::mod");
    let module = if matches!(module, "lib" | "main") { "" } else { module };
    let separator = if module.is_empty() { "" } else { "::" };
    format!("{family}{package}{separator}{module}::{short}")
}

/// The path of a source file from the folder of its crate on. The part before depends on the build
/// machine.
fn in_crate(file: &str) -> &str {
    let Some(source) = file.rfind("/src/").or_else(|| file.rfind("/tests/")) else { return file };
    if let Some(at) = file.find("/crates/").filter(|at| *at < source) {
        return &file[at + 1..];
    }
    let folder = file[..source].rfind('/').map_or(0, |at| at + 1);
    &file[folder..]
}

unsafe extern "C" fn note_object(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    list: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a valid description with `dlpi_phnum` headers and a name that ends
    // with zero, and `list` is the pointer that was given to `dl_iterate_phdr`.
    let (objects, info, headers, name) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (&mut *list.cast::<Vec<Object>>(), info, headers, CStr::from_ptr(info.dlpi_name))
    };
    let base = info.dlpi_addr as usize;
    let code = |header: &&libc::Elf64_Phdr| {
        let is_readable_code = libc::PF_R | libc::PF_X;
        header.p_type == libc::PT_LOAD && header.p_flags & is_readable_code == is_readable_code
    };
    let segment = |header: &libc::Elf64_Phdr| {
        let low = base.wrapping_add(header.p_vaddr as usize);
        (low, low.wrapping_add(header.p_memsz as usize))
    };
    objects.push(Object {
        base,
        segments: headers.iter().filter(code).map(segment).collect(),
        name: name.to_string_lossy().into_owned(),
        loader: None,
    });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn somewhere(value: u64) -> u64 {
        std::hint::black_box(value + 1)
    }

    #[test]
    fn names_are_shortened_and_qualified() {
        for (name, expected) in [
            ("core::ptr::drop_in_place::<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place"),
            (
                "<alloc::vec::Vec<u8> as Trait<fn() -> u8>>::call",
                "<alloc::vec::Vec as Trait>::call",
            ),
            ("<fn() -> A as F<()>>::call_once", "<fn() -> A as F>::call_once"),
        ] {
            assert_eq!(shortened(name), expected);
        }
        for (file, expected) in [
            ("/a/b/crates/engine/src/journal/mod.rs", "pellucid_engine::journal::take"),
            ("/a/crates/pellucid/src/main.rs", "pellucid::take"),
            ("/r/registry/src/x/arc-swap-1.9.0/src/lib.rs", "arc_swap::take"),
            ("/rustc/0/library/core/src/option.rs", "core::option::take"),
            ("", "take"),
        ] {
            assert_eq!(qualified("take<u8>", file), expected);
        }
    }

    #[test]
    fn functions_are_found_by_their_addresses() {
        let mut symbols = Symbols::of_this_process();
        let function: fn(u64) -> u64 = somewhere;
        let places = symbols.places(function as usize, false);
        let last = places.last().unwrap();
        assert!(last.function.name.ends_with("somewhere"), "{last:?}");
        assert!(last.function.file.ends_with("symbols.rs") && last.line > 0, "{last:?}");
        let outside = symbols.places(libc::malloc as *const () as usize, false);
        assert!(outside[0].function.name.contains("malloc"), "{outside:?}");
        assert_eq!(symbols.places(3, false)[0].function.name, "[0x3]");
    }
}
