//! B-tree pages: their header, cell pointers and the four kinds of cells (SQLite file format, section 1.6).
//! Each part is checked against the page's bounds when it is decoded; a page is never trusted as a whole.

pub use crate::page_no::PageNo;

use crate::error::{Error, Result};
use crate::header::HEADER_LEN;
use crate::record::{Columns, columns, varint};

/// The kinds of b-tree pages, by their first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Index, or table WITHOUT ROWID: keys and children.
    IndexInterior,
    /// Rowid table: rowids and children.
    TableInterior,
    /// Index, or table WITHOUT ROWID: keys.
    IndexLeaf,
    /// Rowid table: rows.
    TableLeaf,
}

impl Kind {
    /// The kind for the first byte of a page's b-tree header.
    #[must_use]
    pub fn of(flag: u8) -> Option<Self> {
        match flag {
            2 => Some(Self::IndexInterior),
            5 => Some(Self::TableInterior),
            10 => Some(Self::IndexLeaf),
            13 => Some(Self::TableLeaf),
            _ => None,
        }
    }

    /// Whether its cells point to children.
    #[must_use]
    pub fn is_interior(self) -> bool {
        matches!(self, Self::IndexInterior | Self::TableInterior)
    }

    /// Whether it belongs to an index or a table WITHOUT ROWID.
    #[must_use]
    pub fn is_index(self) -> bool {
        matches!(self, Self::IndexInterior | Self::IndexLeaf)
    }
}

/// The payload of a cell: the part of it on this page, and where the rest begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// Length of the whole.
    pub size: u64,
    /// The part on this page.
    pub local: &'a [u8],
    /// The first overflow page, if there is one.
    pub overflow: Option<PageNo>,
}

/// A cell of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Left child (interior kinds).
    pub child: Option<PageNo>,
    /// Rowid (table kinds).
    pub rowid: Option<i64>,
    /// Payload (all but table interior).
    pub payload: Option<Payload<'a>>,
}

/// A b-tree page with a sound header.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    number: PageNo,
    kind: Kind,
    bytes: &'a [u8],
    pointers: usize,
    cells: usize,
}

impl<'a> Page<'a> {
    /// Parses a page's b-tree header. `bytes` is the whole page, `usable` its length without the reserved
    /// bytes.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is no b-tree page (overflow, freelist and pointer-map pages are not, though
    /// they may look like one by chance).
    pub fn parse(number: PageNo, bytes: &'a [u8], usable: usize) -> Result<Self> {
        let at = if number == PageNo::FIRST { HEADER_LEN } else { 0 };
        let damaged = |at, what| Error::Damaged { page: number, at, what };
        let bytes = bytes.get(..usable).ok_or(damaged(0, "the page is cut off"))?;
        let header = bytes.get(at..at + 8).ok_or(damaged(at, "no room for a header"))?;
        let kind = Kind::of(header[0]).ok_or(damaged(at, "not a b-tree page"))?;
        let cells = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let pointers = at + if kind.is_interior() { 12 } else { 8 };
        if pointers + 2 * cells > usable {
            return Err(damaged(at + 3, "more cells than fit"));
        }
        Ok(Self { number, kind, bytes, pointers, cells })
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> PageNo {
        self.number
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The number of its cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The cell at `index`, in key order.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the pointer or the cell reaches outside the page.
    pub fn cell(&self, index: usize) -> Result<Cell<'a>> {
        let at = self.cell_at(index)?;
        let mut cell = Cell { child: None, rowid: None, payload: None };
        let mut from = at;
        if self.kind.is_interior() {
            cell.child = Some(self.page_at(from)?);
            from += 4;
        }
        let size = match self.kind {
            Kind::TableInterior => None,
            _ => Some(self.varint_at(&mut from)?),
        };
        if !self.kind.is_index() {
            cell.rowid = Some(self.varint_at(&mut from)? as i64);
        }
        cell.payload = size.map(|size| self.payload_at(from, size)).transpose()?;
        Ok(cell)
    }

    /// The columns of the record in a cell, as far as they are on the page. `None` if it has none or is
    /// damaged.
    #[must_use]
    pub fn columns(&self, index: usize) -> Option<Columns<'a>> {
        columns(self.cell(index).ok()?.payload?.local)
    }

    /// The child at `index`, from 0 up to and including the number of cells: the last is the right-most.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a leaf or a pointer out of the page.
    pub fn child(&self, index: usize) -> Result<PageNo> {
        if !self.kind.is_interior() {
            return Err(self.damaged(self.pointers, "a leaf where children are wanted"));
        }
        match index.cmp(&self.cells) {
            std::cmp::Ordering::Less => self.page_at(self.cell_at(index)?),
            std::cmp::Ordering::Equal => self.page_at(self.pointers - 4),
            std::cmp::Ordering::Greater => Err(self.damaged(self.pointers, "no such child")),
        }
    }

    /// The position of a child. `None` if it has no such child.
    #[must_use]
    pub fn position(&self, child: PageNo) -> Option<usize> {
        (0..=self.cells).find(|&index| self.child(index).is_ok_and(|page| page == child))
    }

