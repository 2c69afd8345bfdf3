//! The codec against a naive client and a naive device.

use super::*;
use crate::wire::{
    CHUNK_DATA, CMD_DISC, CMD_FLUSH, CMD_READ, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES, DF, FUA, Fields,
    GREETING, Message, NO_HOLE, OPT_ABORT, OPT_EXPORT_NAME, OPT_GO, OPT_INFO, OPT_LIST,
    OPT_LIST_META_CONTEXT, OPT_STARTTLS, OPT_STRUCTURED_REPLY, OPTION, OPTION_REPLY, REP_ACK,
    REP_ERR_INVALID, REP_ERR_TOO_BIG, REP_ERR_UNKNOWN, REP_ERR_UNSUP, REP_INFO, REP_SERVER, REQUEST, SEND_DF,
    SIMPLE_REPLY, STRUCTURED_REPLY,
};
use foreseek_units::{ByteSpan, Bytes};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

const SIZE: u64 = 6 << 20;

fn offer() -> Arc<Offer> {
    let (name, description) = ("disk".to_owned(), "a disk for tests".to_owned());
    Arc::new(Offer { name, description, size: Bytes(SIZE), block: Bytes(512), rotational: true })
}

/// A server with a device in memory, which answers the parts of requests in its own order.
struct Naive {
    reader: Reader,
    book: Book,
    device: Vec<u8>,
    sent: Vec<u8>,
    waiting: Vec<(PartId, Command)>,
    flushes: usize,
    ended: Option<Step>,
    /// Reads of this byte fail.
    bad: Option<u64>,
    /// Whether it can free space.
    frees: bool,
}

impl Naive {
    fn new() -> Self {
        let (reader, sent) = Reader::new(offer());
        let device = (0..SIZE).map(|at| (at >> 9) as u8 ^ at as u8).collect();
        let (waiting, book) = (Vec::new(), Book::default());
        Self { reader, book, device, sent, waiting, flushes: 0, ended: None, bad: None, frees: true }
    }

    /// A server after the handshake, without the bytes that it sent.
    fn served(structured: bool) -> Self {
        let mut naive = Self::new();
        naive.receive(&3u32.to_be_bytes());
        if structured {
            naive.receive(&option(OPT_STRUCTURED_REPLY, &[]));
        }
        naive.receive(&option(OPT_GO, &go("")));
        assert!(naive.reader.is_served());
        naive.sent.clear();
        naive
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.reader.take(bytes);
        while let Some(step) = self.reader.step() {
            match step {
                Step::Send(bytes) => self.sent.extend(bytes),
                Step::Part(part) => {
                    let asked = self.book.enter(part, self.reader.is_structured());
                    self.waiting.extend(asked);
                }
                Step::Refuse { cookie, read, fault } => {
                    self.sent.extend(Book::refuse(cookie, read, fault, self.reader.is_structured()));
                }
                Step::End | Step::Break(_) => self.ended = Some(step),
            }
        }
    }

    /// Carries out and answers a waiting command.
    fn answer(&mut self, at: usize) {
        let (part, command) = self.waiting.remove(at);
        if let Command::Zero { range, allocated: false } = command
            && !self.frees
        {
            let written = self.book.replace(part, Command::Zero { range, allocated: true });
            return self.waiting.extend(written);
        }
        let of = |range: ByteSpan| range.start.get() as usize..range.end.get() as usize;
        let answer: Result<Vec<u8>, Fault> = match &command {
            Command::Read(range) if self.bad.is_some_and(|bad| of(*range).contains(&(bad as usize))) => {
                Err(Fault::Io)
            }
            Command::Read(range) => Ok(self.device[of(*range)].to_vec()),
            Command::Write(range, data) => {
                self.device[of(*range)].copy_from_slice(data);
                Ok(Vec::new())
            }
            Command::Zero { range, .. } | Command::Trim(range) => {
                self.device[of(*range)].fill(0);
                Ok(Vec::new())
            }
            Command::Cache(_) => Ok(Vec::new()),
            Command::Flush => {
                self.flushes += 1;
                Ok(Vec::new())
            }
        };
        let data = answer.as_deref().map_err(|fault| *fault);
        let answered = self.book.answered(part, data);
        self.sent.extend(answered.send);
        if answered.data {
            self.sent.extend(answer.unwrap_or_default());
        }
        self.waiting.extend(answered.flush.map(|part| (part, Command::Flush)));
    }

    fn answer_all(&mut self) {
        while !self.waiting.is_empty() {
            self.answer(self.waiting.len() - 1);
        }
    }

