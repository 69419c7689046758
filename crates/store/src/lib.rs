//! The store interface and its kinds.
