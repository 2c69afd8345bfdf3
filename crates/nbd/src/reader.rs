//! Parses the bytes of a client: the handshake, then requests.

use crate::book::Part;
use crate::offer::Offer;
use crate::wire::{
    CMD_CACHE, CMD_DISC, CMD_FLUSH, CMD_READ, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES, Command, DF,
    FIXED_NEWSTYLE, FUA, Fault, Fields, GREETING, INFO_BLOCK_SIZE, INFO_DESCRIPTION, INFO_EXPORT, INFO_NAME,
    Message, NO_HOLE, NO_ZEROES, OPT_ABORT, OPT_EXPORT_NAME, OPT_GO, OPT_INFO, OPT_LIST, OPT_STARTTLS,
    OPT_STRUCTURED_REPLY, OPTION, OPTION_REPLY, REP_ACK, REP_ERR_INVALID, REP_ERR_TOO_BIG, REP_ERR_UNKNOWN,
    REP_ERR_UNSUP, REP_INFO, REP_SERVER, REQUEST,
};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, PAGE_SIZE};
use std::sync::Arc;

/// The answer to a client that asks for TLS. It would bring a library of its own into a server whose memory is locked.
const NO_TLS: &[u8] =
    b"TLS is not served: connect on the server's machine, or through a tunnel such as ssh -L";

/// The longest read or write: the default that clients assume.
pub const LENGTH_MOST: Bytes = Bytes::mib(32);
/// The longest part of a request: the size into which the block layer of Linux splits large requests as well.
pub const PART: Bytes = Bytes::mib(1);
/// The longest option that is parsed: two names of the greatest length, and more requests for information
/// than exist.
const OPTION_MOST: u32 = 16 << 10;
/// The most options of a client: a handshake needs five.
const OPTIONS_MOST: u32 = 64;
/// Bytes of a request without its data.
const REQUEST_LENGTH: usize = 28;

/// Why a connection is closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The handshake has a wrong beginning.
    #[error("it does not speak the fixed newstyle handshake")]
    Handshake,
    /// It wants an unknown export, by an option that cannot be refused otherwise.
    #[error("it asks for an export that is not there")]
    Export,
    /// It sends too many options.
    #[error("it sends more options than any client needs")]
    Options,
    /// A request has a wrong beginning.
    #[error("it sends what is no request")]
    Request,
    /// A write is longer than any may be.
    #[error("it writes more than 32 MiB at a time")]
    Length,
}

/// The result of a client's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send these bytes.
    Send(Vec<u8>),
    /// A request, or a part of one: to be added to the [`Book`](crate::Book).
    Part(Part),
    /// A request that is refused without the device; to be answered by the [`Book`](crate::Book).
    Refuse {
        /// The client's number of the request.
        cookie: u64,
        /// Whether it is a read, which is answered by chunks if the client wants those.
        read: bool,
        /// The reason.
        fault: Fault,
    },
    /// The client has finished: close the connection once everything is answered.
    End,
    /// Close the connection.
    Break(Broken),
}

enum Phase {
    /// Waits for the client's flags.
    Flags,
    /// Options.
    Options,
    /// Requests.
    Requests,
    /// Data of a write.
    Data(Writing),
    /// The connection has ended: further bytes are ignored.
    Over,
}

/// A write whose data are arriving.
struct Writing {
    cookie: u64,
    /// The bytes that are still to arrive.
    range: ByteSpan,
    fua: bool,
    /// The reason if the device does not get it: its data are skipped.
    refused: Option<Fault>,
}

/// See the crate's documentation.
pub struct Reader {
    offer: Arc<Offer>,
    phase: Phase,
    input: Vec<u8>,
    /// How much of `input` has been used.
    used: usize,
    /// Bytes to arrive that are skipped.
    skip: u64,
    options: u32,
    structured: bool,
    no_zeroes: bool,
}

impl Reader {
    /// For a client that has just connected; returns the bytes to send to it.
    #[must_use]
    pub fn new(offer: Arc<Offer>) -> (Self, Vec<u8>) {
        let greeting = Message::new().u64(GREETING).u64(OPTION).u16(FIXED_NEWSTYLE | NO_ZEROES).0;
        let reader = Self {
            offer,
            phase: Phase::Flags,
            input: Vec::new(),
            used: 0,
            skip: 0,
            options: 0,
            structured: false,
            no_zeroes: false,
        };
        (reader, greeting)
    }

    /// Whether reads are answered by chunks.
    #[must_use]
    pub fn is_structured(&self) -> bool {
        self.structured
    }

    /// Whether the handshake is over.
    #[must_use]
    pub fn is_served(&self) -> bool {
        matches!(self.phase, Phase::Requests | Phase::Data(_))
    }

