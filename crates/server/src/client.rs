//! Sends requests to a server. Every call is bounded in time.

use crate::protocol::{Envelope, Reply, ServerRequest};
use crate::wire::{read_message, write_message};
use crate::{Error, ServerFolder, ServerProcess};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest wait for an answer: the server gives each earlier client two seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Longest wait for a server that has closed its connection to end: the kernel takes that long to free much
/// locked memory.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It serves.
    Ready,
    /// It is being started.
    Starting,
    /// What it served is gone, and it is about to end.
    Ending,
    /// It runs but does not answer.
    Silent,
    /// It has ended without cleaning up.
    #[default]
    Dead,
}

impl Health {
    /// The state of the server that gave this answer.
    #[must_use]
    pub fn of<T>(answer: &Result<T, Error>) -> Self {
        match answer {
            Ok(_) => Self::Ready,
            Err(Error::Dead) => Self::Dead,
            Err(_) => Self::Silent,
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Ending => "ending",
            Self::Silent => "silent",
            Self::Dead => "dead",
        })
    }
}

/// A client of the server of a folder.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a>(&'a ServerFolder);

impl<'a> Client<'a> {
    /// A client of this server, alive or not.
    #[must_use]
    pub fn of(folder: &'a ServerFolder) -> Self {
        Self(folder)
    }

    /// Sends a request that has a reply.
    ///
    /// # Errors
    /// [`Error::Dead`], [`Error::Silent`], [`Error::Refused`]; the record cannot be read.
    pub fn ask<A: ServerRequest>(self, ask: &A) -> Result<A::Reply, Error> {
        Ok(self.ask_lines(ask)?.0)
    }

    /// Sends a request whose reply is followed by a number of lines.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_lines<A: ServerRequest>(self, ask: &A) -> Result<(A::Reply, Vec<A::Line>), Error> {
        match self.exchange(&Envelope::Own(ask))? {
            (Reply::Own { reply, lines }, mut from) => {
                let lines = (0..lines).map(|_| read_message(&mut from)).collect::<io::Result<_>>();
                Ok((reply, lines.map_err(Error::Silent)?))
            }
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Sends a request without a reply of its own.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn notify<A: ServerRequest>(self, ask: &A) -> Result<(), Error> {
        done(self.exchange::<_, A::Reply>(&Envelope::Own(ask))?.0)
    }

    /// Checks that it answers.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ping(self) -> Result<(), Error> {
        done(self.exchange::<(), ()>(&Envelope::Ping)?.0)
    }

    /// Requests that it stop serving and end; it may not have ended when this returns.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn end(self) -> Result<(), Error> {
        done(self.exchange::<(), ()>(&Envelope::End)?.0)
    }

    /// Its state; only its kind knows about [`Health::Starting`] and [`Health::Ending`].
    #[must_use]
    pub fn health(self) -> Health {
        Health::of(&self.ping())
    }

    fn exchange<A: Serialize, R: DeserializeOwned>(
        self,
        request: &Envelope<A>,
    ) -> Result<(Reply<R>, BufReader<UnixStream>), Error> {
        let server =
            self.0.record::<ServerProcess>()?.filter(|server| server.is_alive()).ok_or(Error::Dead)?;
        let converse = || {
            let mut stream = UnixStream::connect(self.0.control())?;
            stream.set_read_timeout(Some(ANSWER_LIMIT))?;
            stream.set_write_timeout(Some(ANSWER_LIMIT))?;
            write_message(&mut stream, request)?;
            let mut from = BufReader::new(stream);
            Ok((read_message(&mut from)?, from))
        };
        // A process that is being killed closes its sockets before it has ended.
        let hung_up = |error: &io::Error| {
            use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
            matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset | UnexpectedEof)
        };
        converse().map_err(|error: io::Error| match error.kind() {
            _ if hung_up(&error) && server.wait_for_end(END_LIMIT) => Error::Dead,
            // What the kernel calls a time limit.
            io::ErrorKind::WouldBlock => Error::Silent(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("nothing came within {} s", ANSWER_LIMIT.as_secs()),
            )),
            _ => Error::Silent(error),
        })
    }
}

fn done<R>(reply: Reply<R>) -> Result<(), Error> {
    if matches!(reply, Reply::Done) { Ok(()) } else { Err(unexpected(reply)) }
}

fn unexpected<R>(reply: Reply<R>) -> Error {
    match reply {
        Reply::Refused(why) => Error::Refused(why),
        Reply::Done | Reply::Own { .. } => Error::Silent(io::Error::other("unexpected answer")),
    }
}
