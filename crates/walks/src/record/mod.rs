//! Events and commands of walks in a recording ([`foreseek_seam::record`]), and their replay.
//!
//! ```text
//! foreseek-recording 2
//! walks rho=4 start=8 budget=268435456 file_limit=8388608 idle=10000000000 contents
//! 1200 directory 4711 2049:131 -
//! > list 2049:131<2049:131 unless-passed-by 4711
//! 1900 listed 2049:131 1/32@0 f2049:140@9216=a%20name d2049:141@9216!=below
//! 2000 file 4711 2049:131 2049:140
//! > place 2049:140<2049:131
//! 2300 placed 2049:140,6000,0,known,0+2@81920
//! 2400 tick
//! ```
//!
//! A node is `DEVICE:INODE`, and with a directory that lists it `NODE<DIRECTORY`. An entry of a listing is its kind
//! (`f`, `d`, or `o` for others), its node, the address of its inode if it is known, `!` if the inode is in memory, and its
//! name. A replay needs the profile of the recorded device.

mod read;
mod write;

use crate::{Command, Commands, Settings, Walks};
use foreseek_seam::record::fields::{Fields, Reason, number};
use foreseek_seam::record::{Header, Replay};
use foreseek_units::{Bytes, Instant, Nanos};
use std::fmt::Write;

/// The first word of the settings.
const WALKS: &str = "walks";
/// The last one, if contents are fetched.
const CONTENTS: &str = "contents";

impl Header for Settings {
    fn write(&self, line: &mut String) {
        let Self { rho, start, budget, file_limit, contents, idle } = self;
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            "{WALKS} rho={rho} start={start} budget={} file_limit={} idle={}",
            budget.0, file_limit.0, idle.0
        );
        if *contents {
            let _ = write!(line, " {CONTENTS}");
        }
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self, Reason> {
        fields.expect(WALKS)?;
        Ok(Self {
            rho: number(fields.value("rho")?)?,
            start: number(fields.value("start")?)?,
            budget: Bytes(number(fields.value("budget")?)?),
            file_limit: Bytes(number(fields.value("file_limit")?)?),
            idle: Nanos(number(fields.value("idle")?)?),
            contents: !fields.is_over() && fields.expect(CONTENTS).map(|()| true)?,
        })
    }
}

impl Replay for Walks {
    type Command = Command;

    fn replay(&mut self, now: Instant, event: &mut Fields<'_>, out: &mut Vec<Command>) -> Result<(), Reason> {
        let mut commands = Commands::new();
        read::event(event, |event| self.on(now, event, &mut commands))?;
        out.extend(commands.drain());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DeviceNo, Entry, Event, InDirectory, InodeFetch, InodeReads, Kind, ListCondition, Node, Outcome,
        Part, Placed,
    };
    use foreseek_seam::record::Line;
    use foreseek_seam::{Extent, FetchId, ProcessId};
    use foreseek_units::{Lba, PageIndex, Pages, Span};
    use proptest::prelude::*;

    fn node(inode: u64) -> Node {
        Node { device: DeviceNo(2049), inode }
    }

    fn written(what: &impl Line) -> String {
        let mut line = String::new();
        what.write(&mut line);
        line
    }

    #[test]
    fn every_event_is_read_as_it_was_written() {
        let (pid, directory, parent) = (ProcessId(4711), node(131), Some(node(2)));
        let extents = [
            Extent { page: PageIndex(0), pages: Pages(3), lba: Lba(8) },
            Extent { page: PageIndex(9), pages: Pages(1), lba: Lba(u64::MAX) },
        ];
        let entry = |name, kind, inode_at, inode_in_memory| Entry {
            node: Node { device: DeviceNo(7), inode: 140 },
            kind,
            name,
            inode_at,
            inode_in_memory,
        };
        let entries = [
            entry(b"plain", Kind::File, Some(Lba(9216)), false),
            entry(b"a b\n=!@%\xff", Kind::Directory, Some(Lba(0)), true),
            entry(b"", Kind::Other, None, true),
            entry(b"-", Kind::File, None, false),
        ];
        let placed = |missing, resident, residency_known| Placed {
            file: node(140),
            length: Bytes(6000),
            resident: Pages(resident),
            residency_known,
            missing,
        };
        let files = [placed(&extents, 0, true), placed(&[], 2, false)];
        let inodes = InodeReads { least: Pages(4), together: Pages(32), from: Lba(2048) };
        let done = |outcome| Event::Done { fetch: FetchId(3), fetched_bytes: Bytes(4096), outcome };
        let events = [
            Event::DirectoryOpened { pid, directory, parent },
            Event::DirectoryOpened { pid, directory, parent: None },
            Event::DirectoryEntered { pid, directory, parent },
            Event::OpenedBelow { pid, directory, parent: None },
            Event::FileOpened { pid, directory, file: node(140) },
            Event::LookedUp { pid, directory, node: node(u64::MAX) },
            Event::Listed { directory, entries: &entries, inodes },
            Event::Listed { directory, entries: &[], inodes },
            Event::BlocksRead { directory, blocks: &extents },
            Event::BlocksRead { directory, blocks: &[] },
            Event::Unlistable { directory },
            Event::Placed { files: &files },
            Event::Placed { files: &[] },
            done(Outcome::Arrived),
            done(Outcome::Partly),
            done(Outcome::Refused),
            Event::Changed { directory },
            Event::Budget { bytes: Bytes::mib(2) },
            Event::Program { pid, user: 1000, name: b"Web Content" },
            Event::Program { pid, user: 0, name: b"" },
            Event::Exited { pid },
            Event::Overflow,
            Event::Tick,
        ];
        for event in &events {
            let line = written(event);
            let mut again = String::new();
            let read = read::event(&mut Fields::new(&line), |event| again = format!("{event:?}"));
            assert_eq!((read, again), (Ok(()), format!("{event:?}")), "{line}");
        }
    }

