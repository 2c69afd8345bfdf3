//! Virtual time: a page cache and a fadvise door over a modelled device.
#![forbid(unsafe_code)]

pub mod limit;
