//! How a stream's windows grow up to the depth that its rule allows.

use foreseek_units::Pages;

/// The first window of slow start: 16 pages, "as in the original kernel" (TR-840 section 3,
/// EuroSys'07 section 4.3).
pub const SLOW_START: Pages = Pages(16);

/// How windows grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ramp {
    /// As in the kernel of its generation.
    Stock,
    /// Starts with this size and doubles with each fetch of a sequential stream.
    SlowStart(Pages),
    /// The full depth from the first fetch on.
    Full,
}

impl Ramp {
    /// The first window where a kernel would begin with `stock`, for a call that wants `request`.
    #[must_use]
    pub fn first(self, stock: Pages, request: Pages, most: Pages) -> Pages {
        match self {
            Self::Stock => stock,
            Self::SlowStart(first) => first.max(request).min(most),
            Self::Full => most,
        }
    }

    /// The window after one of `size` where a kernel would continue with `stock`.
    #[must_use]
    pub fn next(self, stock: Pages, size: Pages, most: Pages) -> Pages {
        match self {
            Self::Stock => stock,
            Self::SlowStart(_) => (size * 2).min(most),
            Self::Full => most,
        }
    }
}
