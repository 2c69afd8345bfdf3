//! The tokens of reads, by which a [`DiskReader`](foreseek_storage::reads::DiskReader) names them.

use foreseek_seam::{FetchId, RequestId};

/// Tokens of fetches are even, those of passed reads odd.
pub(super) struct Token;

impl Token {
    pub(super) fn of_fetch(fetch: FetchId) -> u64 {
        fetch.0 << 1
    }

    pub(super) fn of_pass(request: RequestId) -> u64 {
        request.0 << 1 | 1
    }

    /// The fetch of a token, if it is one.
    pub(super) fn fetch(token: u64) -> Option<FetchId> {
        (token & 1 == 0).then_some(FetchId(token >> 1))
    }

    /// The passed read of a token.
    pub(super) fn pass(token: u64) -> RequestId {
        RequestId(token >> 1)
    }
}
