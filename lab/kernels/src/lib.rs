//! The read-ahead of the papers' kernels: window machines of Linux 2.6.3 (TR-840), 2.6.10 (EuroSys'07) and
//! 2.6.18 (ATC'08, ATC'09, and 2.6.16 of EuroSys'07 section 6.3).
//!
//! They serve to reproduce the papers' claims; no user runs them. Policies and depth rules are those of
//! `foreseek-readahead`: a depth rule is put into one of these machines as into a mount's. [`by_name`] knows
//! all policies, of the kernels and of the product.
#![forbid(unsafe_code)]

mod congestion;
mod kernel;
mod linux_2_6_10;
mod linux_2_6_18;
mod linux_2_6_3;
#[cfg(test)]
mod models;
#[cfg(test)]
mod papers;
#[cfg(test)]
mod properties;
mod registry;
mod settings;
#[cfg(test)]
mod testing;
mod two_windows;

pub use congestion::Congestion;
pub use kernel::{Kernel, generation};
pub use registry::{about, by_name, names};
pub use settings::Settings;
