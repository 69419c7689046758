//! The kind of store under the servers of a test. An environment variable names it, so that the
//! same tests run over every kind.

use pellucid_server::{ServerOptions, StoreKind};

/// The environment variable that names the kind of store; unset means the embedded one.
const VARIABLE: &str = "PELLUCID_TEST_STORE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestStore {
    Embedded,
    Rocks,
}

impl TestStore {
    /// The kind that the environment names. An unknown name, or one that is not built in, fails the
    /// test, which must not pass on another kind.
    pub(crate) fn asked_for() -> TestStore {
        let name = std::env::var_os(VARIABLE).map(|name| name.to_string_lossy().into_owned());
        TestStore::named(name.as_deref()).unwrap_or_else(|what| panic!("{what}"))
    }

    pub(crate) fn named(name: Option<&str>) -> Result<TestStore, String> {
        match name {
            None | Some("embedded") => Ok(TestStore::Embedded),
            Some("rocksdb") if cfg!(feature = "rocksdb") => Ok(TestStore::Rocks),
            Some("rocksdb") => Err(format!(
                "{VARIABLE} is rocksdb, and these tests were built without the feature `rocksdb`: \
                 see scripts/test-rocksdb"
            )),
            Some(other) => {
                Err(format!("{VARIABLE} is {other:?}, and not one of embedded and rocksdb"))
            }
        }
    }

    /// The status of a request for changes by an account with the right: RocksDB does not support
    /// them.
    pub(crate) fn status_of_changes(self) -> u16 {
        match self {
            TestStore::Embedded => 200,
            TestStore::Rocks => 501,
        }
    }

    /// Sets the server's options to a store of this kind, with the limits that the options have for
    /// the embedded one.
    pub(crate) fn choose(self, options: &mut ServerOptions) {
        options.store = match self {
            TestStore::Embedded => StoreKind::Embedded,
            TestStore::Rocks => rocks(options),
        };
    }
}

#[cfg(feature = "rocksdb")]
fn rocks(options: &ServerOptions) -> StoreKind {
    let pellucid_server::EmbeddedOptions { value_bytes_max, handed_over_max, .. } =
        options.embedded;
    let rocks = pellucid_server::RocksOptions::default();
    StoreKind::Rocks(pellucid_server::RocksOptions { value_bytes_max, handed_over_max, ..rocks })
}

#[cfg(not(feature = "rocksdb"))]
fn rocks(_: &ServerOptions) -> StoreKind {
    unreachable!("a build without RocksDB names no such store")
}
