//! The address of an NBD export.

use crate::ExportError;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{PathBuf, absolute};
use std::str::FromStr;

/// Clients that may wait to be accepted.
const WAITING: i32 = 128;
const LOOPBACK: &str = "127.0.0.1";

/// `nbd:unix:PATH` or `nbd:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NbdAddress {
    /// A Unix socket that only its owner may use.
    Unix(PathBuf),
    /// A TCP port of this machine.
    Tcp {
        /// A host name or an address.
        host: String,
        /// 0: a free port.
        port: u16,
    },
}

impl NbdAddress {
    /// The same address with an absolute path.
    ///
    /// # Errors
    /// There is no working directory.
    pub fn made_absolute(self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(path) => Self::Unix(absolute(path)?),
            tcp => tcp,
        })
    }

    /// The URI that NBD programs use.
    #[must_use]
    pub fn uri(&self, name: &str) -> String {
        match self {
            Self::Unix(path) => format!("nbd+unix:///{name}?socket={}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => format!("nbd://[{host}]:{port}/{name}"),
            Self::Tcp { host, port } => format!("nbd://{host}:{port}/{name}"),
        }
    }

    /// Listens there. Returns the address with the actual port, which was chosen if none was given.
    pub(super) fn listen(&self) -> Result<(OwnedFd, Self), ExportError> {
        let refused =
            |cause: io::Error| ExportError::Listen { address: self.to_string(), cause: cause.to_string() };
        match self {
            Self::Unix(path) => {
                self.remove_stale()?;
                let listener = listen_at(path).map_err(|error| refused(error.into()))?;
                Ok((listener, self.clone()))
            }
            Self::Tcp { host, port } => {
                let listener = TcpListener::bind((host.as_str(), *port)).map_err(refused)?;
                let port = listener.local_addr().map_err(refused)?.port();
                Ok((listener.into(), Self::Tcp { host: host.clone(), port }))
            }
        }
    }

    /// Removes a socket that no program listens on any more.
    fn remove_stale(&self) -> Result<(), ExportError> {
        let Self::Unix(path) = self else { return Ok(()) };
        let refused =
            |cause: &str| ExportError::Listen { address: self.to_string(), cause: cause.to_owned() };
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
        if !found.file_type().is_socket() {
            return Err(refused("the path exists and is no socket: choose another"));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|error| refused(&error.to_string()))
            }
            _ => Err(refused("another program listens there: choose another path")),
        }
    }

    /// Removes the socket.
    pub(crate) fn remove(&self) {
        if let Self::Unix(path) = self
            && let Err(error) = fs::remove_file(path)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
    }
}

fn listen_at(path: &PathBuf) -> rustix::io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The socket gets this mode when it is bound, so that no other user can connect in between.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    listen(&socket, WAITING)?;
    Ok(socket)
}

impl FromStr for NbdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            Err(format!(
                "'{text}' is no NBD address: give nbd:unix:PATH, nbd:HOST:PORT, or nbd::PORT for this machine only"
            ))
        };
        let Some(rest) = text.strip_prefix("nbd:") else { return refused() };
        if let Some(path) = rest.strip_prefix("unix:") {
            return if path.is_empty() { refused() } else { Ok(Self::Unix(path.into())) };
        }
        let Some((host, port)) = rest.rsplit_once(':') else { return refused() };
        let Ok(port) = port.parse() else { return refused() };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = if host.is_empty() { LOOPBACK } else { host };
        if (host, port).to_socket_addrs().is_err() {
            return Err(format!("'{text}': no address is known for {host}"));
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "nbd:unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "nbd:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "nbd:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_written() {
        for text in ["nbd:unix:/run/disk.socket", "nbd:127.0.0.1:10809", "nbd:[::1]:10809"] {
            assert_eq!(text.parse::<NbdAddress>().map(|address| address.to_string()), Ok(text.to_owned()));
        }
        let here: NbdAddress = "nbd::10809".parse().expect("this machine");
        assert_eq!(here.to_string(), "nbd:127.0.0.1:10809");
        assert_eq!(here.uri("disk0"), "nbd://127.0.0.1:10809/disk0");
        let unix: NbdAddress = "nbd:unix:/run/x".parse().expect("a path");
        assert_eq!(unix.uri("disk0"), "nbd+unix:///disk0?socket=/run/x");
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_was_given() {
        for text in
            ["", "nbd", "nbd:", "nbd:unix:", "nbd:localhost", "nbd:localhost:70000", "tcp:localhost:1"]
        {
            let error = text.parse::<NbdAddress>().expect_err(text);
            assert!(error.contains(&format!("'{text}'")) && error.contains("nbd:unix:PATH"), "{error}");
        }
    }
}
