//! Arbitrary bytes from an NBD client, in pieces: nothing panics, and no more is held than a request may have.
#![no_main]

use foreseek_nbd::{Book, Command, LENGTH_MOST, Offer, PART, Reader, Step};
use foreseek_units::Bytes;
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

static ZEROES: [u8; PART.get() as usize] = [0; PART.get() as usize];

fuzz_target!(|bytes: &[u8]| {
    let (name, description) = ("disk".to_owned(), String::new());
    let offer = Arc::new(Offer { name, description, size: Bytes::mib(64), block: Bytes(512), rotational: true });
    let (mut reader, _) = Reader::new(offer);
    let mut book = Book::default();
    let piece = bytes.first().map_or(1, |first| usize::from(*first) + 1);
    for piece in bytes.chunks(piece) {
        reader.take(piece);
        while let Some(step) = reader.step() {
            let Step::Part(part) = step else { continue };
            for (part, command) in book.enter(part, reader.is_structured()) {
                let length = match command {
                    Command::Read(range) => range.len().get() as usize,
                    _ => 0,
                };
                if let Some(flush) = book.answered(part, Ok(&ZEROES[..length])).flush {
                    book.answered(flush, Ok(&[]));
                }
            }
            assert!(book.bytes() <= LENGTH_MOST);
            assert!(book.requests() <= 1);
        }
    }
});
