//! The export of a server.

use crate::wire::{
    CAN_MULTI_CONN, HAS_FLAGS, ROTATIONAL, SEND_CACHE, SEND_DF, SEND_FLUSH, SEND_FUA, SEND_TRIM,
    SEND_WRITE_ZEROES,
};
use foreseek_units::Bytes;

/// The one export of a server. The empty name selects it as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its name, at most 4096 bytes.
    pub name: String,
    /// A description for users; at most 4096 bytes.
    pub description: String,
    /// Its size, a multiple of its block.
    pub size: Bytes,
    /// Its logical block, from a sector to a page: requests begin and end at multiples of it.
    pub block: Bytes,
    /// Whether random access costs more than sequential.
    pub rotational: bool,
}

impl Offer {
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    pub(crate) fn flags(&self, structured: bool) -> u16 {
        // A flush covers all answers on any connection, so that a client may use several.
        let always =
            HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | SEND_CACHE | CAN_MULTI_CONN;
        let some = |holds: bool, flag| if holds { flag } else { 0 };
        always | some(self.rotational, ROTATIONAL) | some(structured, SEND_DF)
    }
}
