//! The component of the program that a sample belongs to: its background job if it has one,
//! otherwise the component of the innermost function on the stack that belongs to Pellucid.

/// Prefixes of function names and their components; the first prefix that matches decides.
const COMPONENTS: &[(&str, &str)] = &[
    ("pellucid_engine::journal", "engine journal"),
    ("pellucid_engine::ledger", "engine ledger"),
    ("pellucid_engine", "engine"),
    ("pellucid_store", "store"),
    ("pellucid_rocksdb", "RocksDB"),
    // Functions of the binding and of RocksDB itself: demangled, mangled by C++, or without a name.
    ("[librocksdb", "RocksDB"),
    ("rocksdb::", "RocksDB"),
    ("_ZN7rocksdb", "RocksDB"),
    ("_ZNK7rocksdb", "RocksDB"),
    ("pellucid_document", "documents"),
    ("pellucid_aql", "documents"),
    ("pellucid_value", "documents"),
    ("pellucid_cluster", "forwarding"),
    ("pellucid_topology", "forwarding"),
    ("pellucid_client", "forwarding"),
    ("pellucid_server::cluster", "forwarding"),
    ("pellucid_http", "HTTP"),
    ("pellucid_server", "API"),
    ("pellucid_account", "account"),
    ("pellucid_clock", "account"),
    ("pellucid_profile", "profiler"),
    ("pellucid_load", "load generator"),
    ("pellucid::", "command line"),
];

/// The component of stacks without a function of Pellucid.
pub const OTHER: &str = "other";

/// The component of a sample. `job` is empty if it has none; `functions` are the names of its
/// functions, innermost first.
pub(crate) fn component_of<'a>(
    job: &str,
    functions: impl Iterator<Item = &'a str>,
) -> &'static str {
    if !job.is_empty() {
        return job_component(job);
    }
    functions.filter_map(component_of_function).next().unwrap_or(OTHER)
}

/// The component of a background job; the functions on the stack do not matter.
fn job_component(job: &str) -> &'static str {
    const JOBS: &[&str] = &[
        "flush", "compaction", "collection", "directory", "ledger", "sync", "segments", "account",
        "pages",
    ];
    match JOBS.iter().find(|name| **name == job) {
        Some(name) => name,
        None if job == "profiling" => "profiler",
        None => "background",
    }
}

/// True for the functions that the compiler places between an allocation and the global allocator.
/// They are in the crate that chooses the allocator, but belong to no component, like the allocator
/// itself.
fn is_allocation(name: &str) -> bool {
    name.rsplit("::").next().is_some_and(|last| last.starts_with("__rust_"))
}

fn component_of_function(name: &str) -> Option<&'static str> {
    if is_allocation(name) {
        return None;
    }
    let name = name.trim_start_matches(['<', '&', '(']);
    let fits = |(prefix, _): &&(&str, &str)| name.starts_with(prefix);
    COMPONENTS.iter().find(fits).map(|(_, component)| *component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_own_function_decides_unless_there_is_a_job() {
        let stack = [
            "__memcpy_avx_unaligned",
            "core::ptr::copy",
            "<pellucid_engine::journal::Journal>::append",
            "pellucid_engine::write::put",
            "pellucid_http::event_loop::EventLoop<S>::run",
        ];
        assert_eq!(component_of("", stack.into_iter()), "engine journal");
        assert_eq!(component_of("flush", stack.into_iter()), "flush");
        let forward = ["pellucid_server::cluster::forward::ask", "pellucid_server::entity::get"];
        assert_eq!(component_of("", forward.into_iter()), "forwarding");
        assert_eq!(component_of("profiling", stack.into_iter()), "profiler");
        let below = ["_ZNK7rocksdb7SkipListIRKNS", "pellucid_rocksdb::store::find"];
        assert_eq!(component_of("", below.into_iter()), "RocksDB");
        assert_eq!(component_of("", stack[..2].iter().copied()), OTHER);
    }

    /// Regression: all allocations counted as the command line's, because the compiler's call of
    /// the allocator is in the crate `pellucid`.
    #[test]
    fn an_allocation_belongs_to_its_caller() {
        let stack = ["pellucid::__rust_alloc", "alloc::vec::push", "pellucid_aql::parse::parse"];
        assert_eq!(component_of("", stack.into_iter()), "documents");
        assert_eq!(component_of("", ["pellucid::_::__rust_realloc"].into_iter()), OTHER);
        assert_eq!(component_of("", ["pellucid::serve::run"].into_iter()), "command line");
    }
}
