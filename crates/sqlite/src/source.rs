//! Sources of pages: a file through a borrowed descriptor, an image in memory, a modelled disk.

use crate::error::{Error, Result};
use crate::page::{PageNo, Payload};

/// Reads whole pages of one database.
pub trait ReadPage {
    /// Replaces `into` with the bytes of a page.
    ///
    /// # Errors
    /// [`Error::Unreadable`] past the end or on an I/O error.
    fn read(&mut self, page: PageNo, into: &mut Vec<u8>) -> Result<()>;

    /// Advises that these pages, ascending and distinct, will be read soon, so that they can be fetched
    /// together and in disk order. It may do nothing.
    fn will_need(&mut self, pages: &[PageNo]) {
        let _ = pages;
    }
}

impl<R: ReadPage + ?Sized> ReadPage for &mut R {
    fn read(&mut self, page: PageNo, into: &mut Vec<u8>) -> Result<()> {
        (**self).read(page, into)
    }

    fn will_need(&mut self, pages: &[PageNo]) {
        (**self).will_need(pages);
    }
}

/// A database file held in memory.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    bytes: &'a [u8],
    page_size: usize,
}

impl<'a> Image<'a> {
    /// The bytes of a database file; `page_size` by its header.
    #[must_use]
    pub fn new(bytes: &'a [u8], page_size: usize) -> Self {
        Self { bytes, page_size }
    }
}

impl ReadPage for Image<'_> {
    fn read(&mut self, page: PageNo, into: &mut Vec<u8>) -> Result<()> {
        let unreadable = Error::Unreadable { page };
        let from = (page.get() as usize).checked_sub(1).and_then(|index| index.checked_mul(self.page_size));
        let bytes = from.and_then(|from| self.bytes.get(from..from.checked_add(self.page_size)?));
        into.clear();
        into.extend_from_slice(bytes.ok_or(unreadable)?);
        Ok(())
    }
}

/// The most overflow pages followed for one payload. A key that needs more (16 pages of 4 KiB hold 64 KiB) is
/// not worth following: reading its chain costs more seeks than prefetching its row saves.
pub const CHAIN_LIMIT: usize = 16;

/// A payload with its part on overflow pages, and those pages.
#[derive(Debug, Default)]
pub struct FullPayload {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The overflow pages read, in order.
    pub chain: Vec<PageNo>,
}

/// Assembles a payload; reads at most `limit` pages of its chain.
///
/// # Errors
/// [`Error::TooMuch`] for a longer chain, and the source's errors.
pub fn full_payload<R: ReadPage>(
    source: &mut R,
    payload: Payload<'_>,
    usable: usize,
    limit: usize,
) -> Result<FullPayload> {
    let mut whole = FullPayload { bytes: payload.local.to_vec(), chain: Vec::new() };
    let mut next = payload.overflow;
    let mut buffer = Vec::new();
    while let Some(page) = next.filter(|page| page.get() != 0) {
        if whole.chain.len() == limit {
            return Err(Error::TooMuch { what: "overflow pages in one chain", limit });
        }
        source.read(page, &mut buffer)?;
        let damaged = Error::Damaged { page, at: 0, what: "an overflow page is cut off" };
        let bytes = buffer.get(..usable).ok_or(damaged.clone())?;
        let (link, content) = bytes.split_first_chunk::<4>().ok_or(damaged)?;
        let missing = payload.size - whole.bytes.len() as u64;
        let take = usize::try_from(missing).unwrap_or(usize::MAX).min(content.len());
        whole.bytes.extend_from_slice(&content[..take]);
        whole.chain.push(page);
        let wanted = whole.bytes.len() as u64 != payload.size;
        next = wanted.then_some(PageNo(u32::from_be_bytes(*link)));
    }
    Ok(whole)
}
