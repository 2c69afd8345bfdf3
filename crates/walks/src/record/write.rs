//! Lines of a recording. Writing to a string cannot fail, so the results of `write!` are dropped.

use crate::{
    Command, Entry, Event, InDirectory, InodeFetch, Kind, ListCondition, Node, Outcome, Part, Placed,
};
use foreseek_seam::percent;
use foreseek_seam::record::{Line, words};
use std::fmt::Write;

impl Line for Event<'_> {
    fn write(&self, line: &mut String) {
        match self {
            Event::DirectoryOpened { pid, directory, parent } => {
                let _ = write!(line, "directory {}", pid.0);
                visited(line, *directory, *parent);
            }
            Event::DirectoryEntered { pid, directory, parent } => {
                let _ = write!(line, "entered {}", pid.0);
                visited(line, *directory, *parent);
            }
            Event::OpenedBelow { pid, directory, parent } => {
                let _ = write!(line, "below {}", pid.0);
                visited(line, *directory, *parent);
            }
            Event::FileOpened { pid, directory, file } => {
                let _ = write!(line, "file {}", pid.0);
                words(line, [directory, file]);
            }
            Event::LookedUp { pid, directory, node } => {
                let _ = write!(line, "looked-up {}", pid.0);
                words(line, [directory, node]);
            }
            Event::Listed { directory, entries, inodes } => {
                line.push_str("listed");
                words(line, [directory]);
                let _ = write!(line, " {}/{}@{}", inodes.least.0, inodes.together.0, inodes.from.0);
                words(line, entries.iter());
            }
            Event::BlocksRead { directory, blocks } => {
                line.push_str("blocks");
                words(line, [directory]);
                words(line, blocks.iter());
            }
            Event::Unlistable { directory } => {
                line.push_str("unlistable");
                words(line, [directory]);
            }
            Event::Placed { files } => {
                line.push_str("placed");
                words(line, files.iter());
            }
            Event::Done { fetch, fetched_bytes, outcome } => {
                let outcome = match outcome {
                    Outcome::Arrived => "arrived",
                    Outcome::Partly => "partly",
                    Outcome::Refused => "refused",
                };
                let _ = write!(line, "done {} {} {outcome}", fetch.0, fetched_bytes.0);
            }
            Event::Changed { directory } => {
                line.push_str("changed");
                words(line, [directory]);
            }
            Event::Budget { bytes } => {
                let _ = write!(line, "budget {}", bytes.0);
            }
            Event::Program { pid, user, name } => {
                let _ = write!(line, "program {} {user} name={}", pid.0, percent::encoded(name));
            }
            Event::Exited { pid } => {
                let _ = write!(line, "exited {}", pid.0);
            }
            Event::Overflow => line.push_str("overflow"),
            Event::Tick => line.push_str("tick"),
        }
    }
}

impl Line for Command {
    fn write(&self, line: &mut String) {
        match self {
            Command::List { directory, condition } => {
                line.push_str("list");
                words(line, [directory]);
                let _ = match condition {
                    ListCondition::Always => write!(line, " always"),
                    ListCondition::UnlessPassedBy(pid) => write!(line, " unless-passed-by {}", pid.0),
                    ListCondition::Opened(pid) => write!(line, " opened {}", pid.0),
                    ListCondition::InMemory => write!(line, " in-memory"),
                };
            }
            Command::FetchMetadata { fetch, nodes } => {
                let _ = write!(line, "metadata {}", fetch.0);
                words(line, nodes);
            }
            Command::Place { files } => {
                line.push_str("place");
                words(line, files);
            }
            Command::Fetch { fetch, parts } => {
                let _ = write!(line, "fetch {}", fetch.0);
                words(line, parts);
            }
            Command::WatchOpens { directory, on } => {
                line.push_str("watch");
                words(line, [directory]);
                line.push_str(if *on { " on" } else { " off" });
            }
            Command::Cancel { fetch } => {
                let _ = write!(line, "cancel {}", fetch.0);
            }
            Command::Forget { directory } => {
                line.push_str("forget");
                words(line, [directory]);
            }
        }
    }
}

/// A directory, and the one that holds it or `-`.
fn visited(line: &mut String, directory: Node, parent: Option<Node>) {
    words(line, [&directory]);
    if parent.is_none() {
        line.push_str(" -");
    }
    words(line, parent.iter());
}

impl Line for Node {
    fn write(&self, line: &mut String) {
        let _ = write!(line, "{}:{}", self.device.0, self.inode);
    }
}

impl Line for InDirectory {
    fn write(&self, line: &mut String) {
        self.node.write(line);
        line.push('<');
        self.directory.write(line);
    }
}

impl Line for Entry<'_> {
    fn write(&self, line: &mut String) {
        line.push(match self.kind {
            Kind::File => 'f',
            Kind::Directory => 'd',
            Kind::Other => 'o',
        });
        self.node.write(line);
        if let Some(lba) = self.inode_at {
            let _ = write!(line, "@{}", lba.0);
        }
        line.push_str(if self.inode_in_memory { "!=" } else { "=" });
        line.push_str(&percent::encoded(self.name));
    }
}

impl Line for Placed<'_> {
    fn write(&self, line: &mut String) {
        self.file.write(line);
        let known = if self.residency_known { "known" } else { "unknown" };
        let _ = write!(line, ",{},{},{known}", self.length.0, self.resident.0);
        for extent in self.missing {
            line.push(',');
            extent.write(line);
        }
    }
}

impl Line for InodeFetch {
    fn write(&self, line: &mut String) {
        self.which.write(line);
        line.push_str(if self.together { "+" } else { "" });
    }
}

impl Line for Part {
    fn write(&self, line: &mut String) {
        self.file.write(line);
        line.push(',');
        self.pages.write(line);
        let _ = write!(line, "@{}", self.lba.0);
    }
}
