//! The database of TPC-H at scale factor 1, as MyISAM files: one of rows, one of indexes a table.
//!
//! EuroSys'07 section 6.1 gives the total (2 GB), the largest file (730 MB: the rows of `lineitem`, 121 bytes
//! each) and the smallest (432 bytes: those of `region`). Numbers of rows are TPC-H's (clause 4.2.5), lengths
//! of rows those of its text, scaled to those two. The rest of the total belongs to the indexes, in proportion
//! to rows times the number of indexes.

use crate::program::{FileNumber, FileSpec};
use foreseek_units::Bytes;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Table {
    Lineitem,
    Orders,
    PartSupp,
    Part,
    Customer,
    Supplier,
    Nation,
    Region,
}

/// Rows, bytes of a row, indexes of each table, in that order: its primary and foreign keys, and
/// `orders` by date.
const TABLES: [(u64, u64, u64); 8] = [
    (6_001_215, 121, 4),
    (1_500_000, 115, 3),
    (800_000, 148, 3),
    (200_000, 121, 1),
    (150_000, 163, 2),
    (10_000, 143, 2),
    (25, 104, 1),
    (5, 86, 1),
];

/// All files together.
const DATABASE: u64 = 2_000_000_000;
/// `region`'s rows, the paper's smallest file.
const REGION_FILE: Bytes = Bytes(432);

impl Table {
    pub(super) fn rows(self) -> u64 {
        TABLES[self as usize].0
    }

    /// The file of rows.
    pub(super) fn data(self) -> FileNumber {
        FileNumber(self as u32)
    }

    /// The file of indexes.
    pub(super) fn index(self) -> FileNumber {
        FileNumber(self as u32 + TABLES.len() as u32)
    }

    /// The length of the file of rows.
    pub(super) fn data_length(self) -> Bytes {
        match self {
            Self::Region => REGION_FILE,
            _ => Bytes(self.rows() * self.row().get()),
        }
    }

    pub(super) fn row(self) -> Bytes {
        Bytes(TABLES[self as usize].1)
    }

    pub(super) fn index_length(self) -> Bytes {
        let data: u64 = TABLES.iter().map(|(rows, row, _)| rows * row).sum();
        let keys = |(rows, _, indexes): &(u64, u64, u64)| rows * indexes;
        let all: u64 = TABLES.iter().map(keys).sum();
        let share = keys(&TABLES[self as usize]) as f64 / all as f64;
        // An index file begins with its header and has blocks of 1 KiB.
        Bytes(((DATABASE - data) as f64 * share) as u64).max(Bytes::kib(2))
    }
}

const ALL: [Table; 8] = [
    Table::Lineitem,
    Table::Orders,
    Table::PartSupp,
    Table::Part,
    Table::Customer,
    Table::Supplier,
    Table::Nation,
    Table::Region,
];

/// All files, in the order of their numbers: one directory, as MySQL keeps a database.
pub(super) fn files() -> Vec<FileSpec> {
    let data = ALL.iter().map(|table| table.data_length());
    let indexes = ALL.iter().map(|table| table.index_length());
    data.chain(indexes).map(|length| FileSpec { length, directory: 0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_the_papers() {
        let files = files();
        let total: Bytes = files.iter().map(|file| file.length).sum();
        assert!((total.get() as f64 / 2e9 - 1.0).abs() < 0.001, "{total}");
        let longest = files.iter().map(|file| file.length.get()).max().expect("some") as f64;
        assert!((longest / 730e6 - 1.0).abs() < 0.01, "{longest}");
        assert_eq!(files.iter().map(|file| file.length).min(), Some(Bytes(432)));
        assert_eq!(Table::Lineitem.data_length().get() as f64, longest);
    }
}