    /// The server's replies to requests, by their numbers: the error, and the data of a read.
    fn replies(&mut self) -> HashMap<u64, (u32, Vec<u8>)> {
        let sent = std::mem::take(&mut self.sent);
        let mut fields = Fields(&sent);
        let mut replies: HashMap<u64, (u32, Vec<u8>)> = HashMap::new();
        while let Some(magic) = fields.u32() {
            match magic {
                SIMPLE_REPLY => {
                    let error = fields.u32().expect("an error");
                    let cookie = fields.u64().expect("a number");
                    // These tests read only by chunks, or one read at a time.
                    let data =
                        if cookie & READ != 0 && error == 0 { std::mem::take(&mut fields.0) } else { &[] };
                    assert!(replies.insert(cookie, (error, data.to_vec())).is_none(), "answered twice");
                }
                STRUCTURED_REPLY => {
                    let (_, kind) = (fields.u16().expect("flags"), fields.u16().expect("a kind"));
                    let (cookie, length) = (fields.u64().expect("a number"), fields.u32().expect("a length"));
                    let mut payload = Fields(fields.take(length as usize).expect("whole"));
                    let reply = replies.entry(cookie).or_default();
                    if kind == CHUNK_DATA {
                        let from = payload.u64().expect("a place") as usize;
                        reply.1.resize(reply.1.len().max(from + payload.0.len()), 0);
                        reply.1[from..from + payload.0.len()].copy_from_slice(payload.0);
                    } else {
                        reply.0 = payload.u32().expect("an error");
                    }
                }
                other => panic!("{other:#x} is no reply"),
            }
        }
        replies
    }
}

/// Marks a request as a read.
const READ: u64 = 1 << 63;

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    Message::new().u64(OPTION).u32(number).u32(data.len() as u32).bytes(data).0
}

fn go(name: &str) -> Vec<u8> {
    Message::new().u32(name.len() as u32).bytes(name.as_bytes()).u16(2).u16(3).u16(2).0
}

fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    Message::new().u32(REQUEST).u16(flags).u16(command).u64(cookie).u64(offset).u32(length).0
}

/// The replies to options: each with its option and kind.
fn option_replies(sent: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut fields = Fields(sent);
    let mut replies = Vec::new();
    while let Some(magic) = fields.u64() {
        assert_eq!(magic, OPTION_REPLY);
        let (option, kind) = (fields.u32().expect("an option"), fields.u32().expect("a kind"));
        let length = fields.u32().expect("a length");
        replies.push((option, kind, fields.take(length as usize).expect("whole").to_vec()));
    }
    replies
}

#[test]
fn a_client_is_greeted_and_gets_the_export() {
    let mut naive = Naive::new();
    assert_eq!(Fields(&naive.sent).u64(), Some(GREETING));
    assert_eq!(naive.sent.len(), 18);
    naive.sent.clear();
    naive.receive(&3u32.to_be_bytes());
    assert!(naive.sent.is_empty());
    let asked = [
        (OPT_LIST, Vec::new()),
        (OPT_LIST, vec![1]),
        (OPT_INFO, go("other")),
        (OPT_INFO, vec![0]),
        (OPT_STARTTLS, Vec::new()),
        (OPT_LIST_META_CONTEXT, Vec::new()),
        (OPT_STRUCTURED_REPLY, Vec::new()),
        (OPT_GO, go("disk")),
    ];
    asked.iter().for_each(|(number, data)| naive.receive(&option(*number, data)));
    let replies = option_replies(&naive.sent);
    let kinds: Vec<_> = replies.iter().map(|(option, kind, _)| (*option, *kind)).collect();
    let expected = [
        (OPT_LIST, REP_SERVER),
        (OPT_LIST, REP_ACK),
        (OPT_LIST, REP_ERR_INVALID),
        (OPT_INFO, REP_ERR_UNKNOWN),
        (OPT_INFO, REP_ERR_INVALID),
        (OPT_STARTTLS, REP_ERR_UNSUP),
        (OPT_LIST_META_CONTEXT, REP_ERR_UNSUP),
        (OPT_STRUCTURED_REPLY, REP_ACK),
        (OPT_GO, REP_INFO),
        (OPT_GO, REP_INFO),
        (OPT_GO, REP_INFO),
        (OPT_GO, REP_ACK),
    ];
    assert_eq!(kinds, expected);
    let told = |at: usize| String::from_utf8_lossy(&replies[at].2);
    assert!(told(5).contains("TLS") && told(5).contains("tunnel"), "{}", told(5));
    let mut export = Fields(&replies[8].2);
    assert_eq!((export.u16(), export.u64()), (Some(0), Some(SIZE)));
    assert_ne!(export.u16().expect("flags") & SEND_DF, 0, "chunks were agreed on");
    assert_eq!(replies[9].2, [&[0, 2], "a disk for tests".as_bytes()].concat());
    let mut sizes = Fields(&replies[10].2);
    assert_eq!(
        (sizes.u16(), sizes.u32(), sizes.u32(), sizes.u32()),
        (Some(3), Some(512), Some(4096), Some(32 << 20))
    );
}

