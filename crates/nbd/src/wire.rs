//! Numbers of the protocol, and their encoding.

use foreseek_units::ByteSpan;

pub(crate) const GREETING: u64 = 0x4e42_444d_4147_4943;
pub(crate) const OPTION: u64 = 0x4948_4156_454f_5054;
pub(crate) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY: u32 = 0x6744_6698;
pub(crate) const STRUCTURED_REPLY: u32 = 0x668e_33ef;

/// Flags of the greeting, and of the client's answer: fixed newstyle; no zeroes after the export's flags.
pub(crate) const FIXED_NEWSTYLE: u16 = 1;
pub(crate) const NO_ZEROES: u16 = 1 << 1;

pub(crate) const OPT_EXPORT_NAME: u32 = 1;
pub(crate) const OPT_ABORT: u32 = 2;
pub(crate) const OPT_LIST: u32 = 3;
pub(crate) const OPT_STARTTLS: u32 = 5;
pub(crate) const OPT_INFO: u32 = 6;
pub(crate) const OPT_GO: u32 = 7;
pub(crate) const OPT_STRUCTURED_REPLY: u32 = 8;

/// A known option that this server refuses.
#[cfg(test)]
pub(crate) const OPT_LIST_META_CONTEXT: u32 = 9;

pub(crate) const REP_ACK: u32 = 1;
pub(crate) const REP_SERVER: u32 = 2;
pub(crate) const REP_INFO: u32 = 3;
pub(crate) const REP_ERR_UNSUP: u32 = 1 << 31 | 1;
pub(crate) const REP_ERR_INVALID: u32 = 1 << 31 | 3;
pub(crate) const REP_ERR_UNKNOWN: u32 = 1 << 31 | 6;
pub(crate) const REP_ERR_TOO_BIG: u32 = 1 << 31 | 9;

pub(crate) const INFO_EXPORT: u16 = 0;
pub(crate) const INFO_NAME: u16 = 1;
pub(crate) const INFO_DESCRIPTION: u16 = 2;
pub(crate) const INFO_BLOCK_SIZE: u16 = 3;

/// Flags of an export.
pub(crate) const HAS_FLAGS: u16 = 1;
pub(crate) const SEND_FLUSH: u16 = 1 << 2;
pub(crate) const SEND_FUA: u16 = 1 << 3;
pub(crate) const ROTATIONAL: u16 = 1 << 4;
pub(crate) const SEND_TRIM: u16 = 1 << 5;
pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
pub(crate) const SEND_DF: u16 = 1 << 7;
pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
pub(crate) const SEND_CACHE: u16 = 1 << 10;

pub(crate) const CMD_READ: u16 = 0;
pub(crate) const CMD_WRITE: u16 = 1;
pub(crate) const CMD_DISC: u16 = 2;
pub(crate) const CMD_FLUSH: u16 = 3;
pub(crate) const CMD_TRIM: u16 = 4;
pub(crate) const CMD_CACHE: u16 = 5;
pub(crate) const CMD_WRITE_ZEROES: u16 = 6;

/// Flags of a request.
pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 1 << 1;
pub(crate) const DF: u16 = 1 << 2;

/// Chunks of a structured reply, and the flag of the last.
pub(crate) const CHUNK_DATA: u16 = 1;
pub(crate) const CHUNK_ERROR: u16 = 1 << 15 | 1;
pub(crate) const CHUNK_ERROR_OFFSET: u16 = 1 << 15 | 2;
pub(crate) const CHUNK_DONE: u16 = 1;

/// A client's command to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Return these bytes.
    Read(ByteSpan),
    /// Store these bytes there.
    Write(ByteSpan, Vec<u8>),
    /// Make all earlier answers durable.
    Flush,
    /// These bytes are not needed any more.
    Trim(ByteSpan),
    /// Load these bytes into a cache: they will be read.
    Cache(ByteSpan),
    /// These bytes become zero; with `allocated` their space stays allocated.
    Zero {
        /// The bytes.
        range: ByteSpan,
        /// Whether their space must stay allocated.
        allocated: bool,
    },
}

/// Why a request failed, in the protocol's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// The medium cannot read or write the bytes.
    Io = 5,
    /// The request makes no sense.
    Invalid = 22,
    /// There is no room to store it.
    NoSpace = 28,
    /// The device does not do this.
    Unsupported = 95,
}

/// Bytes to be sent.
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(64))
    }

    pub(crate) fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}

/// Received bytes, taken from the front.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_be_bytes)
    }
}
