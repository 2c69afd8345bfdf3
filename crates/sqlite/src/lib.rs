//! A loadable extension that prefetches an unmodified SQLite's scans by secondary index.
