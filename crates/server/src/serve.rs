//! What a server does besides serving: it answers clients, and ends in order.
//!
//! It ends when a client asks for it, on SIGTERM, SIGINT or SIGHUP, and when what it serves is gone. What is
//! in use may take its time, as long as the [`Daemon`] says; a second signal ends that at once.

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

/// Longest wait for a client's line, and for it to take the answer; others wait meanwhile.
const CLIENT_LIMIT: Duration = Duration::from_secs(2);
/// Between looks at whether what is served is still there.
const SERVING_POLL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Between looks at whether it is free, while the server ends: far below what a user notices.
const ENDING_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Something that is served by a process of its own.
pub trait Daemon: Sized {
    /// What clients ask.
    type ServerRequest: ServerRequest;
    /// What the starter is told when it serves.
    type Ready: Serialize;
    /// Why something cannot be done; clients and the starter are told its text.
    type Error: From<CallError> + Display;

    /// What the starter is told.
    fn ready(&self) -> Self::Ready;

    /// Answers a client. Others wait meanwhile: this must not wait for a disk.
    ///
    /// # Errors
    /// Why it cannot be done; the client is told.
    fn answer(&mut self, ask: Self::ServerRequest) -> Result<Answer<Self::ServerRequest>, Self::Error>;

    /// Whether what is served is still there, and not taken away by others.
    fn is_serving(&self) -> bool;

    /// Gives up what is served, as far as that goes without waiting for its users.
    ///
    /// # Errors
    /// Why it cannot be given up; the server then ends with this error.
    fn begin_end(&mut self) -> Result<(), Self::Error>;

    /// Whether its users have gone, or have had their time since it began to end.
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
    /// Its users have gone or had their time.
    Clean,
    /// What it serves was taken away by others.
    Vanished,
    /// It was told to end a second time.
    Forced,
    /// Whoever started it is gone: nobody would know of it.
    Orphaned,
}

/// An answer to a client.
pub enum Answer<A: ServerRequest> {
    /// It is done.
    Done,
    /// This, and lines after it.
    Reply(A::Reply, Vec<A::Line>),
}

/// Where a server is told what to do: its control socket and the signals.
#[derive(Debug)]
pub struct Control {
    signals: OwnedFd,
    listener: UnixListener,
}

impl Control {
    /// Listens in this folder. The signals are blocked in this thread and those that it starts: to be called
    /// before any is started.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn open(folder: &ServerFolder) -> Result<Self, CallError> {
        let signals = daemon::end_signals().context("wait for", "signals")?;
        let path = folder.control();
        let listener = UnixListener::bind(&path).context("listen on", &path)?;
        listener.set_nonblocking(true).context("listen on", &path)?;
        Ok(Self { signals, listener })
    }
}

/// Answers clients until the server is to end, then ends it.
///
/// # Errors
/// The daemon's own, or what waiting for clients said.
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

/// Answers one client; whether it asked the server to end.
fn accept<D: Daemon>(daemon: &mut D, listener: &UnixListener) -> bool {
    let Ok((stream, _)) = listener.accept() else { return false };
    converse(daemon, &stream).unwrap_or_else(|error| {
        tracing::warn!("a client went wrong: {error}");
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

    /// Answers with numbers; what it serves is gone when `lost` says so.
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
            let control = Control::open(&inside)?;
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
        // One that says nothing keeps the others waiting for a while only.
        let _mute = UnixStream::connect(served.folder.control()).expect("it listens");
        assert_eq!(Client::of(&served.folder).ask(&Number::Twice(1)).expect("answers"), 2);
    }

    #[test]
    fn what_is_lost_ends_the_server_even_while_it_has_users() {
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
