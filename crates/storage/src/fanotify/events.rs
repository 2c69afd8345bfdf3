//! Decodes the events that the kernel writes to the reader of a fanotify descriptor.
//!
//! Source: fanotify(7) and include/uapi/linux/fanotify.h: events of `event_len` bytes, each a structure of
//! `metadata_len` bytes followed by information records. Records of other kinds are skipped. Lengths that
//! contradict each other end the decoding.
//!
//! Pure: descriptors are plain numbers here.

use crate::handle::FileHandle;
use std::os::fd::RawFd;

/// The length of the structure that begins every event.
pub(super) const METADATA: usize = 24;
/// The length of a record's header: type, padding, length.
const RECORD: usize = 4;
/// The bytes of a record before the handle itself: header, file system, length and type of the handle.
const BEFORE_HANDLE: usize = RECORD + 8 + 8;

/// The file system of an event: `f_fsid` of `statvfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSystemId(pub u64);

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Whether the queue overflowed; all other fields are empty then.
    pub overflow: bool,
    /// Whether a directory was opened; otherwise an entry of one.
    pub on_directory: bool,
    /// The process that opened it.
    pub process: u32,
    /// A pidfd of the process, if the group requests them and the process was still there.
    pub process_fd: Option<RawFd>,
    /// The directory that was opened, or that holds the opened entry.
    pub directory: Option<(FileSystemId, FileHandle)>,
    /// The name of the entry; none for the directory itself.
    pub name: Option<&'a [u8]>,
    /// The file itself, in a group that names no directories.
    pub file: Option<(FileSystemId, FileHandle)>,
    /// A descriptor of the file, in a group without handles.
    pub descriptor: Option<RawFd>,
}

/// The events in a buffer.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    rest: &'a [u8],
}

impl<'a> Events<'a> {
    /// The events in a buffer.
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        let length = u32_at(self.rest, 0)? as usize;
        if length < METADATA {
            return None;
        }
        let (event, after) = self.rest.split_at_checked(length)?;
        self.rest = after;
        decode(event)
    }
}

fn decode(bytes: &[u8]) -> Option<Event<'_>> {
    let version = *bytes.get(4)?;
    if version != libc::FANOTIFY_METADATA_VERSION {
        return None;
    }
    let head = usize::from(u16_at(bytes, 6)?);
    let mask = u64::from(u32_at(bytes, 8)?) | (u64::from(u32_at(bytes, 12)?) << 32);
    let mut event = Event {
        overflow: mask & libc::FAN_Q_OVERFLOW != 0,
        on_directory: mask & libc::FAN_ONDIR != 0,
        process: u32_at(bytes, 20)?,
        process_fd: None,
        directory: None,
        name: None,
        file: None,
        // Negative in an event without one.
        descriptor: Some(u32_at(bytes, 16)?.cast_signed()).filter(|fd| *fd >= 0),
    };
    let mut records = bytes.get(head.max(METADATA)..)?;
    while records.len() >= RECORD {
        let length = usize::from(u16_at(records, 2)?);
        if length < RECORD {
            break;
        }
        let Some((record, after)) = records.split_at_checked(length) else { break };
        read_record(record, &mut event);
        records = after;
    }
    Some(event)
}

fn read_record<'a>(record: &'a [u8], event: &mut Event<'a>) {
    match record[0] {
        libc::FAN_EVENT_INFO_TYPE_DFID | libc::FAN_EVENT_INFO_TYPE_DFID_NAME => {
            let Some((directory, rest)) = read_handle(record) else { return };
            event.directory = Some(directory);
            if record[0] == libc::FAN_EVENT_INFO_TYPE_DFID_NAME {
                let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
                event.name = Some(name).filter(|name| !matches!(*name, b"" | b"."));
            }
        }
        libc::FAN_EVENT_INFO_TYPE_FID => event.file = read_handle(record).map(|(file, _)| file),
        libc::FAN_EVENT_INFO_TYPE_PIDFD => {
            // Negative where the process has ended.
            let fd = u32_at(record, RECORD).map(u32::cast_signed);
            event.process_fd = fd.filter(|fd| *fd >= 0);
        }
        _ => {}
    }
}

type Handle = (FileSystemId, FileHandle);

