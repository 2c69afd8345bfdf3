//! Amounts: bytes, pages of 4 KiB, sectors of 512 bytes.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

/// Bytes in a page. It is the kernel's page on every machine that this project supports, and the papers'.
pub const PAGE_SIZE: u64 = 4096;
/// Bytes in a sector: the unit of a logical block address in the kernel's block layer.
pub const SECTOR_SIZE: u64 = 512;
/// Sectors in a page.
pub const SECTORS_PER_PAGE: u64 = PAGE_SIZE / SECTOR_SIZE;

macro_rules! amount {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);

            /// The plain number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Whether it is zero.
            #[must_use]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }

            /// `self - other`, or zero if `other` is larger.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// `self * factor`, rounded to the nearest; `factor` must not be negative.
            #[must_use]
            pub fn scale(self, factor: f64) -> Self {
                Self((self.0 as f64 * factor).round() as u64)
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 = self.0.saturating_sub(other.0);
            }
        }
        impl Mul<u64> for $name {
            type Output = Self;
            fn mul(self, by: u64) -> Self {
                Self(self.0 * by)
            }
        }
        impl Div<u64> for $name {
            type Output = Self;
            fn div(self, by: u64) -> Self {
                Self(self.0 / by)
            }
        }
        impl Div for $name {
            type Output = u64;
            fn div(self, other: Self) -> u64 {
                self.0 / other.0
            }
        }
        impl Rem for $name {
            type Output = Self;
            fn rem(self, other: Self) -> Self {
                Self(self.0 % other.0)
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                Self(items.map(|item| item.0).sum())
            }
        }
    };
}
pub(crate) use amount;

amount! {
    /// A number of bytes.
    Bytes
}
amount! {
    /// A number of pages of [`PAGE_SIZE`] bytes.
    Pages
}
amount! {
    /// A number of sectors of [`SECTOR_SIZE`] bytes.
    Sectors
}

impl Bytes {
    /// `n` KiB.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// Whole pages that fit into it.
    #[must_use]
    pub const fn pages_floor(self) -> Pages {
        Pages(self.0 / PAGE_SIZE)
    }

    /// The pages that contain it.
    #[must_use]
    pub const fn pages_ceil(self) -> Pages {
        Pages(self.0.div_ceil(PAGE_SIZE))
    }

    /// Whole sectors that fit into it.
    #[must_use]
    pub const fn sectors_floor(self) -> Sectors {
        Sectors(self.0 / SECTOR_SIZE)
    }

    /// The sectors that contain it.
    #[must_use]
    pub const fn sectors_ceil(self) -> Sectors {
        Sectors(self.0.div_ceil(SECTOR_SIZE))
    }
}

impl Pages {
    /// The bytes of these pages.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * PAGE_SIZE)
    }

    /// The sectors of these pages.
    #[must_use]
    pub const fn sectors(self) -> Sectors {
        Sectors(self.0 * SECTORS_PER_PAGE)
    }
}

impl Sectors {
    /// The bytes of these sectors.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * SECTOR_SIZE)
    }

    /// The pages that contain these sectors.
    #[must_use]
    pub const fn pages_ceil(self) -> Pages {
        Pages(self.0.div_ceil(SECTORS_PER_PAGE))
    }
}