#[test]
fn an_old_client_is_served() {
    for (flags, zeroes) in [(1u32, 124), (3, 0)] {
        let mut naive = Naive::new();
        naive.sent.clear();
        naive.receive(&flags.to_be_bytes());
        naive.receive(&option(OPT_EXPORT_NAME, b"disk"));
        assert_eq!((naive.sent.len(), Fields(&naive.sent).u64()), (10 + zeroes, Some(SIZE)));
        assert!(naive.reader.is_served());
    }
}

#[test]
fn a_client_of_another_protocol_is_disconnected() {
    let cut = |messages: &[&[u8]]| {
        let mut naive = Naive::new();
        messages.iter().for_each(|bytes| naive.receive(bytes));
        naive.ended
    };
    let yes = 3u32.to_be_bytes();
    assert_eq!(cut(&[b"GET / HTTP/1.1\r\n"]), Some(Step::Break(Broken::Handshake)));
    assert_eq!(cut(&[&0u32.to_be_bytes()]), Some(Step::Break(Broken::Handshake)));
    assert_eq!(cut(&[&yes, &[0; 16]]), Some(Step::Break(Broken::Handshake)));
    assert_eq!(cut(&[&yes, &option(OPT_EXPORT_NAME, b"other")]), Some(Step::Break(Broken::Export)));
    assert_eq!(cut(&[&yes, &option(OPT_ABORT, b"")]), Some(Step::End));
    assert_eq!(cut(&[&yes, &option(77, b"").repeat(65)]), Some(Step::Break(Broken::Options)));
    assert_eq!(cut(&[&yes, &option(OPT_GO, &go("")), &[0; 28]]), Some(Step::Break(Broken::Request)));
    let disconnect = request(CMD_DISC, 0, 1, 0, 0);
    assert_eq!(cut(&[&yes, &option(OPT_GO, &go("")), &disconnect]), Some(Step::End));
    let long = request(CMD_WRITE, 0, 1, 0, (32 << 20) + 512);
    assert_eq!(cut(&[&yes, &option(OPT_GO, &go("")), &long]), Some(Step::Break(Broken::Length)));
}

#[test]
fn an_option_that_is_too_long_is_skipped() {
    let mut naive = Naive::new();
    naive.sent.clear();
    naive.receive(&3u32.to_be_bytes());
    for piece in option(99, &[7; 100_000]).chunks(777) {
        naive.receive(piece);
        assert!(naive.reader.step().is_none());
    }
    naive.receive(&option(OPT_LIST, &[]));
    let kinds: Vec<_> = option_replies(&naive.sent).iter().map(|it| it.1).collect();
    assert_eq!(kinds, [REP_ERR_TOO_BIG, REP_SERVER, REP_ACK]);
}

#[test]
fn invalid_requests_are_refused_and_the_next_is_served() {
    let write = |cookie, offset, length: u32| {
        [request(CMD_WRITE, 0, cookie, offset, length), vec![9; length as usize]].concat()
    };
    let refused = [
        (request(CMD_READ, 0, READ | 1, SIZE, 512), Fault::Invalid),
        (request(CMD_READ, 0, READ | 1, u64::MAX - 511, 1024), Fault::Invalid),
        (request(CMD_READ, 0, READ | 1, 1, 512), Fault::Invalid),
        (request(CMD_READ, 0, READ | 1, 0, 0), Fault::Invalid),
        (request(CMD_READ, 8, READ | 1, 0, 512), Fault::Invalid),
        (request(CMD_TRIM, 0, 1, SIZE, 512), Fault::Invalid),
        (request(77, 0, 1, 0, 512), Fault::Invalid),
        (request(CMD_WRITE_ZEROES, 0, 1, SIZE - 512, 1024), Fault::NoSpace),
        (write(1, SIZE, 512), Fault::NoSpace),
        (write(1, 7, 3 << 20), Fault::Invalid),
    ];
    for structured in [false, true] {
        for (bytes, fault) in &refused {
            let mut naive = Naive::served(structured);
            // In small pieces, so that the data of a refused write are skipped as they arrive.
            bytes.chunks(100_000).for_each(|piece| naive.receive(piece));
            naive.receive(&request(CMD_FLUSH, 0, 2, 0, 0));
            naive.answer_all();
            let replies: HashMap<u64, u32> =
                naive.replies().into_iter().map(|(cookie, (error, _))| (cookie & !READ, error)).collect();
            assert_eq!(replies, HashMap::from([(1, *fault as u32), (2, 0)]));
        }
    }
}

