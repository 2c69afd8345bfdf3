//! Positions: a byte or page of a file, a sector of a device.

use crate::amount::{Bytes, PAGE_SIZE, Pages, SECTOR_SIZE, Sectors};
use std::ops::{Add, AddAssign, Sub};

/// A position that can bound a [`crate::Span`]: it differs from another by an amount.
pub trait Position: Copy + Ord {
    /// The amount between two positions.
    type Amount: Copy + Ord + Default;

    /// The amount from `earlier` to `self`, or zero if `earlier` is later.
    fn since(self, earlier: Self) -> Self::Amount;

    /// The position `amount` later.
    fn after(self, amount: Self::Amount) -> Self;
}

macro_rules! position {
    ($(#[$doc:meta])* $name:ident, $amount:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The first position.
            pub const ZERO: Self = Self(0);

            /// The plain number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The distance between two positions, in either direction.
            #[must_use]
            pub const fn distance(self, other: Self) -> $amount {
                $amount(self.0.abs_diff(other.0))
            }
        }

        impl Position for $name {
            type Amount = $amount;
            fn since(self, earlier: Self) -> $amount {
                $amount(self.0.saturating_sub(earlier.0))
            }
            fn after(self, amount: $amount) -> Self {
                Self(self.0 + amount.0)
            }
        }
        impl Add<$amount> for $name {
            type Output = Self;
            fn add(self, amount: $amount) -> Self {
                Self(self.0 + amount.0)
            }
        }
        impl AddAssign<$amount> for $name {
            fn add_assign(&mut self, amount: $amount) {
                self.0 += amount.0;
            }
        }
        impl Sub<$amount> for $name {
            type Output = Self;
            fn sub(self, amount: $amount) -> Self {
                Self(self.0.saturating_sub(amount.0))
            }
        }
        impl Sub for $name {
            type Output = $amount;
            fn sub(self, earlier: Self) -> $amount {
                self.since(earlier)
            }
        }
    };
}
pub(crate) use position;

position! {
    /// A byte of a file or device.
    ByteOffset, Bytes
}
position! {
    /// A page of a file or object, counted from its start.
    PageIndex, Pages
}
position! {
    /// A logical block address: a sector of a device.
    Lba, Sectors
}

impl ByteOffset {
    /// The page that contains this byte.
    #[must_use]
    pub const fn page(self) -> PageIndex {
        PageIndex(self.0 / PAGE_SIZE)
    }

    /// The sector that contains this byte.
    #[must_use]
    pub const fn lba(self) -> Lba {
        Lba(self.0 / SECTOR_SIZE)
    }
}

impl PageIndex {
    /// The first byte of the page.
    #[must_use]
    pub const fn offset(self) -> ByteOffset {
        ByteOffset(self.0 * PAGE_SIZE)
    }

    /// The page after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Lba {
    /// The first byte of the sector.
    #[must_use]
    pub const fn offset(self) -> ByteOffset {
        ByteOffset(self.0 * SECTOR_SIZE)
    }
}
