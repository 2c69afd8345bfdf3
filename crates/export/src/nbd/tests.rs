//! An export of a device in memory, over a socket.

use super::{NbdAddress, NbdExport};
use crate::server::{Failure, Request, Server};
use foreseek_nbd::Offer;
use foreseek_units::{ByteSpan, Bytes};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const SIZE: usize = 6 << 20;
const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

/// A device in memory that can free no space.
struct Full {
    bytes: Mutex<Vec<u8>>,
    discards: AtomicUsize,
    flushes: AtomicUsize,
}

impl Full {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().expect("whole")
    }

    fn counts(&self) -> (usize, usize) {
        (self.discards.load(Ordering::SeqCst), self.flushes.load(Ordering::SeqCst))
    }
}

impl Server for Full {
    fn serve(&self, request: Request<'_>) {
        let of = |range: ByteSpan| range.start.get() as usize..range.end.get() as usize;
        match request {
            Request::Read { range, reply } => {
                let data = self.bytes()[of(range)].to_vec();
                reply.data(&data);
            }
            Request::Write { range, data, reply } => {
                self.bytes()[of(range)].copy_from_slice(data);
                reply.end(Ok(()));
            }
            Request::Flush { reply } => {
                self.flushes.fetch_add(1, Ordering::SeqCst);
                reply.end(Ok(()));
            }
            Request::Discard { reply, .. } => {
                self.discards.fetch_add(1, Ordering::SeqCst);
                reply.end(Err(Failure::Unsupported));
            }
        }
    }
}

/// A connection after the handshake.
fn connect(export: &NbdExport) -> TcpStream {
    let NbdAddress::Tcp { host, port } = export.address() else { panic!("a port") };
    let mut stream = TcpStream::connect((host.as_str(), *port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    // EXPORT_NAME of the only one, without padding.
    let asked = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    stream.write_all(&asked).expect("it listens");
    stream.read_exact(&mut [0; 10]).expect("size and flags");
    stream
}

/// Sends a request without data; returns the error of its reply.
fn ask(stream: &mut TcpStream, command: u16, flags: u16, offset: u64, length: u32) -> u32 {
    let magic = 0x2560_9513_u32.to_be_bytes();
    let (flags, command, cookie) = (flags.to_be_bytes(), command.to_be_bytes(), 7u64.to_be_bytes());
    let (offset, length) = (offset.to_be_bytes(), length.to_be_bytes());
    let asked = [&magic[..], &flags, &command, &cookie, &offset, &length].concat();
    stream.write_all(&asked).expect("it listens");
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).expect("a reply");
    assert_eq!(reply[8..], cookie);
    u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]])
}

#[test]
fn a_device_that_frees_no_space_writes_zeroes_by_itself() {
    let (discards, flushes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let device = Arc::new(Full { bytes: Mutex::new(vec![0xff; SIZE]), discards, flushes });
    let (name, description) = ("full".to_owned(), String::new());
    let offer = Offer { name, description, size: Bytes(SIZE as u64), block: Bytes(512), rotational: true };
    let address = "nbd::0".parse().expect("an address");
    let server: Arc<Full> = Arc::clone(&device);
    let export = NbdExport::start(server, offer, &address).expect("a free port");
    let mut client = connect(&export);
    let mut expected = vec![0xff; SIZE];
    let zeroes = |client: &mut TcpStream, expected: &mut [u8], flags, from: usize, length: usize| {
        assert_eq!(ask(client, WRITE_ZEROES, flags, from as u64, length as u32), 0, "{from}+{length}");
        expected[from..from + length].fill(0);
        assert!(*device.bytes() == *expected, "{from}+{length}: these bytes are zero, and no others");
    };
    zeroes(&mut client, &mut expected, 0, 512, (2 << 20) + 512);
    assert_eq!(device.counts(), (1, 0));
    // It is known then.
    zeroes(&mut client, &mut expected, FUA, 3 << 20, 4096);
    zeroes(&mut client, &mut expected, NO_HOLE, 4 << 20, 1 << 20);
    assert_eq!(device.counts(), (1, 1));
    // A hint may be ignored.
    assert_eq!(ask(&mut client, TRIM, 0, 5 << 20, 4096), 0);
    assert!(*device.bytes() == expected);
    drop(client);
}
