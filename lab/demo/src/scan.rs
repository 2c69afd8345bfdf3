//! Every page that the query reads, in order, computed from the database file.
//!
//! The sequence is [`foreseek_sqlite`]'s own, the same that is prefetched. The model's limit and the runs in
//! virtual time are computed from it.

use crate::{Error, Result};
use foreseek_seam::{Extent, lba_of};
use foreseek_sqlite::page::PageNo;
use foreseek_sqlite::sequence::Scan;
use foreseek_sqlite::source::Image;
use foreseek_sqlite::walk::Direction;
use foreseek_units::{Lba, PAGE_SIZE, PageIndex};

/// The index that the query uses.
const INDEX_NAME: &str = "customer_zip";

/// The pages of the index's leaves and of the rows that they point to.
pub(crate) fn pages(image: &[u8]) -> Result<Vec<PageNo>> {
    let pages = u32::try_from(image.len() as u64 / PAGE_SIZE).unwrap_or(u32::MAX);
    let scan = Scan::new(Image::new(image, PAGE_SIZE as usize), INDEX_NAME, Direction::Forward, pages)?;
    Ok(scan.map(|access| access.page).collect())
}

/// The addresses of those pages on the device.
pub(crate) fn addresses(pages: &[PageNo], extents: &[Extent]) -> Result<Vec<Lba>> {
    let address = |page: &PageNo| {
        lba_of(extents, file_page(*page)).ok_or_else(|| Error::Database {
            what: format!("the file system does not report where page {} lies", page.get()),
        })
    };
    pages.iter().map(address).collect()
}

/// A database page as a page of the file: both have one size, and SQLite counts from one.
pub(crate) fn file_page(page: PageNo) -> PageIndex {
    PageIndex(u64::from(page.get()).saturating_sub(1))
}
