//! The login to a node that requires a password.

use pellucid_cql::{CqlOptions, CqlStore, CqlTls, Password};
use pellucid_store::StoreError;

use super::nodes::{FIRST_USER, NAME, Ring};
use super::{get, options, put, wait_for};

pub(crate) fn only_who_knows_it_is_let_in() {
    let ring = Ring::with_passwords();
    let open = |password: Option<&str>, tls: Option<CqlTls>| {
        let login = password.map(|it| (FIRST_USER.to_owned(), Password(it.to_owned())));
        let nodes = vec![ring.first_address()];
        let replication = Some(1);
        CqlStore::open(&CqlOptions { nodes, login, tls, replication, ..options("kept") })
    };
    // The node creates its first user some time after its start.
    let store = wait_for(|| open(Some(FIRST_USER), None));
    let table = pellucid_store::Store::table(&store, "t").unwrap();
    put(&store, table, "key").unwrap();
    let tls = CqlTls {
        authorities_pem: ring.authority.clone().into_bytes(),
        name: Some(NAME.to_owned()),
    };
    let in_tls = open(Some(FIRST_USER), Some(tls)).unwrap();
    let table = pellucid_store::Store::table(&in_tls, "t").unwrap();
    assert_eq!(get(&in_tls, table, "key").unwrap().unwrap(), b"key");
    for password in [Some("wrong-8731"), None] {
        match open(password, None) {
            Err(StoreError::Unreachable(text)) => {
                assert!(!text.contains("8731"), "a password is told: {text}");
                assert!(text.contains("--cql-user and --cql-password-file"), "{text}");
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("{password:?} was let in"),
        }
    }
}