#[test]
fn only_reads_of_unreadable_bytes_fail() {
    let bad = (2 << 20) + 5;
    let mut naive = Naive::served(true);
    naive.bad = Some(bad);
    naive.receive(&request(CMD_READ, 0, READ | 1, 0, 4 << 20));
    assert_eq!(naive.waiting.len(), 4);
    naive.answer_all();
    let (error, data) = naive.replies().remove(&(READ | 1)).expect("answered");
    assert_eq!(error, Fault::Io as u32);
    assert!(data[..2 << 20] == naive.device[..2 << 20] && data[3 << 20..] == naive.device[3 << 20..4 << 20]);
    for (structured, flags) in [(true, DF), (false, 0)] {
        let mut naive = Naive::served(structured);
        naive.bad = Some(bad);
        naive.receive(&request(CMD_READ, flags, READ | 1, 0, 4 << 20));
        naive.answer_all();
        assert_eq!(naive.replies(), HashMap::from([(READ | 1, (Fault::Io as u32, Vec::new()))]));
    }
}

#[test]
fn fua_is_a_flush_after_all_parts_and_before_the_answer() {
    let mut naive = Naive::served(true);
    let length = 2 << 20;
    naive.receive(&request(CMD_WRITE, FUA, 1, 0, length));
    naive.receive(&vec![1; length as usize]);
    assert_eq!(naive.waiting.len(), 2);
    naive.answer(1);
    naive.answer(0);
    assert_eq!((naive.flushes, naive.replies().len()), (0, 0));
    naive.answer(0);
    assert_eq!((naive.flushes, naive.replies()), (1, HashMap::from([(1, (0, Vec::new()))])));
    assert_eq!((naive.book.requests(), naive.book.bytes()), (0, Bytes::ZERO));
    assert!(naive.device[..length as usize].iter().all(|byte| *byte == 1));
}

/// A device that can free no space writes the zeroes, in parts; the flush of FUA and the answer come after all of them.
#[test]
fn zeroes_for_which_no_space_can_be_freed_are_written_in_parts() {
    let mut naive = Naive::served(true);
    naive.frees = false;
    naive.receive(&request(CMD_WRITE_ZEROES, FUA, 1, 512, 3 << 20));
    assert_eq!(naive.waiting.len(), 1);
    naive.answer(0);
    assert_eq!(naive.waiting.len(), 3);
    (0..3).for_each(|_| naive.answer(0));
    assert_eq!((naive.flushes, naive.replies().len()), (0, 0));
    naive.answer(0);
    assert_eq!((naive.flushes, naive.replies()), (1, HashMap::from([(1, (0, Vec::new()))])));
    assert_eq!((naive.book.requests(), naive.waiting.len()), (0, 0));
    assert!(naive.device[512..512 + (3 << 20)].iter().all(|byte| *byte == 0));
    let beside = [511, 512 + (3 << 20)].map(|at: usize| (naive.device[at], (at >> 9) as u8 ^ at as u8));
    assert!(beside.iter().all(|(found, filled)| found == filled), "{beside:?}");
}

#[test]
fn an_unfinished_write_is_dropped() {
    let mut naive = Naive::served(true);
    naive.receive(&request(CMD_WRITE, 0, 1, 0, 3 << 20));
    naive.receive(&vec![1; 2 << 20]);
    naive.answer(0);
    assert_eq!((naive.book.requests(), naive.book.bytes()), (1, Bytes::mib(2)));
    naive.book.abandon();
    naive.answer_all();
    assert_eq!((naive.book.requests(), naive.book.bytes()), (0, Bytes::ZERO));
    assert!(naive.replies().is_empty());
}