    /// The rowid of a table cell, without its payload.
    ///
    /// # Errors
    /// [`Error::Damaged`] as [`Page::cell`], and for an index page.
    pub fn rowid(&self, index: usize) -> Result<i64> {
        let mut from = self.cell_at(index)?;
        match self.kind {
            Kind::TableInterior => from += 4,
            Kind::TableLeaf => {
                self.varint_at(&mut from)?;
            }
            Kind::IndexInterior | Kind::IndexLeaf => {
                return Err(self.damaged(from, "an index page where rowids are wanted"));
            }
        }
        Ok(self.varint_at(&mut from)? as i64)
    }

    fn damaged(&self, at: usize, what: &'static str) -> Error {
        Error::Damaged { page: self.number, at, what }
    }

    fn cell_at(&self, index: usize) -> Result<usize> {
        if index >= self.cells {
            return Err(self.damaged(self.pointers, "no such cell"));
        }
        let pointer = self.pointers + 2 * index;
        let at = usize::from(u16::from_be_bytes([self.bytes[pointer], self.bytes[pointer + 1]]));
        // A page of 65536 bytes cannot have a cell at its very end, so 0 never means 65536 here.
        if at < self.pointers + 2 * self.cells || at >= self.bytes.len() {
            return Err(self.damaged(pointer, "a cell pointer out of the cell area"));
        }
        Ok(at)
    }

    fn page_at(&self, at: usize) -> Result<PageNo> {
        let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
        match bytes.map(|bytes| u32::from_be_bytes(*bytes)) {
            Some(0) => Err(self.damaged(at, "a pointer to page 0")),
            Some(number) => Ok(PageNo(number)),
            None => Err(self.damaged(at, "a page number across the page's end")),
        }
    }

    fn varint_at(&self, at: &mut usize) -> Result<u64> {
        let (value, length) = self
            .bytes
            .get(*at..)
            .and_then(varint)
            .ok_or_else(|| self.damaged(*at, "a number across the page's end"))?;
        *at += length;
        Ok(value)
    }

    fn payload_at(&self, at: usize, size: u64) -> Result<Payload<'a>> {
        let local = self.local_len(size);
        let bytes = self
            .bytes
            .get(at..at + local)
            .ok_or_else(|| self.damaged(at, "a payload across the page's end"))?;
        let overflow = if size > local as u64 { Some(self.page_at(at + local)?) } else { None };
        Ok(Payload { size, local: bytes, overflow })
    }

    /// How much of a payload is on the page (file format, section 1.6: X, M and K).
    fn local_len(&self, size: u64) -> usize {
        let usable = self.bytes.len();
        let most = if self.kind.is_index() { (usable - 12) * 64 / 255 - 23 } else { usable - 35 };
        if size <= most as u64 {
            return size as usize;
        }
        let least = (usable - 12) * 32 / 255 - 23;
        let fitting = least + ((size - least as u64) % (usable as u64 - 4)) as usize;
        if fitting <= most { fitting } else { least }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_table_leaf_gives_its_rows() {
        let mut bytes = vec![0u8; 512];
        bytes[..8].copy_from_slice(&[13, 0, 0, 0, 2, 1, 0xf0, 0]);
        bytes[8..12].copy_from_slice(&[0x01, 0xf8, 0x01, 0xf0]);
        bytes[0x1f8..0x1fc].copy_from_slice(&[2, 7, 2, 8]);
        bytes[0x1f0..0x1f5].copy_from_slice(&[2, 0x81, 0, 2, 9]);
        let page = Page::parse(PageNo(2), &bytes, 512).expect("sound");
        assert_eq!((page.kind(), page.cells()), (Kind::TableLeaf, 2));
        let cell = page.cell(0).expect("sound");
        assert_eq!(cell.rowid, Some(7));
        assert_eq!(cell.payload, Some(Payload { size: 2, local: &[2, 8], overflow: None }));
        assert_eq!(page.rowid(1), Ok(128));
        assert!(page.cell(2).is_err());
        assert!(page.child(0).is_err());
    }

    #[test]
    fn cells_out_of_the_page_are_refused() {
        let mut bytes = vec![0u8; 512];
        bytes[..8].copy_from_slice(&[13, 0, 0, 0xff, 0xff, 1, 0, 0]);
        assert!(Page::parse(PageNo(2), &bytes, 512).is_err());
        bytes[3..5].copy_from_slice(&[0, 1]);
        for pointer in [0u16, 9, 512, 0xffff] {
            bytes[8..10].copy_from_slice(&pointer.to_be_bytes());
            assert!(Page::parse(PageNo(2), &bytes, 512).expect("sound").cell(0).is_err(), "{pointer}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_failure(mut bytes in proptest::collection::vec(any::<u8>(), 512), kind in 0usize..4) {
            bytes[0] = [2, 5, 10, 13][kind];
            bytes[3] = 0;
            if let Ok(page) = Page::parse(PageNo(3), &bytes, 500) {
                for index in 0..=page.cells() {
                    if let Ok(Cell { payload: Some(payload), .. }) = page.cell(index) {
                        prop_assert!(payload.local.len() <= 500);
                        prop_assert_eq!(payload.overflow.is_some(), payload.size > payload.local.len() as u64);
                    }
                    let _ = (page.child(index), page.rowid(index));
                }
            }
        }
    }
}
