//! Reads the lines of a recording. What is wrong with one is told as a reason; the caller knows the
//! line's number.

use super::{FORMAT, MAGIC};
use crate::depth::Measured;
use crate::engine::{
    Access, Door, Epoch, Event, Extent, FetchId, FetchOutcome, FrameId, HintMode, ObjectId, QueryId, Refusal,
    RequestId, Saw, StreamId, Who,
};
use crate::learn::About;
use crate::percent;
use crate::settings::{Order, ParseShareError, Settings};
use crate::{serving, stream};
use foreseek_units::{
    ByteOffset, ByteSpan, Bytes, Instant, Lba, Nanos, PageIndex, PageSpan, Pages, Rate, Span,
};
use serde::de::value::Error as ValueError;
use serde::de::{DeserializeOwned, IntoDeserializer};
use std::str::{FromStr, SplitAsciiWhitespace};

/// Why a line cannot be read.
pub(super) type Reason = String;

/// Memory for the parts of an event that it borrows; used again for each line.
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

/// The second line.
pub(super) fn settings(line: &str) -> Result<Settings, Reason> {
    let mut fields = Fields::new(line);
    fields.expect("settings")?;
    let share = fields.value("share")?;
    let share =
        share.parse().map_err(|reason: ParseShareError| format!("'{share}' is no share: {reason}"))?;
    let memory = optional(fields.value("memory")?)?;
    let infill = Pages(number(fields.value("infill")?)?);
    let order = match fields.value("order")? {
        "disk" => Order::Disk,
        "file" => Order::File,
        other => return Err(format!("'{other}' is no order: disk or file")),
    };
    let mode = fields.value("mode")?;
    let mode = mode.parse().map_err(|reason| format!("'{mode}' is no mode: {reason}"))?;
    let first_round = optional(fields.value("first_round")?)?;
    let growth = number(fields.value("growth")?)?;
    let list_limit = number(fields.value("list_limit")?)?;
    fields.end()?;
    Ok(Settings { share, memory, infill, order, mode, first_round, growth, list_limit })
}

/// The second line, of a serving engine.
pub(super) fn serving(line: &str) -> Result<serving::Settings, Reason> {
    let mut fields = Fields::new(line);
    fields.expect("serving")?;
    let pages = |word: &str| number(word).map(Pages);
    let policy = fields.value("policy")?.to_owned();
    let memory = pages(fields.value("memory")?)?;
    let machine = pages(fields.value("machine")?)?;
    let history = pages(fields.value("history")?)?;
    let fetch = pages(fields.value("fetch")?)?;
    let in_flight = number(fields.value("in_flight")?)?;
    let overlapping = number(fields.value("overlapping")?)?;
    let stream = stream::Settings {
        generation: named(fields.value("generation")?)?,
        window: pages(fields.value("window")?)?,
        aggressive: pages(fields.value("aggressive")?)?,
        slow_start: pages(fields.value("slow_start")?)?,
        congestion: named(fields.value("congestion")?)?,
        averaging: named(fields.value("averaging")?)?,
        switch_weight: number(fields.value("switch_weight")?)?,
        page_measure: named(fields.value("page_measure")?)?,
        rho: number(fields.value("rho")?)?,
        unseen_hits: number(fields.value("unseen_hits")?)?,
    };
    fields.end()?;
    Ok(serving::Settings { policy, stream, memory, machine, history, fetch, in_flight, overlapping })
}

/// A setting that is one of several words.
fn named<T: DeserializeOwned>(word: &str) -> Result<T, Reason> {
    T::deserialize(word.into_deserializer()).map_err(|error: ValueError| error.to_string())
}

/// A line with an event.
pub(super) fn event<'a>(line: &str, parts: &'a mut Parts) -> Result<(Instant, Event<'a>), Reason> {
    let mut fields = Fields::new(line);
    let now = Instant(fields.number("time")?);
    let name = fields.word("name of an event")?;
    let event = match name {
        "opened" => Event::Opened {
            stream: StreamId(fields.number("stream")?),
            object: ObjectId(fields.number("object")?),
            length: Bytes(fields.number("length")?),
            who: Who(fields.number("who")?),
            door: door(fields.word("door")?)?,
        },
        "described" => {
            let stream = StreamId(fields.number("stream")?);
            for (name, key) in parts.names.iter_mut().zip(["kind", "directory", "program"]) {
                *name = fields.text(key)?;
            }
            let [kind, directory, program] = &parts.names;
            Event::Described { stream, about: About { kind, directory, program } }
        }
        "recalled" => {
            parts.names[0] = fields.text("learnt")?;
            let device = if fields.words.clone().next().is_some() { Some(fields.measured()?) } else { None };
            Event::Recalled { learnt: &parts.names[0], device }
        }
        "closed" => Event::Closed { stream: StreamId(fields.number("stream")?) },
        "placed" => {
            let object = ObjectId(fields.number("object")?);
            fields.rest(&mut parts.extents, extent)?;
            Event::Placed { object, extents: &parts.extents }
        }
        "watched" => Event::Watched { object: ObjectId(fields.number("object")?), range: fields.bytes()? },
        "unwatched" => {
            Event::Unwatched { object: ObjectId(fields.number("object")?), range: fields.bytes()? }
        }
        "read" => Event::Read {
            request: RequestId(fields.number("request")?),
            stream: StreamId(fields.number("stream")?),
            range: fields.bytes()?,
            saw: saw(fields.word("all, misses or sampled")?)?,
            who: fields.words.next().map(number).transpose()?.map(Who),
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
            Event::Hint { mode, accesses: &parts.accesses, done }
        }
        "answered" => Event::Answered { request: RequestId(fields.number("request")?) },
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
                Event::Resident { query, runs: None }
            } else {
                fields.rest(&mut parts.runs, pages)?;
                Event::Resident { query, runs: Some(&parts.runs) }
            }
        }
        "unpinned" => {
            fields.rest(&mut parts.frames, |word| number(word).map(FrameId))?;
            Event::Unpinned { frames: &parts.frames }
        }
        "budget" => Event::Budget { pages: Pages(fields.number("pages")?) },
        "ran" => Event::Ran { who: Who(fields.number("who")?) },
        "exited" => Event::Exited { who: Who(fields.number("who")?) },
        "tick" => Event::Tick,
        other => return Err(format!("'{other}' is no event")),
    };
    fields.end()?;
    Ok((now, event))
}

