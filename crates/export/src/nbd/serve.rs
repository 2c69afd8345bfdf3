//! The threads that serve clients.

use super::client::{Client, Waker};
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

/// Threads that serve clients: one copies to and from sockets as fast as memory allows, and a second one
/// continues while a server takes long to accept a request.
const THREADS: usize = 2;
/// Bytes received from a socket at a time.
const RECEIVED: usize = 256 << 10;
/// Receives from one client before others are served.
const RECEIVES_MOST: usize = 16;
/// Longest duration of a handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);
/// Between checks for handshakes that take too long.
const HANDSHAKE_CHECK: Duration = Duration::from_secs(5);

/// Longest wait for clients to be disconnected; it takes as long as the server takes to accept a request.
const DISMISSAL_LIMIT: Duration = Duration::from_secs(2);
/// Between checks of them.
const POLL: Duration = Duration::from_millis(2);
/// Wait before the next accept after there was no free descriptor.
const SHORTAGE: Duration = Duration::from_millis(50);

/// Descriptors that a server has open besides its clients'.
const OTHER_DESCRIPTORS: usize = 256;

const LISTENER: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;

/// A device that is served over NBD until this is dropped.
pub struct NbdExport {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    address: NbdAddress,
}

struct Shared {
    server: Arc<dyn Server>,
    offer: Arc<Offer>,
    wakers: Vec<Arc<Waker>>,
    /// Accepted clients that a thread has not taken over yet.
    accepted: Vec<Mutex<Vec<Arc<Client>>>>,
    /// The connected clients, by number.
    clients: Mutex<HashMap<u64, String>>,
    next: AtomicU64,
    stopped: AtomicBool,
    /// Clients below this number are to be disconnected.
    dismissed: AtomicU64,
    over: AtomicBool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NbdExport {
    /// Serves the device at an address.
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
        let wakers = (0..THREADS).map(|_| Waker::new().map(Arc::new)).collect::<Result<Vec<_>, _>>();
        let shared = Arc::new(Shared {
            server,
            offer: Arc::new(offer),
            wakers: wakers.map_err(|error| refused(error.into()))?,
            accepted: (0..THREADS).map(|_| Mutex::default()).collect(),
            clients: Mutex::default(),
            next: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            dismissed: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let mut export = Self { shared: Arc::clone(&shared), threads: Vec::new(), address: address.clone() };
        let mut listener = Some(listener);
        for at in 0..THREADS {
            let serving = ServingThread::new(Arc::clone(&shared), at, listener.take());
            let serving = serving.map_err(|error| refused(error.into()))?;
            let thread = std::thread::Builder::new().name(format!("foreseek-nbd{at}"));
            export.threads.push(thread.spawn(move || serving.run()).map_err(refused)?);
        }
        Ok(export)
    }

    /// The address, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> &NbdAddress {
        &self.address
    }

    /// The connected clients.
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

    /// Accepts no more clients.
    pub fn stop_listening(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Accepts no more clients and closes all connections. Requests in flight are carried out, without a
    /// reply.
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
        self.shared.wakers.iter().for_each(|waker| waker.wake());
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

/// A client and the state of its connection.
struct Connection {
    client: Arc<Client>,
    reader: Reader,
    since: Instant,
}

/// A thread that serves clients.
struct ServingThread {
    shared: Arc<Shared>,
    at: usize,
    epoll: OwnedFd,
    listener: Option<OwnedFd>,
    connections: HashMap<u64, Connection>,
    received: Vec<u8>,
}

impl ServingThread {
    fn new(shared: Arc<Shared>, at: usize, listener: Option<OwnedFd>) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let input = epoll::EventFlags::IN;
        epoll::add(&epoll, &shared.wakers[at].event, epoll::EventData::new_u64(WAKER), input)?;
        if let Some(listener) = &listener {
            rustix::io::ioctl_fionbio(listener, true)?;
            epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), input)?;
        }
        Ok(Self { shared, at, epoll, listener, connections: HashMap::new(), received: vec![0; RECEIVED] })
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        let mut checked = Instant::now();
        let interval = rustix::event::Timespec { tv_sec: HANDSHAKE_CHECK.as_secs() as i64, tv_nsec: 0 };
        while !self.shared.over.load(Ordering::SeqCst) {
            let space = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, space, Some(&interval)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return tracing::error!("the NBD export cannot wait for clients: {error}"),
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    WAKER => self.handle_wake_up(),
                    client => self.serve(client),
                }
            }
            if checked.elapsed() >= HANDSHAKE_CHECK {
                checked = Instant::now();
                self.end_long_handshakes();
            }
        }
        let all: Vec<u64> = self.connections.keys().copied().collect();
        all.into_iter().for_each(|client| self.disconnect(client));
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                // The client was gone before it was accepted.
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => {
                    tracing::warn!("cannot accept a client: {error}");
                    // The client stays queued, and epoll would report it again at once.
                    return std::thread::sleep(SHORTAGE);
                }
            };
            let number = self.shared.next.fetch_add(1, Ordering::SeqCst);
            let peer = peer_of(&socket);
            if lock(&self.shared.clients).len() >= CLIENTS_MOST {
                tracing::warn!("{peer} is refused: {CLIENTS_MOST} clients are connected");
                continue;
            }
            let to = number as usize % THREADS;
            let waker = Arc::clone(&self.shared.wakers[to]);
            lock(&self.shared.clients).insert(number, peer.clone());
            lock(&self.shared.accepted[to]).push(Arc::new(Client::new(number, socket, peer, waker)));
            self.shared.wakers[to].wake();
        }
    }

    fn handle_wake_up(&mut self) {
        let woken = self.shared.wakers[self.at].take();
        if self.shared.stopped.load(Ordering::SeqCst) {
            self.listener = None;
        }
        let accepted = std::mem::take(&mut *lock(&self.shared.accepted[self.at]));
        accepted.into_iter().for_each(|client| self.add(client));
        let dismissed = self.shared.dismissed.load(Ordering::SeqCst);
        let gone: Vec<u64> = self.connections.keys().copied().filter(|client| *client < dismissed).collect();
        gone.into_iter().for_each(|client| self.disconnect(client));
        woken.into_iter().for_each(|client| self.serve(client));
    }

    fn add(&mut self, client: Arc<Client>) {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
        // Edge-triggered: an event for each arrival of data, and one whenever more can be sent.
        let data = epoll::EventData::new_u64(client.number);
        let added = epoll::add(&self.epoll, client.socket.as_fd(), data, flags | epoll::EventFlags::ET);
        let (reader, greeting) = Reader::new(Arc::clone(&self.shared.offer));
        let number = client.number;
        self.connections.insert(number, Connection { client, reader, since: Instant::now() });
        if let Err(error) = added {
            tracing::warn!("cannot wait for a client: {error}");
            return self.disconnect(number);
        }
        if let Some(connection) = self.connections.get(&number) {
            connection.client.send(&greeting);
        }
        self.serve(number);
    }

    /// Receives from a client as long as it sends requests and accepts its replies.
    fn serve(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.client.write_zeroes(&self.shared.server);
        let mut receives = 0;
        while connection.client.may_be_read() {
            if let Some(step) = connection.reader.step() {
                connection.take_step(&self.shared.server, step);
                continue;
            }
            if receives == RECEIVES_MOST {
                connection.client.waker.wake_for(number);
                break;
            }
            receives += 1;
            match recv(&connection.client.socket, &mut self.received[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => connection.client.end_input(),
                Ok((got, _)) => connection.reader.take(&self.received[..got]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => connection.client.disconnect(),
            }
        }
        if connection.client.is_over() {
            self.disconnect(number);
        }
    }

    fn end_long_handshakes(&mut self) {
        let late = |connection: &Connection| {
            !connection.reader.is_served() && connection.since.elapsed() > HANDSHAKE_LIMIT
        };
        let late: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| late(connection))
            .map(|(client, _)| *client)
            .collect();
        late.into_iter().for_each(|client| self.disconnect(client));
    }

    fn disconnect(&mut self, number: u64) {
        if let Some(connection) = self.connections.remove(&number) {
            connection.client.disconnect();
            // A pending answer still holds the socket.
            let _ = rustix::net::shutdown(&connection.client.socket, rustix::net::Shutdown::Both);
            let _ = epoll::delete(&self.epoll, &connection.client.socket);
        }
        lock(&self.shared.clients).remove(&number);
    }
}

impl Connection {
    fn take_step(&self, server: &Arc<dyn Server>, step: Step) {
        let structured = self.reader.is_structured();
        match step {
            Step::Send(bytes) => self.client.send(&bytes),
            Step::Part(part) => self.client.request(server, part, structured),
            Step::Refuse { cookie, read, fault } => {
                self.client.send(&Book::refuse(cookie, read, fault, structured));
            }
            Step::End => self.client.end_input(),
            Step::Break(why) => {
                tracing::warn!("disconnecting the NBD client {}: {why}", self.client.peer);
                self.client.disconnect();
            }
        }
    }
}

/// The name of the other end.
fn peer_of(socket: &OwnedFd) -> String {
    if let Ok(Some(address)) = rustix::net::getpeername(socket)
        && let Ok(address) = SocketAddr::try_from(address)
    {
        // Small requests are sent without waiting for further ones.
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