#[derive(Clone, Debug)]
enum Sent {
    Read { block: u64, blocks: u32, whole: bool },
    Write { block: u64, blocks: u32, mark: u8, fua: bool },
    Zero { block: u64, blocks: u32, allocated: bool },
    Trim { block: u64, blocks: u32 },
    Flush,
}

fn sent() -> impl Strategy<Value = Sent> {
    let place = || (0u64..12_288, 1u32..6000).prop_map(|(at, many)| (at, many.min((12_288 - at) as u32)));
    prop_oneof![
        (place(), any::<bool>()).prop_map(|((block, blocks), whole)| Sent::Read { block, blocks, whole }),
        (place(), any::<u8>(), any::<bool>()).prop_map(|((block, blocks), mark, fua)| Sent::Write {
            block,
            blocks,
            mark,
            fua
        }),
        (place(), any::<bool>()).prop_map(|((block, blocks), allocated)| Sent::Zero {
            block,
            blocks,
            allocated
        }),
        place().prop_map(|(block, blocks)| Sent::Trim { block, blocks }),
        Just(Sent::Flush),
    ]
}

proptest! {
    /// For any split of the bytes, each request has its effect and one answer, and reads return the contents
    /// of the device.
    #[test]
    fn requests_are_as_on_the_device(
        messages in prop::collection::vec(sent(), 1..8),
        cuts in prop::collection::vec(1usize..2_000_000, 1..6),
        order in prop::collection::vec(any::<u8>(), 1..20),
        frees in any::<bool>(),
    ) {
        let mut naive = Naive::served(true);
        naive.frees = frees;
        let mut model = naive.device.clone();
        for (cookie, messages) in (1u64..).zip(&messages) {
            let range = |block: u64, blocks: u32| {
                let start = (block * 512) as usize;
                start..start + blocks as usize * 512
            };
            let bytes = match *messages {
                Sent::Read { block, blocks, whole } => {
                    request(CMD_READ, if whole { DF } else { 0 }, cookie | READ, block * 512, blocks * 512)
                }
                Sent::Write { block, blocks, mark, fua } => {
                    model[range(block, blocks)].fill(mark);
                    let head = request(CMD_WRITE, u16::from(fua), cookie, block * 512, blocks * 512);
                    [head, vec![mark; blocks as usize * 512]].concat()
                }
                Sent::Zero { block, blocks, allocated } => {
                    model[range(block, blocks)].fill(0);
                    request(CMD_WRITE_ZEROES, if allocated { NO_HOLE } else { 0 }, cookie, block * 512, blocks * 512)
                }
                Sent::Trim { block, blocks } => {
                    model[range(block, blocks)].fill(0);
                    request(CMD_TRIM, 0, cookie, block * 512, blocks * 512)
                }
                Sent::Flush => request(CMD_FLUSH, 0, cookie, 0, 0),
            };
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                naive.receive(now);
                // Parts of one request in any order; requests one after the other, as in the model.
                if !naive.waiting.is_empty() {
                    let pick = order[cookie as usize % order.len()] as usize;
                    naive.answer(pick % naive.waiting.len());
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            while !naive.waiting.is_empty() {
                let pick = order[naive.waiting.len() % order.len()] as usize;
                naive.answer(pick % naive.waiting.len());
            }
            let replies = naive.replies();
            prop_assert_eq!(replies.len(), 1);
            let (error, data) = replies.into_values().next().expect("one");
            prop_assert_eq!(error, 0);
            if let Sent::Read { block, blocks, .. } = *messages {
                let range = range(block, blocks);
                // Chunks have their offsets on the device.
                prop_assert!(data[range.clone()] == model[range]);
            }
        }
        prop_assert!(naive.device == model);
        prop_assert_eq!((naive.book.requests(), naive.book.bytes()), (0, Bytes::ZERO));
    }

    /// For any bytes of a client, the server does not panic and holds no more than a part.
    #[test]
    fn nonsense_does_no_harm(
        handshake in any::<bool>(),
        pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60),
                (0u32..12, prop::collection::vec(any::<u8>(), 0..30)).prop_map(|(number, data)| option(number, &data)),
                (0u16..9, 0u16..5, 0u64..SIZE + 4096, 0u32..4 << 20)
                    .prop_map(|(command, flags, at, length)| request(command, flags, 7, at, length)),
            ],
            0..12,
        ),
    ) {
        let mut naive = if handshake { Naive::served(true) } else { Naive::new() };
        for piece in pieces {
            naive.receive(&piece);
            naive.answer_all();
            prop_assert!(naive.book.bytes() <= LENGTH_MOST);
        }
    }
}
