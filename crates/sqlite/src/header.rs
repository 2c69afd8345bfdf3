//! The first 100 bytes of a database file (SQLite file format, section 1.3).

use crate::error::{Error, Result};
use crate::page_no::PageNo;
use foreseek_units::{ByteOffset, ByteSpan, Bytes};

/// Length of the database header.
pub const HEADER_LEN: usize = 100;
/// The offset of the 16 bytes that SQLite reads at the start of each transaction to learn whether another
/// process has changed the file: the change counter is their first field.
pub const CHANGE_COUNTER_AT: u64 = 24;
/// The beginning of a database.
pub const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// SQLite never uses a page that has fewer bytes than this left after the reserved ones.
const USABLE_LEAST: u32 = 480;

/// How text is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
}

/// The header fields that are needed to find and decode pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    page_size: u32,
    reserved: u8,
    /// How text is stored.
    pub encoding: Encoding,
    /// Grows with every transaction that changes the file outside WAL mode.
    pub change_counter: u32,
    /// Grows with every change of the schema.
    pub schema_cookie: u32,
    /// Whether the database is in WAL mode: newer pages may be in the log beside the file.
    pub wal: bool,
}

impl Header {
    /// Decodes the header from the start of a file.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] for anything else: an encrypted file, a journal, an empty file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let not = |what| Error::NotADatabase { what };
        let bytes = bytes.first_chunk::<HEADER_LEN>().ok_or(not("shorter than a header"))?;
        if &bytes[..16] != MAGIC {
            return Err(not("the file does not begin with 'SQLite format 3'"));
        }
        let page_size = match u16::from_be_bytes([bytes[16], bytes[17]]) {
            1 => 65_536,
            size => u32::from(size),
        };
        if !page_size.is_power_of_two() || page_size < 512 {
            return Err(not("the page size is no power of two from 512 to 65536"));
        }
        let reserved = bytes[20];
        if page_size - u32::from(reserved) < USABLE_LEAST {
            return Err(not("too many bytes of each page are reserved"));
        }
        if bytes[18] > 2 || bytes[19] > 2 {
            return Err(not("the file format is of a later version than 2"));
        }
        if bytes[21..24] != [64, 32, 32] {
            return Err(not("the payload fractions are not 64, 32, 32"));
        }
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let encoding = match word(56) {
            0 | 1 => Encoding::Utf8,
            2 => Encoding::Utf16Le,
            3 => Encoding::Utf16Be,
            _ => return Err(not("the text encoding is unknown")),
        };
        Ok(Self {
            page_size,
            reserved,
            encoding,
            change_counter: word(24),
            schema_cookie: word(40),
            wal: bytes[19] == 2,
        })
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_size(&self) -> Bytes {
        Bytes(u64::from(self.page_size))
    }

    /// Bytes of a page without the reserved ones at its end, as b-trees use them.
    #[must_use]
    pub fn usable(&self) -> usize {
        (self.page_size - u32::from(self.reserved)) as usize
    }

    /// The bytes of a page within the file.
    #[must_use]
    pub fn span_of(&self, page: PageNo) -> ByteSpan {
        let size = u64::from(self.page_size);
        ByteSpan::at(ByteOffset(u64::from(page.get().saturating_sub(1)) * size), Bytes(size))
    }

    /// The page that a read of these bytes fetches, if it is exactly one.
    #[must_use]
    pub fn page_at(&self, span: ByteSpan) -> Option<PageNo> {
        let size = u64::from(self.page_size);
        let whole = span.start.get().is_multiple_of(size) && span.len() == Bytes(size);
        if !whole {
            return None;
        }
        u32::try_from(span.start.get() / size + 1).ok().map(PageNo)
    }

    /// How many whole pages a file of this length holds.
    #[must_use]
    pub fn pages_in(&self, length: Bytes) -> u32 {
        u32::try_from(length.get() / u64::from(self.page_size)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..24].copy_from_slice(&[0x10, 0, 1, 1, 0, 64, 32, 32]);
        bytes[27] = 7;
        bytes[43] = 9;
        bytes[59] = 1;
        bytes
    }

    #[test]
    fn a_sound_header_gives_its_fields() {
        let header = Header::parse(&sound()).expect("sound");
        assert_eq!(header.page_size(), Bytes(4096));
        assert_eq!((header.usable(), header.change_counter, header.schema_cookie), (4096, 7, 9));
        assert!(!header.wal);
    }

    #[test]
    fn one_means_64_kib() {
        let mut bytes = sound();
        bytes[16..18].copy_from_slice(&[0, 1]);
        let header = Header::parse(&bytes).expect("sound");
        assert_eq!(header.page_size(), Bytes::kib(64));
        assert_eq!(header.span_of(PageNo(3)).start, ByteOffset(131_072));
        assert_eq!(header.page_at(header.span_of(PageNo(3))), Some(PageNo(3)));
    }

    #[test]
    fn other_files_than_plain_databases_are_refused() {
        for (at, value) in [(0, 0), (16, 3), (18, 3), (20, 255), (21, 65), (59, 4)] {
            let mut bytes = sound();
            bytes[at] = value;
            if at == 20 {
                bytes[16..18].copy_from_slice(&[2, 0]);
            }
            assert!(Header::parse(&bytes).is_err(), "byte {at} = {value}");
        }
        assert!(Header::parse(&[]).is_err());
    }

    #[test]
    fn a_read_of_less_or_more_than_a_page_is_no_page() {
        let header = Header::parse(&sound()).expect("sound");
        let read = |start, len| header.page_at(ByteSpan::at(ByteOffset(start), Bytes(len)));
        assert_eq!(read(4096, 4096), Some(PageNo(2)));
        assert_eq!(read(24, 16), None);
        assert_eq!(read(0, 8192), None);
        assert_eq!(read(100, 4096), None);
    }
}