/// A record's file system and handle, and the bytes after them.
fn read_handle(record: &[u8]) -> Option<(Handle, &[u8])> {
    let file_system = u64::from(u32_at(record, 4)?) | (u64::from(u32_at(record, 8)?) << 32);
    let length = u32_at(record, 12)? as usize;
    let kind = u32_at(record, 16)?.cast_signed();
    let (bytes, rest) = record.get(BEFORE_HANDLE..)?.split_at_checked(length)?;
    Some(((FileSystemId(file_system), FileHandle::from_parts(kind, bytes)?), rest))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An event as the kernel writes it.
    fn written(mask: u64, process: u32, records: &[Vec<u8>]) -> Vec<u8> {
        let length = METADATA + records.iter().map(Vec::len).sum::<usize>();
        let mut bytes = Vec::new();
        bytes.extend((length as u32).to_ne_bytes());
        bytes.extend([libc::FANOTIFY_METADATA_VERSION, 0]);
        bytes.extend((METADATA as u16).to_ne_bytes());
        bytes.extend(mask.to_ne_bytes());
        bytes.extend((-1i32).to_ne_bytes());
        bytes.extend(process.to_ne_bytes());
        records.iter().for_each(|record| bytes.extend(record));
        bytes
    }

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = (RECORD + content.len()).next_multiple_of(4);
        let mut bytes = vec![kind, 0];
        bytes.extend((length as u16).to_ne_bytes());
        bytes.extend(content);
        bytes.resize(length, 0);
        bytes
    }

    fn directory(kind: u8, file_system: u64, handle: &[u8], name: Option<&[u8]>) -> Vec<u8> {
        let mut content = file_system.to_ne_bytes().to_vec();
        content.extend((handle.len() as u32).to_ne_bytes());
        content.extend(1u32.to_ne_bytes());
        content.extend(handle);
        if let Some(name) = name {
            content.extend(name);
            content.push(0);
        }
        record(kind, &content)
    }

    #[test]
    fn a_directory_that_was_opened_is_named_by_its_own_handle() {
        let fid = directory(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, 7, &[12, 0, 0, 0, 9, 0, 0, 0], Some(b"."));
        let pidfd = record(libc::FAN_EVENT_INFO_TYPE_PIDFD, &5u32.to_ne_bytes());
        let bytes = written(libc::FAN_OPEN | libc::FAN_ONDIR, 42, &[fid, pidfd]);
        let events: Vec<_> = Events::of(&bytes).collect();
        let [event] = &events[..] else { panic!("{events:?}") };
        assert!(event.on_directory && !event.overflow);
        assert_eq!((event.process, event.process_fd, event.name), (42, Some(5), None));
        let (file_system, handle) = event.directory.as_ref().expect("a handle");
        assert_eq!((*file_system, handle.inode()), (FileSystemId(7), Some(12)));
    }

    #[test]
    fn a_file_is_named_by_its_handle_or_by_a_descriptor() {
        let fid = directory(libc::FAN_EVENT_INFO_TYPE_FID, 7, &[12, 0, 0, 0, 9, 0, 0, 0], None);
        let mut bytes = written(libc::FAN_CLOSE_NOWRITE, 42, &[fid]);
        let with_descriptor = bytes.len();
        bytes.extend(written(libc::FAN_CLOSE_WRITE, 43, &[]));
        bytes[with_descriptor + 16..][..4].copy_from_slice(&5i32.to_ne_bytes());
        let events: Vec<_> = Events::of(&bytes).collect();
        let [by_handle, by_descriptor] = &events[..] else { panic!("{events:?}") };
        let (file_system, handle) = by_handle.file.as_ref().expect("a handle");
        assert_eq!((*file_system, handle.inode()), (FileSystemId(7), Some(12)));
        assert_eq!((by_handle.process, by_handle.descriptor), (42, None));
        assert_eq!((by_descriptor.process, by_descriptor.descriptor), (43, Some(5)));
        assert!(by_descriptor.file.is_none() && by_descriptor.directory.is_none());
    }

    #[test]
    fn a_file_is_named_in_its_directory_and_an_overflow_names_nothing() {
        let fid = directory(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, 7, &[12; 8], Some(b"\xff\n name"));
        let gone = record(libc::FAN_EVENT_INFO_TYPE_PIDFD, &(-1i32).to_ne_bytes());
        let mut bytes = written(libc::FAN_OPEN, 42, &[fid, gone]);
        bytes.extend(written(libc::FAN_Q_OVERFLOW, 0, &[]));
        let events: Vec<_> = Events::of(&bytes).collect();
        assert_eq!(events.len(), 2);
        assert_eq!((events[0].name, events[0].process_fd), (Some(&b"\xff\n name"[..]), None));
        assert!(events[1].overflow && events[1].directory.is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            for event in Events::of(&bytes) {
                prop_assert!(event.name.is_none_or(|name| name.len() < bytes.len()));
            }
        }

        /// However an event is damaged, decoding ends and gives no more events than there are bytes for.
        #[test]
        fn damaged_events_are_survived(
            names in prop::collection::vec(prop::collection::vec(1u8.., 0..20), 0..6),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        ) {
            let mut bytes = Vec::new();
            for name in &names {
                let fid = directory(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, 3, &[1; 12], Some(name));
                bytes.extend(written(libc::FAN_OPEN, 9, &[fid]));
            }
            let whole: Vec<_> = Events::of(&bytes).collect();
            prop_assert_eq!(whole.len(), names.len());
            for (event, name) in whole.iter().zip(&names) {
                let expected = Some(&name[..]).filter(|name| !matches!(*name, b"" | b"."));
                prop_assert_eq!(event.name, expected);
            }
            let mut bytes = bytes.clone();
            if !bytes.is_empty() {
                for (at, value) in changes {
                    let at = at.index(bytes.len());
                    bytes[at] = value;
                }
            }
            prop_assert!(Events::of(&bytes).count() <= bytes.len() / METADATA);
        }
    }
}
