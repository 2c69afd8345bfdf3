//! A mount in its own process.
//!
//! - `settings`: its settings;
//! - `serve`: how it serves and ends;
//! - `place`: its folder, with `names` made of paths;
//! - `protocol`, `client`: requests to it;
//! - `state_saver`: the state that outlives it.

pub mod client;
mod names;
mod place;
mod protocol;
pub mod serve;
pub(crate) mod settings;
mod state_saver;
