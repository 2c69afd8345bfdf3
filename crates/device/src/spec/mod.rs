//! The contents of a profile: the descriptions of disks, arrays and remote volumes, how they are read from
//! TOML and written, and the model that follows from that of a disk.
//!
//! For a disk from another source than a profile, fill in a [`DiskSpec`] and make a profile of it by
//! [`Profile::of_disk`](crate::Profile::of_disk), which checks it as if it had been read.
//!
//! [`limits`] has the limits; [`bounds`] makes the range of a key.

mod array;
mod builtin;
mod controller;
mod disk;
mod error;
mod figures;
mod keys;
mod layout;
pub mod limits;
mod remote;
mod seek;
mod tracks;
mod write;

pub use crate::controller::Until;
pub(crate) use array::ArraySpec;
pub(crate) use builtin::{BUILTIN, builtin};
pub use controller::{ControllerSpec, OverheadSpec};
pub(crate) use disk::DiskModel;
pub use disk::DiskSpec;
pub use error::ProfileError;
pub(crate) use figures::Figures;
pub use keys::{Bounds, Keys, bounds, table_of};
pub use layout::LayoutSpec;
pub(crate) use remote::RemoteSpec;
pub use seek::SeekSpec;
pub(crate) use write::Writer;
