//! The main loop of a server: it answers clients, and ends in order.
//!
//! It ends when a client requests it, on SIGTERM, SIGINT or SIGHUP, and when what it serves is gone. Users
//! get as much time as the [`Daemon`] allows; a second signal ends the wait at once.

use crate::protocol::{Envelope, Reply, ServerRequest};
use crate::wire::{read_message, write_message};
use crate::{CallError, Context, ServerFolder, daemon};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Longest wait for a client to send its request and to accept the answer; others wait meanwhile.
const CLIENT_LIMIT: Duration = Duration::from_secs(2);
/// Between checks whether what is served still exists.
const SERVING_POLL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Between checks whether it is free, while the server ends: far below what a user notices.
const ENDING_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Something that is served by a process of its own.
pub trait Daemon: Sized {
    /// The requests of clients.
    type ServerRequest: ServerRequest;
    /// The report to the starter once it serves.
    type Ready: Serialize;
    /// The error of an operation; clients and the starter get its text.
    type Error: From<CallError> + Display;

    /// The report to the starter.
    fn ready(&self) -> Self::Ready;

    /// Answers a client. Others wait meanwhile: this must not wait for a disk.
    ///
    /// # Errors
    /// The reason for a refusal; the client gets it.
    fn answer(&mut self, ask: Self::ServerRequest) -> Result<Answer<Self::ServerRequest>, Self::Error>;

    /// Whether what is served still exists, and was not removed by another process.
    fn is_serving(&self) -> bool;

    /// Stops serving, as far as that is possible without waiting for users.
    ///
    /// # Errors
    /// Why that failed; the server then ends with this error.
    fn begin_end(&mut self) -> Result<(), Self::Error>;

    /// Whether its users have gone, or have had enough time since it began to end.
    fn may_end(&self, begun: Instant) -> bool;

    /// Frees everything.
    ///
    /// # Errors
    /// What could not be freed.
    fn end(self, why: Ending) -> Result<(), Self::Error>;
}

/// Why a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its users have gone or have had enough time.
    Clean,
    /// Another process has removed what it serves.
    Vanished,
    /// It was signalled to end a second time.
    Forced,
    /// The program that started it has ended, so no program knows of it.
    Orphaned,
}

/// An answer to a client.
pub enum Answer<A: ServerRequest> {
    /// It is done.
    Done,
    /// A reply, and lines after it.
    Reply(A::Reply, Vec<A::Line>),
}

/// The signals that ask a server to end. They do not end it: they wait until [`run_server`] looks.
#[derive(Debug)]
pub struct EndSignals(OwnedFd);

impl EndSignals {
    /// Blocks them in this thread and in threads that it starts. Call it before any thread is started, and before
    /// anything is made that a server killed by a signal would leave: its folder, too.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn block() -> Result<Self, CallError> {
        Ok(Self(daemon::end_signals().context("wait for", "signals")?))
    }
}

/// The sources of a server's orders: its control socket and signals.
#[derive(Debug)]
pub struct Control {
    signals: OwnedFd,
    listener: UnixListener,
}

impl Control {
    /// Listens in this folder.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(EndSignals(signals): EndSignals, folder: &ServerFolder) -> Result<Self, CallError> {
        let path = folder.control();
        let listener = UnixListener::bind(&path).context("listen on", &path)?;
        listener.set_nonblocking(true).context("listen on", &path)?;
        Ok(Self { signals, listener })
    }
}

/// Answers clients until the server is to end, then ends it.
///
/// # Errors
/// The daemon's own error, or that of waiting for clients.
pub fn run_server<D: Daemon>(mut daemon: D, control: &Control) -> Result<(), D::Error> {
    let mut begun: Option<Instant> = None;
    while daemon.is_serving() {
        let mut ready =
            [PollFd::new(&control.signals, PollFlags::IN), PollFd::new(&control.listener, PollFlags::IN)];
        match poll(&mut ready, Some(if begun.is_some() { &ENDING_POLL } else { &SERVING_POLL })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => Err(error).context("wait for", "clients")?,
        }
        let signalled = !ready[0].revents().is_empty();
        let called = !ready[1].revents().is_empty();
        if signalled {
            daemon::drain(&control.signals);
            if begun.is_some() {
                return daemon.end(Ending::Forced);
            }
        }
        if !daemon.is_serving() {
            break;
        }
        let asked = called && accept(&mut daemon, &control.listener);
        if (signalled || asked) && begun.is_none() {
            daemon.begin_end()?;
            begun = Some(Instant::now());
        }
        if begun.is_some_and(|begun| daemon.may_end(begun)) {
            return daemon.end(Ending::Clean);
        }
    }
    daemon.end(Ending::Vanished)
}

/// Answers one client. Returns whether it requested the server to end.
fn accept<D: Daemon>(daemon: &mut D, listener: &UnixListener) -> bool {
    let Ok((stream, _)) = listener.accept() else { return false };
    converse(daemon, &stream).unwrap_or_else(|error| {
        tracing::warn!("an exchange with a client failed: {error}");
        false
    })
}

