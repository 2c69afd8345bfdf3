//! Reads the events of a recording. The error of a line is a reason; the caller knows the line's number.

use crate::{DeviceNo, Entry, Event, InodeReads, Kind, Node, Outcome, Placed};
use foreseek_seam::record::fields::{Fields, Reason, extent, number};
use foreseek_seam::{Extent, FetchId, ProcessId, percent};
use foreseek_units::{Bytes, Lba, Pages};

/// Reads an event, without its time, and passes it to `take`.
pub(super) fn event(fields: &mut Fields<'_>, take: impl FnOnce(Event<'_>)) -> Result<(), Reason> {
    let name = fields.word("name of an event")?;
    // An event that borrows is passed on where its parts are.
    let event = match name {
        "directory" => {
            let (pid, directory, parent) = visited(fields)?;
            Event::DirectoryOpened { pid, directory, parent }
        }
        "entered" => {
            let (pid, directory, parent) = visited(fields)?;
            Event::DirectoryEntered { pid, directory, parent }
        }
        "below" => {
            let (pid, directory, parent) = visited(fields)?;
            Event::OpenedBelow { pid, directory, parent }
        }
        "file" => {
            let (pid, directory, file) = (pid(fields)?, next_node(fields)?, next_node(fields)?);
            Event::FileOpened { pid, directory, file }
        }
        "looked-up" => {
            let (pid, directory, node) = (pid(fields)?, next_node(fields)?, next_node(fields)?);
            Event::LookedUp { pid, directory, node }
        }
        "listed" => {
            let directory = next_node(fields)?;
            let inodes = inode_reads(fields.word("reads of inodes")?)?;
            let mut read = Vec::new();
            fields.rest(&mut read, entry)?;
            let entries: Vec<Entry<'_>> = read.iter().map(|(entry, name)| Entry { name, ..*entry }).collect();
            take(Event::Listed { directory, entries: &entries, inodes });
            return Ok(());
        }
        "blocks" => {
            let directory = next_node(fields)?;
            let mut blocks = Vec::new();
            fields.rest(&mut blocks, extent)?;
            take(Event::BlocksRead { directory, blocks: &blocks });
            return Ok(());
        }
        "unlistable" => Event::Unlistable { directory: next_node(fields)? },
        "placed" => {
            let mut read = Vec::new();
            fields.rest(&mut read, placed)?;
            let files: Vec<Placed<'_>> =
                read.iter().map(|(file, missing)| Placed { missing, ..*file }).collect();
            take(Event::Placed { files: &files });
            return Ok(());
        }
        "done" => Event::Done {
            fetch: FetchId(fields.number("fetch")?),
            fetched_bytes: Bytes(fields.number("bytes")?),
            outcome: outcome(fields.word("outcome")?)?,
        },
        "changed" => Event::Changed { directory: next_node(fields)? },
        "budget" => Event::Budget { bytes: Bytes(fields.number("bytes")?) },
        "program" => {
            let (pid, user) = (pid(fields)?, fields.number("user")?);
            let name = name_of(fields.value("name")?)?;
            fields.end()?;
            take(Event::Program { pid, user, name: &name });
            return Ok(());
        }
        "exited" => Event::Exited { pid: pid(fields)? },
        "overflow" => Event::Overflow,
        "tick" => Event::Tick,
        other => return Err(format!("'{other}' is no event of walks")),
    };
    fields.end()?;
    take(event);
    Ok(())
}

fn pid(fields: &mut Fields<'_>) -> Result<ProcessId, Reason> {
    fields.number("pid").map(ProcessId)
}

fn next_node(fields: &mut Fields<'_>) -> Result<Node, Reason> {
    node(fields.word("node")?)
}

fn visited(fields: &mut Fields<'_>) -> Result<(ProcessId, Node, Option<Node>), Reason> {
    let (pid, directory) = (pid(fields)?, next_node(fields)?);
    let parent = match fields.word("parent")? {
        "-" => None,
        parent => Some(node(parent)?),
    };
    Ok((pid, directory, parent))
}

fn node(word: &str) -> Result<Node, Reason> {
    let (device, inode) = word.split_once(':').ok_or_else(|| format!("'{word}' is no node: DEVICE:INODE"))?;
    Ok(Node { device: DeviceNo(number(device)?), inode: number(inode)? })
}

fn name_of(word: &str) -> Result<Vec<u8>, Reason> {
    percent::decoded_bytes(word).ok_or_else(|| format!("'{word}' is no name"))
}

fn inode_reads(word: &str) -> Result<InodeReads, Reason> {
    let parts = word.split_once('/').and_then(|(least, rest)| Some((least, rest.split_once('@')?)));
    let (least, (together, from)) =
        parts.ok_or_else(|| format!("'{word}' is no read of an inode: LEAST/TOGETHER@FROM"))?;
    Ok(InodeReads {
        least: Pages(number(least)?),
        together: Pages(number(together)?),
        from: Lba(number(from)?),
    })
}

/// An entry, and its name.
fn entry(word: &str) -> Result<(Entry<'static>, Vec<u8>), Reason> {
    let malformed = || format!("'{word}' is no entry: KIND DEVICE:INODE[@ADDRESS][!]=NAME");
    let (about, name) = word.split_once('=').ok_or_else(malformed)?;
    let (about, inode_in_memory) = about.strip_suffix('!').map_or((about, false), |rest| (rest, true));
    let (about, inode_at) = match about.split_once('@') {
        Some((about, lba)) => (about, Some(Lba(number(lba)?))),
        None => (about, None),
    };
    let mut rest = about.chars();
    let kind = match rest.next() {
        Some('f') => Kind::File,
        Some('d') => Kind::Directory,
        Some('o') => Kind::Other,
        _ => return Err(malformed()),
    };
    let entry = Entry { node: node(rest.as_str())?, kind, name: &[], inode_at, inode_in_memory };
    Ok((entry, name_of(name)?))
}

/// A file, and its extents.
fn placed(word: &str) -> Result<(Placed<'static>, Vec<Extent>), Reason> {
    let mut parts = word.split(',');
    let mut next = |what: &str| parts.next().ok_or_else(|| format!("'{word}' ends before the {what}"));
    let file = Placed {
        file: node(next("node")?)?,
        length: Bytes(number(next("length")?)?),
        resident: Pages(number(next("pages in memory")?)?),
        residency_known: match next("knowledge of them")? {
            "known" => true,
            "unknown" => false,
            other => return Err(format!("'{other}' should be known or unknown")),
        },
        missing: &[],
    };
    Ok((file, parts.map(extent).collect::<Result<_, _>>()?))
}

fn outcome(word: &str) -> Result<Outcome, Reason> {
    Ok(match word {
        "arrived" => Outcome::Arrived,
        "partly" => Outcome::Partly,
        "refused" => Outcome::Refused,
        other => return Err(format!("'{other}' should be arrived, partly or refused")),
    })
}
