//! Reads the lines of a recording. The error of a line is a reason; the caller knows the line's number.

use super::fields::{Fields, Reason, extent, number, pages};
use super::{FORMAT, MAGIC};
use crate::{
    Access, Epoch, Event, Extent, FetchId, FetchOutcome, FrameId, HintEvent, HintMode, Measured, ObjectId,
    ProcessId, QueryId, Refusal, RequestId, ServingEvent, StreamId, StreamInfo,
};
use foreseek_units::{Bytes, Nanos, PageIndex, PageSpan, Pages, Rate};

/// Memory for the parts of an event that it borrows; reused for each line.
#[derive(Debug, Default)]
pub(super) struct Parts {
    extents: Vec<Extent>,
    accesses: Vec<Access>,
    runs: Vec<PageSpan>,
    frames: Vec<FrameId>,
    names: [String; 3],
}

/// The first line.
pub(super) fn format(line: &str) -> Result<(), Reason> {
    let version = line
        .strip_prefix(MAGIC)
        .ok_or_else(|| format!("this is no recording: the first line should read '{MAGIC} {FORMAT}'"))?;
    if version.trim() == FORMAT.to_string() {
        return Ok(());
    }
    Err(format!("the recording has format '{}', this version reads {FORMAT}", version.trim()))
}

/// The event of a line; its time was read.
pub(super) fn event<'a>(fields: &mut Fields<'_>, parts: &'a mut Parts) -> Result<Event<'a>, Reason> {
    let name = fields.word("name of an event")?;
    let event = match name {
        "opened" => Event::Opened {
            stream: StreamId(fields.number("stream")?),
            object: ObjectId(fields.number("object")?),
            length: Bytes(fields.number("length")?),
            pid: ProcessId(fields.number("pid")?),
        },
        "described" => {
            let stream = StreamId(fields.number("stream")?);
            for (name, key) in parts.names.iter_mut().zip(["kind", "directory", "program"]) {
                *name = fields.text(key)?;
            }
            let [kind, directory, program] = &parts.names;
            Event::Serving(ServingEvent::Described { stream, about: StreamInfo { kind, directory, program } })
        }
        "recalled" => {
            parts.names[0] = fields.text("learnt")?;
            let device = if !fields.is_over() { Some(measured(fields)?) } else { None };
            Event::Serving(ServingEvent::Restored { learnt: &parts.names[0], device })
        }
        "called" => Event::Serving(ServingEvent::Called {
            stream: StreamId(fields.number("stream")?),
            range: fields.bytes()?,
        }),
        "closed" => Event::Closed { stream: StreamId(fields.number("stream")?) },
        "placed" => {
            let object = ObjectId(fields.number("object")?);
            fields.rest(&mut parts.extents, extent)?;
            Event::Placed { object, extents: &parts.extents }
        }
        "watched" => Event::Hint(HintEvent::Watched {
            object: ObjectId(fields.number("object")?),
            range: fields.bytes()?,
        }),
        "unwatched" => Event::Hint(HintEvent::Unwatched {
            object: ObjectId(fields.number("object")?),
            range: fields.bytes()?,
        }),
        "read" => Event::Read {
            request: RequestId(fields.number("request")?),
            stream: StreamId(fields.number("stream")?),
            range: fields.bytes()?,
            pid: fields.next().map(number).transpose()?.map(ProcessId),
        },
        "hint" => {
            let mode = mode(fields.word("mode")?)?;
            let done = match fields.word("done or more")? {
                "done" => true,
                "more" => false,
                other => return Err(format!("'{other}' should be done or more")),
            };
            let mut last = None;
            fields.rest(&mut parts.accesses, |word| access(word, &mut last))?;
            Event::Hint(HintEvent::Hinted { mode, accesses: &parts.accesses, done })
        }
        "answered" => Event::Hint(HintEvent::Answered { request: RequestId(fields.number("request")?) }),
        "done" => Event::Done {
            fetch: FetchId(fields.number("fetch")?),
            epoch: Epoch(fields.number("epoch")?),
            got: Pages(fields.number("pages")?),
            outcome: outcome(fields.word("outcome")?)?,
            in_flight: fields.number("number in flight")?,
        },
        "refused" => {
            Event::Refused { fetch: FetchId(fields.number("fetch")?), why: refusal(fields.word("reason")?)? }
        }
        "changed" => Event::Changed {
            object: ObjectId(fields.number("object")?),
            range: fields.bytes()?,
            epoch: Epoch(fields.number("epoch")?),
        },
        "resized" => Event::Resized {
            object: ObjectId(fields.number("object")?),
            length: Bytes(fields.number("length")?),
        },
        "resident" => {
            let query = QueryId(fields.number("query")?);
            if fields.clone().word("runs") == Ok("unknown") {
                fields.expect("unknown")?;
                Event::Hint(HintEvent::Resident { query, runs: None })
            } else {
                fields.rest(&mut parts.runs, pages)?;
                Event::Hint(HintEvent::Resident { query, runs: Some(&parts.runs) })
            }
        }
        "unpinned" => {
            fields.rest(&mut parts.frames, |word| number(word).map(FrameId))?;
            Event::Serving(ServingEvent::Unpinned { frames: &parts.frames })
        }
        "budget" => Event::Budget { pages: Pages(fields.number("pages")?) },
        "ran" => Event::Serving(ServingEvent::Ran { pid: ProcessId(fields.number("pid")?) }),
        "exited" => Event::Serving(ServingEvent::Exited { pid: ProcessId(fields.number("pid")?) }),
        "tick" => Event::Tick,
        other => return Err(format!("'{other}' is no event")),
    };
    Ok(event)
}

fn measured(fields: &mut Fields<'_>) -> Result<Measured, Reason> {
    let positioning = Nanos(number(fields.value_once("positioning", "switch")?)?);
    let rate = Rate::bytes_per_second(number(fields.value("rate")?)?);
    Measured::plausible(positioning, rate).ok_or_else(|| "no device is like that".to_owned())
}

/// An access; without an object it has the object of the last one.
fn access(word: &str, last: &mut Option<ObjectId>) -> Result<Access, Reason> {
    let (unmarked, mark) = word.strip_suffix('*').map_or((word, false), |rest| (rest, true));
    let page = match unmarked.split_once(':') {
        Some((object, page)) => {
            *last = Some(ObjectId(number(object)?));
            page
        }
        None => unmarked,
    };
    let object = last.ok_or_else(|| format!("'{word}' names no object, and none was named before"))?;
    Ok(Access { object, page: PageIndex(number(page)?), mark })
}

fn mode(word: &str) -> Result<HintMode, Reason> {
    Ok(match word {
        "set" => HintMode::Set,
        "append" => HintMode::Append,
        "from-mark" => HintMode::SetFromMark,
        other => return Err(format!("'{other}' should be set, append or from-mark")),
    })
}

fn outcome(word: &str) -> Result<FetchOutcome, Reason> {
    Ok(match word {
        "arrived" => FetchOutcome::Arrived,
        "from-memory" => FetchOutcome::FromMemory,
        "issued" => FetchOutcome::Issued,
        "failed" => FetchOutcome::Failed,
        other => return Err(format!("'{other}' should be arrived, from-memory, issued or failed")),
    })
}

fn refusal(word: &str) -> Result<Refusal, Reason> {
    Ok(match word {
        "busy" => Refusal::Busy,
        "unsupported" => Refusal::Unsupported,
        "gone" => Refusal::Gone,
        other => return Err(format!("'{other}' should be busy, unsupported or gone")),
    })
}
