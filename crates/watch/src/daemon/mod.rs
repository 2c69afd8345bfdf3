//! A watcher in a process of its own: how it serves and ends (`serve`), where it is found (`place`), what is
//! asked of it (`client`).

pub mod client;
mod place;
pub mod serve;
