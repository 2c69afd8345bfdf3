//! What a profile says of a device: the descriptions of disks, arrays and remote volumes, how they are
//! read from TOML and written, and the model that follows from that of a disk.
//!
//! Who knows a disk from another source than a profile fills in a [`DiskSpec`] and makes a profile of it
//! by [`Profile::of_disk`](crate::Profile::of_disk), which checks it as if it had been read.
//!
//! A limit stands in [`limits`]; a range that a key must lie in is written [`bounds`].

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
