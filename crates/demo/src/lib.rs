//! The main job, shown: SQLite's scan by a secondary index on an emulated disk, stock and with
//! Foreseek, and the report on it.
#![forbid(unsafe_code)]
