//! The table of objects of an access-list engine: the seam's, with the watched ranges of each object.

use crate::regions::Regions;

pub(crate) use foreseek_seam::objects::{PageKey, Slot};

pub(crate) type Objects = foreseek_seam::objects::Objects<Regions>;
