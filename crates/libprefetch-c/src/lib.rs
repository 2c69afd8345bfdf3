//! Application-directed prefetching: the C library, libprefetch.so, and its interposition.
