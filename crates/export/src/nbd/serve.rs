//! The threads that wait for clients.

use super::client::{Bell, Client};
use super::{CLIENTS_MOST, NbdAddress};
use crate::ExportError;
use crate::server::Server;
use foreseek_nbd::{Book, Offer, Reader, Step};
use foreseek_server::precautions;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_peercred};
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads that wait: one copies to and from sockets as fast as memory allows, a second one goes on while a server takes long to accept
/// a request.
const THREADS: usize = 2;
/// Bytes taken from a socket at a time.
const RECEIVED: usize = 256 << 10;
/// What one client may say before others are heard.
const TURN: usize = 16;
/// Longest handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);
/// Between looks at handshakes that take long.
const LOOK: Duration = Duration::from_secs(5);

/// Longest wait for clients to be gone; it takes as long as the server accepts a request.
const DISMISSAL_LIMIT: Duration = Duration::from_secs(2);
/// Between looks at them.
const POLL: Duration = Duration::from_millis(2);
/// Before a client is tried again for which there was no descriptor.
const SHORTAGE: Duration = Duration::from_millis(50);

/// Descriptors that a server has open beside its clients'.
const OTHER_DESCRIPTORS: usize = 256;

const LISTENER: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

/// A device that is served over NBD. Dropping it ends that.
pub struct NbdExport {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    address: NbdAddress,
}

struct Shared {
    server: Arc<dyn Server>,
    offer: Arc<Offer>,
    bells: Vec<Arc<Bell>>,
    /// Clients that a thread is to take on.
    fresh: Vec<Mutex<Vec<Arc<Client>>>>,
    /// Who is connected, by number.
    clients: Mutex<HashMap<u64, String>>,
    next: AtomicU64,
    deaf: AtomicBool,
    /// Clients below this number are to go.
    dismissed: AtomicU64,
    over: AtomicBool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NbdExport {
    /// Serves the device there.
    ///
    /// # Errors
    /// [`ExportError::Listen`].
    pub fn start(server: Arc<dyn Server>, offer: Offer, address: &NbdAddress) -> Result<Self, ExportError> {
        let (listener, address) = address.listen()?;
        let warning = precautions::allow_descriptors((CLIENTS_MOST + OTHER_DESCRIPTORS) as u64);
        warning.iter().for_each(|warning| tracing::warn!("{warning}"));
        let refused = |cause: std::io::Error| ExportError::Listen {
            address: address.to_string(),
            cause: cause.to_string(),
        };
        let bells = (0..THREADS).map(|_| Bell::new().map(Arc::new)).collect::<Result<Vec<_>, _>>();
        let shared = Arc::new(Shared {
            server,
            offer: Arc::new(offer),
            bells: bells.map_err(|error| refused(error.into()))?,
            fresh: (0..THREADS).map(|_| Mutex::default()).collect(),
            clients: Mutex::default(),
            next: AtomicU64::new(0),
            deaf: AtomicBool::new(false),
            dismissed: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let mut export = Self { shared: Arc::clone(&shared), threads: Vec::new(), address: address.clone() };
        let mut listener = Some(listener);
        for at in 0..THREADS {
            let waiting = Waiting::new(Arc::clone(&shared), at, listener.take());
            let waiting = waiting.map_err(|error| refused(error.into()))?;
            let thread = std::thread::Builder::new().name(format!("foreseek-nbd{at}"));
            export.threads.push(thread.spawn(move || waiting.run()).map_err(refused)?);
        }
        Ok(export)
    }

    /// Where it is heard, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> &NbdAddress {
        &self.address
    }

    /// Who is connected.
    #[must_use]
    pub fn clients(&self) -> Vec<String> {
        let clients = lock(&self.shared.clients);
        let mut clients: Vec<_> = clients.iter().collect();
        clients.sort_unstable();
        clients.into_iter().map(|(_, peer)| peer.clone()).collect()
    }

    /// Whether clients are served: not after a thread has ended.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Takes no further clients.
    pub fn stop_listening(&self) {
        self.shared.deaf.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Takes no further clients, and closes the connections of all; what they asked is done, and they are not told.
    pub fn dismiss(&self) {
        self.stop_listening();
        self.shared.dismissed.store(u64::MAX, Ordering::SeqCst);
        self.wake();
        let deadline = Instant::now() + DISMISSAL_LIMIT;
        while !lock(&self.shared.clients).is_empty() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }

    fn wake(&self) {
        self.shared.bells.iter().for_each(|bell| bell.wake());
    }
}

impl Drop for NbdExport {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.wake();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the NBD export has panicked");
            }
        }
        self.address.remove();
    }
}

/// A client as its thread sees it.
struct Visitor {
    client: Arc<Client>,
    reader: Reader,
    since: Instant,
}

/// A thread that waits.
struct Waiting {
    shared: Arc<Shared>,
    at: usize,
    epoll: OwnedFd,
    listener: Option<OwnedFd>,
    visitors: HashMap<u64, Visitor>,
    received: Vec<u8>,
}

