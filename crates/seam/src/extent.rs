//! The location of an object's pages on its device.

use foreseek_units::{Lba, PageIndex, Pages, SectorSpan};

/// A part of an object that is contiguous on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First page within the object.
    pub page: PageIndex,
    /// Length.
    pub pages: Pages,
    /// Its start on the device.
    pub lba: Lba,
}

impl Extent {
    /// Its sectors on the device.
    #[must_use]
    pub fn sectors(&self) -> SectorSpan {
        SectorSpan::at(self.lba, self.pages.sectors())
    }
}

/// The address of a page of an object on the device, for sorting in disk order.
#[must_use]
pub fn lba_of(extents: &[Extent], page: PageIndex) -> Option<Lba> {
    let at = extents.partition_point(|extent| extent.page <= page).checked_sub(1)?;
    let extent = extents[at];
    let within = page - extent.page;
    (within < extent.pages).then(|| extent.lba + within.sectors())
}
