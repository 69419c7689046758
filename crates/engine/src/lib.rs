//! The embedded store: a journal of records and a ledger of keys.