/// The words of a line, in order.
#[derive(Clone)]
struct Fields<'a> {
    words: SplitAsciiWhitespace<'a>,
}

impl<'a> Fields<'a> {
    fn new(line: &'a str) -> Self {
        Self { words: line.split_ascii_whitespace() }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, Reason> {
        self.words.next().ok_or_else(|| format!("the line ends before the {what}"))
    }

    fn expect(&mut self, word: &str) -> Result<(), Reason> {
        match self.word(word)? {
            found if found == word => Ok(()),
            found => Err(format!("'{found}' should be '{word}'")),
        }
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Reason> {
        let word = self.word(what)?;
        number(word).map_err(|reason| format!("{what}: {reason}"))
    }

    /// The value of the next word, which reads `key=value`.
    fn value(&mut self, key: &str) -> Result<&'a str, Reason> {
        let word = self.word(key)?;
        let value = word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        value.ok_or_else(|| format!("'{word}' should be '{key}=...'"))
    }

    /// The same of a text that was written as one word.
    fn text(&mut self, key: &str) -> Result<String, Reason> {
        let word = self.value(key)?;
        percent::decoded(word).ok_or_else(|| format!("{key}: '{word}' is no text"))
    }

    fn measured(&mut self) -> Result<Measured, Reason> {
        let switch = Nanos(number(self.value("switch")?)?);
        let rate = Rate::bytes_per_second(number(self.value("rate")?)?);
        Measured::plausible(switch, rate).ok_or_else(|| "no device is like that".to_owned())
    }

    fn bytes(&mut self) -> Result<ByteSpan, Reason> {
        let (start, end) = range(self.word("range")?)?;
        Ok(Span::new(ByteOffset(start), ByteOffset(end)))
    }

    /// All words that are left.
    fn rest<T>(
        &mut self,
        into: &mut Vec<T>,
        mut read: impl FnMut(&str) -> Result<T, Reason>,
    ) -> Result<(), Reason> {
        into.clear();
        for word in self.words.by_ref() {
            into.push(read(word)?);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Reason> {
        self.words.next().map_or(Ok(()), |word| Err(format!("'{word}' is one word too many")))
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, Reason> {
    word.parse().map_err(|_| format!("'{word}' is no number, or too large a one"))
}

fn optional(word: &str) -> Result<Option<Pages>, Reason> {
    if word == "-" { Ok(None) } else { number(word).map(|pages| Some(Pages(pages))) }
}

fn range(word: &str) -> Result<(u64, u64), Reason> {
    let (start, end) = word.split_once("..").ok_or_else(|| format!("'{word}' is no range: START..END"))?;
    Ok((number(start)?, number(end)?))
}

fn pages(word: &str) -> Result<PageSpan, Reason> {
    range(word).map(|(start, end)| Span::new(PageIndex(start), PageIndex(end)))
}

fn extent(word: &str) -> Result<Extent, Reason> {
    let parts = word.split_once('+').and_then(|(page, rest)| Some((page, rest.split_once('@')?)));
    let (page, (pages, lba)) = parts.ok_or_else(|| format!("'{word}' is no extent: PAGE+PAGES@LBA"))?;
    Ok(Extent { page: PageIndex(number(page)?), pages: Pages(number(pages)?), lba: Lba(number(lba)?) })
}

/// An access; one without an object is of the same as the last.
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

fn door(word: &str) -> Result<Door, Reason> {
    Ok(match word {
        "kernel" => Door::Kernel,
        "fuse" => Door::Fuse,
        "fadvise" => Door::Fadvise,
        "block" => Door::Block,
        "tune" => Door::Tune,
        other => return Err(format!("'{other}' is no door")),
    })
}

fn saw(word: &str) -> Result<Saw, Reason> {
    Ok(match word {
        "all" => Saw::All,
        "misses" => Saw::Misses,
        "sampled" => Saw::Sampled,
        other => return Err(format!("'{other}' should be all, misses or sampled")),
    })
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
        "issued" => FetchOutcome::Issued,
        "failed" => FetchOutcome::Failed,
        other => return Err(format!("'{other}' should be arrived, issued or failed")),
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
