//! The APIs of Pellucid on the transport and the store.
