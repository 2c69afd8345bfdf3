//! Data that passes between an application and its client: coming accesses, regions, questions.

use foreseek_units::ByteOffset;
use std::os::fd::RawFd;

/// One intended read of a page (figure 6: `struct access_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Any open descriptor of the file.
    pub fd: RawFd,
    /// A byte within the page.
    pub offset: ByteOffset,
    /// Whether it is a landmark that [`CallbackRequest::marked`] reports.
    pub mark: bool,
}

/// Names a watched region of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region(pub(crate) u64);

impl Region {
    /// Its number within its client, from 1 on and never reused: for an ABI.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The region of a number. A number that the client does not have is refused when it is used.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// The question to the application about its coming reads (section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackRequest {
    /// The most recently accessed marked entry; its page's first byte.
    pub marked: Option<(RawFd, ByteOffset)>,
    /// The read that led to the question.
    pub requested: (RawFd, ByteOffset),
}
