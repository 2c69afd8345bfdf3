//! A watcher in its own process: how it serves and ends (`serve`), its folder and requests (`place`), and its
//! callers (`client`).

pub mod client;
mod place;
pub mod serve;