    /// Adds received bytes; call [`step`](Self::step) then until it returns `None`. It holds less than
    /// [`PART`] and these bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        self.input.drain(..self.used);
        self.used = 0;
        let skipped = self.skip.min(bytes.len() as u64);
        self.skip -= skipped;
        self.input.extend_from_slice(&bytes[skipped as usize..]);
    }

    /// The next step; `None` until more is received.
    pub fn step(&mut self) -> Option<Step> {
        loop {
            let step = match &self.phase {
                Phase::Flags => self.flags()?,
                Phase::Options => self.option()?,
                Phase::Requests => self.request()?,
                Phase::Data(_) => self.data()?,
                Phase::Over => return None,
            };
            if step.is_some() {
                return step;
            }
        }
    }

    fn rest(&self) -> Fields<'_> {
        Fields(&self.input[self.used..])
    }

    fn close(&mut self, step: Step) -> Option<Option<Step>> {
        self.phase = Phase::Over;
        Some(Some(step))
    }

    /// For each phase: `None` if more bytes are needed, `Some(None)` if there is nothing to report.
    fn flags(&mut self) -> Option<Option<Step>> {
        let flags = self.rest().u32()?;
        self.used += 4;
        if flags & u32::from(FIXED_NEWSTYLE) == 0 || flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return self.close(Step::Break(Broken::Handshake));
        }
        self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        self.phase = Phase::Options;
        Some(None)
    }

    fn option(&mut self) -> Option<Option<Step>> {
        let mut fields = self.rest();
        let (magic, option, length) = (fields.u64()?, fields.u32()?, fields.u32()?);
        if magic != OPTION {
            return self.close(Step::Break(Broken::Handshake));
        }
        if self.options == OPTIONS_MOST {
            return self.close(Step::Break(Broken::Options));
        }
        if length > OPTION_MOST {
            self.options += 1;
            self.used += 16;
            let here = (self.input.len() - self.used).min(length as usize);
            self.used += here;
            self.skip = u64::from(length) - here as u64;
            return Some(Some(Step::Send(reply(option, REP_ERR_TOO_BIG, b"this option is too long"))));
        }
        let data = fields.take(length as usize)?.to_vec();
        self.options += 1;
        self.used += 16 + length as usize;
        Some(Some(match option {
            OPT_EXPORT_NAME if self.offer.is_named(&data) => {
                self.phase = Phase::Requests;
                let offered =
                    Message::new().u64(self.offer.size.get()).u16(self.offer.flags(self.structured));
                let zeroes: &[u8] = if self.no_zeroes { &[] } else { &[0; 124] };
                Step::Send(offered.bytes(zeroes).0)
            }
            OPT_EXPORT_NAME => return self.close(Step::Break(Broken::Export)),
            OPT_ABORT => {
                // The client may have closed the connection without waiting for this.
                self.phase = Phase::Over;
                Step::End
            }
            OPT_LIST | OPT_STRUCTURED_REPLY if !data.is_empty() => {
                Step::Send(reply(option, REP_ERR_INVALID, b"this option takes no data"))
            }
            OPT_LIST => {
                let name = self.offer.name.as_bytes();
                let server = Message::new()
                    .u32(name.len() as u32)
                    .bytes(name)
                    .bytes(self.offer.description.as_bytes())
                    .0;
                Step::Send([reply(option, REP_SERVER, &server), reply(option, REP_ACK, &[])].concat())
            }
            OPT_STRUCTURED_REPLY => {
                self.structured = true;
                Step::Send(reply(option, REP_ACK, &[]))
            }
            OPT_INFO | OPT_GO => match self.information(option, &data) {
                Ok(answer) => {
                    if option == OPT_GO {
                        self.phase = Phase::Requests;
                    }
                    Step::Send(answer)
                }
                Err(refused) => Step::Send(refused),
            },
            OPT_STARTTLS => Step::Send(reply(option, REP_ERR_UNSUP, NO_TLS)),
            _ => Step::Send(reply(option, REP_ERR_UNSUP, b"this option is not served")),
        }))
    }

    /// The information about an export; or the refusal.
    fn information(&self, option: u32, data: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
        let mut fields = Fields(data);
        let mut asked = || {
            let length = fields.u32()?;
            let name = fields.take(length as usize)?;
            let count = fields.u16()?;
            let kinds: Option<Vec<u16>> = (0..count).map(|_| fields.u16()).collect();
            Some((name, kinds?)).filter(|_| fields.0.is_empty())
        };
        let Some((name, kinds)) = asked() else {
            return Err(reply(option, REP_ERR_INVALID, b"this option's data make no sense"));
        };
        let offer = &self.offer;
        if !offer.is_named(name) {
            return Err(reply(option, REP_ERR_UNKNOWN, b"no export has this name"));
        }
        let info =
            |kind: u16, more: Message| reply(option, REP_INFO, &Message::new().u16(kind).bytes(&more.0).0);
        let export = Message::new().u64(offer.size.get()).u16(offer.flags(self.structured));
        let mut answer = info(INFO_EXPORT, export);
        if kinds.contains(&INFO_NAME) {
            answer.extend(info(INFO_NAME, Message::new().bytes(offer.name.as_bytes())));
        }
        if kinds.contains(&INFO_DESCRIPTION) {
            answer.extend(info(INFO_DESCRIPTION, Message::new().bytes(offer.description.as_bytes())));
        }
        // Sent without a request, too: a client that does not request it may still use it.
        let sizes = [offer.block.get() as u32, PAGE_SIZE as u32, LENGTH_MOST.get() as u32];
        answer.extend(info(INFO_BLOCK_SIZE, sizes.into_iter().fold(Message::new(), Message::u32)));
        answer.extend(reply(option, REP_ACK, &[]));
        Ok(answer)
    }

    fn request(&mut self) -> Option<Option<Step>> {
        let mut fields = self.rest();
        let (magic, flags, command) = (fields.u32()?, fields.u16()?, fields.u16()?);
        let (cookie, offset, length) = (fields.u64()?, fields.u64()?, fields.u32()?);
        self.used += REQUEST_LENGTH;
        if magic != REQUEST {
            return self.close(Step::Break(Broken::Request));
        }
        if command == CMD_DISC {
            return self.close(Step::End);
        }
        let range = self.checked(command, flags, offset, length);
        if command == CMD_WRITE {
            if Bytes(u64::from(length)) > LENGTH_MOST {
                return self.close(Step::Break(Broken::Length));
            }
            // Its data arrive in any case; if the request is invalid, their offset does not matter.
            let whole = ByteSpan::at(ByteOffset(0), Bytes(u64::from(length)));
            let (range, refused) = range.map_or_else(|fault| (whole, Some(fault)), |range| (range, None));
            self.phase = Phase::Data(Writing { cookie, range, fua: flags & FUA != 0, refused });
            return Some(None);
        }
        let read = command == CMD_READ;
        let command = range.map(|range| match command {
            CMD_READ => Command::Read(range),
            CMD_FLUSH => Command::Flush,
            CMD_TRIM => Command::Trim(range),
            CMD_CACHE => Command::Cache(range),
            _ => Command::Zero { range, allocated: flags & NO_HOLE != 0 },
        });
        Some(Some(match command {
            Ok(command) => {
                let last = true;
                let (fua, whole) = (flags & FUA != 0, flags & DF != 0);
                Step::Part(Part { cookie, command, fua, whole, last })
            }
            Err(fault) => Step::Refuse { cookie, read, fault },
        }))
    }

    /// The range of a valid request.
    fn checked(&self, command: u16, flags: u16, offset: u64, length: u32) -> Result<ByteSpan, Fault> {
        let allowed = match command {
            CMD_READ => FUA | DF,
            CMD_WRITE | CMD_TRIM | CMD_CACHE => FUA,
            CMD_FLUSH => {
                // Its range is reserved, and ignored.
                let none = ByteSpan::at(ByteOffset(0), Bytes::ZERO);
                return if flags & !FUA == 0 { Ok(none) } else { Err(Fault::Invalid) };
            }
            CMD_WRITE_ZEROES => FUA | NO_HOLE,
            _ => return Err(Fault::Invalid),
        };
        if flags & !allowed != 0 || length == 0 {
            return Err(Fault::Invalid);
        }
        let end = offset.checked_add(length.into()).filter(|end| *end <= self.offer.size.get());
        let stores = matches!(command, CMD_WRITE | CMD_WRITE_ZEROES);
        let end = end.ok_or(if stores { Fault::NoSpace } else { Fault::Invalid })?;
        let block = self.offer.block.get();
        let blocks = offset.is_multiple_of(block) && end.is_multiple_of(block);
        let too_long = command == CMD_READ && Bytes(length.into()) > LENGTH_MOST;
        if !blocks || too_long {
            return Err(Fault::Invalid);
        }
        Ok(ByteSpan::new(ByteOffset(offset), ByteOffset(end)))
    }

    fn data(&mut self) -> Option<Option<Step>> {
        let received = self.input.len() - self.used;
        let Phase::Data(writing) = &mut self.phase else { return Some(None) };
        if let Some(fault) = writing.refused {
            let length = writing.range.len().get();
            let here = length.min(received as u64);
            let cookie = writing.cookie;
            self.used += here as usize;
            self.skip = length - here;
            self.phase = Phase::Requests;
            return Some(Some(Step::Refuse { cookie, read: false, fault }));
        }
        let length = writing.range.len().min(PART);
        if (received as u64) < length.get() {
            return None;
        }
        let (now, later) = writing.range.split(writing.range.start + length);
        writing.range = later;
        let (cookie, fua, last) = (writing.cookie, writing.fua, later.is_empty());
        let data = self.input[self.used..][..length.get() as usize].to_vec();
        self.used += data.len();
        if last {
            self.phase = Phase::Requests;
        }
        let command = Command::Write(now, data);
        Some(Some(Step::Part(Part { cookie, command, fua, whole: false, last })))
    }
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    Message::new().u64(OPTION_REPLY).u32(option).u32(kind).u32(data.len() as u32).bytes(data).0
}