    #[test]
    fn commands_are_written_each_in_its_own_way() {
        let directory = node(131);
        let file = InDirectory { node: node(140), directory };
        let list = |condition| Command::List { directory: file, condition };
        let pages = Span::new(PageIndex(2), PageIndex(5));
        let fetch = FetchId(3);
        for (command, line) in [
            (list(ListCondition::Always), "list 2049:140<2049:131 always"),
            (list(ListCondition::UnlessPassedBy(ProcessId(1))), "list 2049:140<2049:131 unless-passed-by 1"),
            (list(ListCondition::Opened(ProcessId(1))), "list 2049:140<2049:131 opened 1"),
            (list(ListCondition::InMemory), "list 2049:140<2049:131 in-memory"),
            (
                Command::FetchMetadata {
                    fetch,
                    nodes: [true, false].map(|together| InodeFetch { which: file, together }).to_vec(),
                },
                "metadata 3 2049:140<2049:131+ 2049:140<2049:131",
            ),
            (Command::Place { files: vec![file, file] }, "place 2049:140<2049:131 2049:140<2049:131"),
            (
                Command::Fetch { fetch, parts: vec![Part { file, pages, lba: Lba(8) }] },
                "fetch 3 2049:140<2049:131,2..5@8",
            ),
            (Command::WatchOpens { directory, on: true }, "watch 2049:131 on"),
            (Command::WatchOpens { directory, on: false }, "watch 2049:131 off"),
            (Command::Cancel { fetch }, "cancel 3"),
            (Command::Forget { directory }, "forget 2049:131"),
        ] {
            assert_eq!(written(&command), line);
        }
    }

    #[test]
    fn a_malformed_event_is_refused_with_its_reason() {
        for (line, reason) in [
            ("jump", "'jump' is no event of walks"),
            ("file 1 2:3", "the line ends before the node"),
            ("file 1 2:3 4", "'4' is no node: DEVICE:INODE"),
            ("directory 1 2:3", "the line ends before the parent"),
            ("tick tock", "'tock' is one word too many"),
            ("listed 2:3 1/32", "'1/32' is no read of an inode: LEAST/TOGETHER@FROM"),
            ("listed 2:3 1/32@0 f2:4", "'f2:4' is no entry: KIND DEVICE:INODE[@ADDRESS][!]=NAME"),
            ("listed 2:3 1/32@0 x2:4=a", "'x2:4=a' is no entry: KIND DEVICE:INODE[@ADDRESS][!]=NAME"),
            ("listed 2:3 1/32@0 f2:4=%f", "'%f' is no name"),
            ("placed 2:3,1", "'2:3,1' ends before the pages in memory"),
            ("placed 2:3,1,0,perhaps", "'perhaps' should be known or unknown"),
            ("placed 2:3,1,0,known,5", "'5' is no extent: PAGE+PAGES@LBA"),
            ("done 1 2 never", "'never' should be arrived, partly or refused"),
        ] {
            let read = read::event(&mut Fields::new(line), |event| panic!("{event:?}"));
            assert_eq!(read, Err(reason.to_owned()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn settings_are_read_as_they_were_written(
            rho in 1.0..100.0, start in any::<u32>(), sizes in any::<(u64, u64, u64)>(), contents in any::<bool>(),
        ) {
            let (budget, file_limit, idle) = (Bytes(sizes.0), Bytes(sizes.1), Nanos(sizes.2));
            let settings = Settings { rho, start, budget, file_limit, contents, idle };
            let mut line = String::new();
            Header::write(&settings, &mut line);
            let mut fields = Fields::new(&line);
            prop_assert_eq!(<Settings as Header>::read(&mut fields), Ok(settings));
            prop_assert!(fields.is_over());
        }
    }
}
