//! A read that the engine passes: it is made without the engine, into a buffer of its own.

use super::token::Token;
use foreseek_seam::RequestId;
use foreseek_storage::Buffer;
use foreseek_storage::reads::{self, ReadFile, Target};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Span};
use std::sync::Arc;

/// Memory for passed reads: sixteen of the longest FUSE requests. It is allocated as it is used.
pub(super) const PASSING: Bytes = Bytes::mib(16);

/// A read that is made without the engine.
pub(super) struct Pass {
    request: RequestId,
    file: Arc<ReadFile>,
    /// The bytes to read: the range, extended to the file's alignment.
    aligned: ByteSpan,
}

impl Pass {
    /// A read of these bytes; `None` where no buffer is long enough.
    pub(super) fn new(request: RequestId, range: ByteSpan, file: Arc<ReadFile>) -> Option<Self> {
        let unit = file.alignment().get();
        let start = ByteOffset(range.start.get() / unit * unit);
        let aligned = Span::new(start, ByteOffset(range.end.get().next_multiple_of(unit)));
        (aligned.len() <= PASSING).then_some(Self { request, file, aligned })
    }

    /// The number of bytes to read.
    pub(super) fn length(&self) -> usize {
        self.aligned.len().get() as usize
    }

    pub(super) fn into_read(self, buffer: Buffer) -> reads::DiskRead {
        let (token, offset) = (Token::of_pass(self.request), self.aligned.start);
        reads::DiskRead {
            token,
            file: self.file,
            offset,
            into: Target::Buffer(buffer),
            urgent: true,
            apart: false,
        }
    }
}
