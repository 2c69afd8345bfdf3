//! Application-directed prefetching: the Rust API.