impl Waiting {
    fn new(shared: Arc<Shared>, at: usize, listener: Option<OwnedFd>) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let input = epoll::EventFlags::IN;
        epoll::add(&epoll, &shared.bells[at].event, epoll::EventData::new_u64(BELL), input)?;
        if let Some(listener) = &listener {
            rustix::io::ioctl_fionbio(listener, true)?;
            epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), input)?;
        }
        Ok(Self { shared, at, epoll, listener, visitors: HashMap::new(), received: vec![0; RECEIVED] })
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        let mut looked = Instant::now();
        let look = rustix::event::Timespec { tv_sec: LOOK.as_secs() as i64, tv_nsec: 0 };
        while !self.shared.over.load(Ordering::SeqCst) {
            let space = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, space, Some(&look)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return tracing::error!("the NBD export cannot wait for clients: {error}"),
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    BELL => self.heed_bell(),
                    client => self.attend(client),
                }
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.end_long_handshakes();
            }
        }
        let all: Vec<u64> = self.visitors.keys().copied().collect();
        all.into_iter().for_each(|client| self.part_with(client));
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                // It was gone before it was taken.
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => {
                    tracing::warn!("a client cannot be taken: {error}");
                    // It goes on waiting, and this thread would be told of it without end.
                    return std::thread::sleep(SHORTAGE);
                }
            };
            let number = self.shared.next.fetch_add(1, Ordering::SeqCst);
            let peer = peer_of(&socket);
            if lock(&self.shared.clients).len() >= CLIENTS_MOST {
                tracing::warn!("{peer} is turned away: {CLIENTS_MOST} clients are connected");
                continue;
            }
            let to = number as usize % THREADS;
            let bell = Arc::clone(&self.shared.bells[to]);
            lock(&self.shared.clients).insert(number, peer.clone());
            lock(&self.shared.fresh[to]).push(Arc::new(Client::new(number, socket, peer, bell)));
            self.shared.bells[to].wake();
        }
    }

    fn heed_bell(&mut self) {
        let rung = self.shared.bells[self.at].take();
        if self.shared.deaf.load(Ordering::SeqCst) {
            self.listener = None;
        }
        let fresh = std::mem::take(&mut *lock(&self.shared.fresh[self.at]));
        fresh.into_iter().for_each(|client| self.welcome(client));
        let dismissed = self.shared.dismissed.load(Ordering::SeqCst);
        let gone: Vec<u64> = self.visitors.keys().copied().filter(|client| *client < dismissed).collect();
        gone.into_iter().for_each(|client| self.part_with(client));
        rung.into_iter().for_each(|client| self.attend(client));
    }

    fn welcome(&mut self, client: Arc<Client>) {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
        // Once for all: it is told when more comes, and when more can be sent.
        let data = epoll::EventData::new_u64(client.number);
        let added = epoll::add(&self.epoll, client.socket.as_fd(), data, flags | epoll::EventFlags::ET);
        let (reader, greeting) = Reader::new(Arc::clone(&self.shared.offer));
        let number = client.number;
        self.visitors.insert(number, Visitor { client, reader, since: Instant::now() });
        if let Err(error) = added {
            tracing::warn!("a client cannot be waited for: {error}");
            return self.part_with(number);
        }
        if let Some(visitor) = self.visitors.get(&number) {
            visitor.client.send(&greeting);
        }
        self.attend(number);
    }

    /// Hears a client as far as it has something to say and takes its replies.
    fn attend(&mut self, number: u64) {
        let Some(visitor) = self.visitors.get_mut(&number) else { return };
        let mut turns = 0;
        while visitor.client.may_be_read() {
            if let Some(step) = visitor.reader.step() {
                visitor.take_step(&self.shared.server, step);
                continue;
            }
            if turns == TURN {
                visitor.client.bell.ring(number);
                break;
            }
            turns += 1;
            match recv(&visitor.client.socket, &mut self.received[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => visitor.client.leave(),
                Ok((got, _)) => visitor.reader.take(&self.received[..got]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => visitor.client.break_off(),
            }
        }
        if visitor.client.is_over() {
            self.part_with(number);
        }
    }

    fn end_long_handshakes(&mut self) {
        let late =
            |visitor: &Visitor| !visitor.reader.is_served() && visitor.since.elapsed() > HANDSHAKE_LIMIT;
        let late: Vec<u64> =
            self.visitors.iter().filter(|(_, visitor)| late(visitor)).map(|(client, _)| *client).collect();
        late.into_iter().for_each(|client| self.part_with(client));
    }

    fn part_with(&mut self, number: u64) {
        if let Some(visitor) = self.visitors.remove(&number) {
            visitor.client.break_off();
            // What still answers holds the socket.
            let _ = rustix::net::shutdown(&visitor.client.socket, rustix::net::Shutdown::Both);
            let _ = epoll::delete(&self.epoll, &visitor.client.socket);
        }
        lock(&self.shared.clients).remove(&number);
    }
}

impl Visitor {
    fn take_step(&self, server: &Arc<dyn Server>, step: Step) {
        let structured = self.reader.is_structured();
        match step {
            Step::Send(bytes) => self.client.send(&bytes),
            Step::Part(part) => self.client.ask(server, part, structured),
            Step::Refuse { cookie, read, fault } => {
                self.client.send(&Book::refuse(cookie, read, fault, structured));
            }
            Step::End => self.client.leave(),
            Step::Break(why) => {
                tracing::warn!("the NBD client {} is cut off: {why}", self.client.peer);
                self.client.break_off();
            }
        }
    }
}

/// Who is at the other end.
fn peer_of(socket: &OwnedFd) -> String {
    if let Ok(Some(address)) = rustix::net::getpeername(socket)
        && let Ok(address) = SocketAddr::try_from(address)
    {
        // Small requests do not wait for further ones.
        let _ = set_tcp_nodelay(socket, true);
        return address.to_string();
    }
    match socket_peercred(socket) {
        Ok(of) => {
            let pid = of.pid.as_raw_pid();
            let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{} (process {pid})", command.trim())
        }
        Err(_) => "a client".to_owned(),
    }
}