fn converse<D: Daemon>(daemon: &mut D, stream: &UnixStream) -> io::Result<bool> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(CLIENT_LIMIT))?;
    stream.set_write_timeout(Some(CLIENT_LIMIT))?;
    let request: io::Result<Envelope<D::ServerRequest>> = read_message(&mut BufReader::new(stream));
    let ends = matches!(request, Ok(Envelope::End));
    let answer = match request {
        Ok(Envelope::Ping | Envelope::End) => Ok(Answer::Done),
        Ok(Envelope::Own(ask)) => daemon.answer(ask).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(format!("not understood: {error}")),
        Err(error) => return Err(error),
    };
    let mut to = BufWriter::new(stream);
    match answer {
        Ok(Answer::Done) => write_message(&mut to, &Reply::<()>::Done)?,
        Ok(Answer::Reply(reply, lines)) => {
            write_message(&mut to, &Reply::Own { reply, lines: lines.len() })?;
            lines.iter().try_for_each(|line| write_message(&mut to, line))?;
        }
        Err(why) => write_message(&mut to, &Reply::<()>::Refused(why))?,
    }
    to.flush()?;
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Error, Health, ServerProcess};
    use serde::Deserialize;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Number {
        Twice(u32),
        Below(u32),
        Forget,
        Silence,
    }

    impl ServerRequest for Number {
        type Reply = u32;
        type Line = u32;
    }

    /// Answers with numbers; what it serves is gone once `lost` has a message.
    struct Numbers {
        ended: Sender<Ending>,
        lost: Receiver<()>,
        users: bool,
    }

    impl Daemon for Numbers {
        type ServerRequest = Number;
        type Ready = ();
        type Error = Error;

        fn ready(&self) {}

        fn answer(&mut self, ask: Number) -> Result<Answer<Number>, Error> {
            match ask {
                Number::Twice(number) => Ok(Answer::Reply(2 * number, Vec::new())),
                Number::Below(end) => Ok(Answer::Reply(end, (0..end).collect())),
                Number::Forget => Ok(Answer::Done),
                Number::Silence => Err(Error::Refused("there is none".to_owned())),
            }
        }

        fn is_serving(&self) -> bool {
            self.lost.try_recv().is_err()
        }

        fn begin_end(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn may_end(&self, _: Instant) -> bool {
            !self.users
        }

        fn end(self, why: Ending) -> Result<(), Error> {
            self.ended.send(why).map_err(|_| Error::Dead)
        }
    }

    struct Served {
        _place: tempfile::TempDir,
        folder: ServerFolder,
        lose: Sender<()>,
        ended: Receiver<Ending>,
        thread: JoinHandle<Result<(), Error>>,
    }

    fn served(users: bool) -> Served {
        let place = tempfile::tempdir().expect("a directory");
        let folder = ServerFolder::at(place.path());
        folder.set_record(&ServerProcess::own()).expect("written");
        let (lose, lost) = channel();
        let (ends, ended) = channel();
        let (opens, opened) = channel();
        let inside = folder.clone();
        let thread = std::thread::spawn(move || {
            let control = Control::open(EndSignals::block()?, &inside)?;
            opens.send(()).expect("waited for");
            run_server(Numbers { ended: ends, lost, users }, &control)
        });
        opened.recv().expect("it listens");
        Served { _place: place, folder, lose, ended, thread }
    }

    #[test]
    fn each_request_has_its_answer() {
        let served = served(false);
        let client = || Client::of(&served.folder);
        assert_eq!(client().health(), Health::Ready);
        assert_eq!(client().ask(&Number::Twice(21)).expect("answers"), 42);
        assert_eq!(client().ask_lines(&Number::Below(3)).expect("answers"), (3, vec![0, 1, 2]));
        client().notify(&Number::Forget).expect("answers");
        let refused = client().notify(&Number::Silence).expect_err("it cannot");
        assert!(matches!(refused, Error::Refused(why) if why == "there is none"));
        let other = client().ask(&Number::Forget).expect_err("that has no answer");
        assert!(matches!(other, Error::Silent(_)), "{other}");
        client().end().expect("answers");
        assert_eq!(served.ended.recv(), Ok(Ending::Clean));
        assert!(served.thread.join().expect("no panic").is_ok());
        assert_eq!(client().health(), Health::Silent, "its process, this one, goes on");
    }

    #[test]
    fn what_is_not_understood_is_refused_and_nothing_ends() {
        let served = served(false);
        for line in ["{}\n", "\"explode\"\n", "{\"own\":{\"Twice\":-1}}\n", "no JSON\n"] {
            let mut stream = UnixStream::connect(served.folder.control()).expect("it listens");
            stream.write_all(line.as_bytes()).expect("sent");
            let reply: Reply<u32> = read_message(&mut BufReader::new(stream)).expect("an answer");
            assert!(
                matches!(&reply, Reply::Refused(why) if why.starts_with("not understood: ")),
                "{reply:?}"
            );
        }
        // A client that sends nothing delays the others for a limited time only.
        let _mute = UnixStream::connect(served.folder.control()).expect("it listens");
        assert_eq!(Client::of(&served.folder).ask(&Number::Twice(1)).expect("answers"), 2);
    }

    #[test]
    fn losing_what_is_served_ends_the_server_even_while_it_has_users() {
        let served = served(true);
        Client::of(&served.folder).end().expect("answers");
        assert_eq!(Client::of(&served.folder).health(), Health::Ready, "its users are waited for");
        served.lose.send(()).expect("waited for");
        assert_eq!(served.ended.recv(), Ok(Ending::Vanished));
    }

    #[test]
    fn a_server_without_a_process_is_dead() {
        let place = tempfile::tempdir().expect("a directory");
        assert_eq!(Client::of(&ServerFolder::at(place.path())).health(), Health::Dead);
    }
}
