//! A mount in a process of its own: what it is told (`settings`), how it serves and ends (`serve`), where it
//! is found (`place`, called by `names` made of paths), what is asked of it (`protocol`, `client`), and what
//! outlives it (`state_saver`).

pub mod client;
mod names;
mod place;
mod protocol;
pub mod serve;
pub(crate) mod settings;
mod state_saver;
