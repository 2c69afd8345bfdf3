//! Feeds a recording's events to an engine and compares its commands.

use super::fields::{Fields, Reason};
use super::read::{self, Parts};
use super::{COMMAND, CUT, Header, Line};
use crate::{Command, Commands, Engine};
use foreseek_units::Instant;
use std::iter::{Enumerate, Peekable};
use std::str::Lines;

/// Why a replay ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error("recording, line {line}: {reason}")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A command of the engine differs from the recorded one.
    #[error(
        "recording, line {line}: at {} ns, event {event}, the engine was recorded to answer {}, and answers {}",
        at.get(), shown(recorded), shown(replayed)
    )]
    Mismatch {
        /// The line of the first difference, counted from 1.
        line: usize,
        /// The number of the event that it answers, counted from 0.
        event: usize,
        /// The time of the event.
        at: Instant,
        /// The recorded command.
        recorded: Option<String>,
        /// The engine's command.
        replayed: Option<String>,
    },
}

fn shown(command: &Option<String>) -> String {
    command.as_ref().map_or("nothing more".to_owned(), |command| format!("'{command}'"))
}

/// The compared items, all of them equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events sent.
    pub events: usize,
    /// Commands compared.
    pub commands: usize,
    /// Whether the recording was cut at its limit; the recorded part is equal.
    pub cut: bool,
}

/// A recording whose first lines are parsed.
#[derive(Clone, Debug)]
pub struct Recording<'a, S> {
    settings: S,
    lines: Enumerate<Lines<'a>>,
}

impl<'a, S: Header> Recording<'a, S> {
    /// Reads the format and the settings of an engine.
    ///
    /// # Errors
    /// The text is not a recording, or one of another version or engine.
    pub fn open(text: &'a str) -> Result<Self, ReplayError> {
        let mut lines = text.lines().enumerate();
        let malformed = |line: usize| move |reason: Reason| ReplayError::Malformed { line, reason };
        let mut head =
            |what: &str| lines.next().ok_or_else(|| format!("the recording ends before its {what}"));
        head("first line").and_then(|(_, line)| read::format(line)).map_err(malformed(1))?;
        let settings = head("settings").and_then(|(_, line)| header(line)).map_err(malformed(2))?;
        Ok(Self { settings, lines })
    }

    /// The settings of the recorded engine.
    #[must_use]
    pub fn settings(&self) -> &S {
        &self.settings
    }
}

/// The second line.
fn header<S: Header>(line: &str) -> Result<S, Reason> {
    let mut fields = Fields::new(line);
    let settings = S::read(&mut fields)?;
    fields.end()?;
    Ok(settings)
}

/// An engine that is given the events of a recording.
pub trait Replay {
    /// Its commands.
    type Command: Line;

    /// Reads an event, without its time, and handles it. The resulting commands are added to `out`. A line with more words
    /// than its event is refused.
    ///
    /// # Errors
    /// The reason why it cannot be read. The engine has not got it then.
    fn replay(
        &mut self,
        now: Instant,
        event: &mut Fields<'_>,
        out: &mut Vec<Self::Command>,
    ) -> Result<(), Reason>;
}

/// An [`Engine`], and memory for what its events borrow.
struct Common<'a> {
    engine: &'a mut dyn Engine,
    parts: Parts,
    out: Commands,
}

impl Replay for Common<'_> {
    type Command = Command;

    fn replay(&mut self, now: Instant, event: &mut Fields<'_>, out: &mut Vec<Command>) -> Result<(), Reason> {
        let what = read::event(event, &mut self.parts)?;
        event.end()?;
        self.engine.on(now, what, &mut self.out);
        out.extend(self.out.drain());
        Ok(())
    }
}

/// Sends an engine the recorded events, at the same times, and compares its commands one by one with the
/// recorded ones.
///
/// # Errors
/// At the first line that cannot be read, or command that differs.
pub fn replay<S>(engine: &mut dyn Engine, recording: &Recording<'_, S>) -> Result<Replayed, ReplayError> {
    let mut common = Common { engine, parts: Parts::default(), out: Commands::new() };
    replay_with(&mut common, recording)
}

/// The same for an engine with events and commands of its own.
///
/// # Errors
/// As [`replay`].
pub fn replay_with<S, E: Replay>(
    engine: &mut E,
    recording: &Recording<'_, S>,
) -> Result<Replayed, ReplayError> {
    let mut lines = recording.lines.clone().peekable();
    let mut out = Vec::new();
    let mut replayed = Replayed::default();
    let mut last = Instant::ZERO;
    while let Some((index, text)) = lines.next() {
        let line = index + 1;
        if text == CUT {
            replayed.cut = true;
            break;
        }
        let malformed = |reason: String| ReplayError::Malformed { line, reason };
        let mut fields = Fields::new(text);
        let now = fields.number("time").map(Instant).map_err(malformed)?;
        if now < last {
            return Err(malformed(format!("time runs backwards, from {} to {} ns", last.get(), now.get())));
        }
        last = now;
        out.clear();
        engine.replay(now, &mut fields, &mut out).map_err(malformed)?;
        // A recording that was cut may lack this event's commands.
        if lines.peek().is_none_or(|(_, next)| *next != CUT) {
            compare(&mut lines, line, now, &out, &mut replayed)?;
        }
        replayed.events += 1;
    }
    Ok(replayed)
}

/// Compares the commands that answer the event on `line`.
fn compare(
    lines: &mut Peekable<Enumerate<Lines<'_>>>,
    line: usize,
    at: Instant,
    said: &[impl Line],
    replayed: &mut Replayed,
) -> Result<(), ReplayError> {
    let event = replayed.events;
    let mut said = said.iter();
    let mut written = String::new();
    let mut line = line;
    loop {
        let recorded = lines.next_if(|(_, text)| text.starts_with(COMMAND)).map(|(index, text)| {
            line = index + 1;
            &text[COMMAND.len()..]
        });
        written.clear();
        let now = said.next().map(|command| {
            command.write(&mut written);
            written.as_str()
        });
        if recorded != now {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            return Err(ReplayError::Mismatch {
                line,
                event,
                at,
                recorded: owned(recorded),
                replayed: owned(now),
            });
        }
        if recorded.is_none() {
            return Ok(());
        }
        replayed.commands += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Access, Command, Destination, Epoch, Event, Extent, FetchId, FetchOutcome, FrameId, HintCommand,
        HintEvent, HintMode, Measured, ObjectId, ProcessId, QueryId, Refusal, RequestId, ServingCommand,
        ServingEvent, StreamId, StreamInfo, Urgency,
    };
    use foreseek_units::{ByteOffset, ByteSpan, Bytes, Lba, Nanos, PageIndex, Pages, Rate, Span};

    const HEAD: &str = "foreseek-recording 2\nnothing\n";

    /// The settings of an engine that has none.
    #[derive(Clone, Debug, PartialEq)]
    struct Nothing;

    impl Header for Nothing {
        fn write(&self, line: &mut String) {
            line.push_str("nothing");
        }

        fn read(fields: &mut Fields<'_>) -> Result<Self, Reason> {
            fields.expect("nothing").map(|()| Self)
        }
    }

    /// Emits the same commands for any event.
    struct Parrot(Vec<Command>);

    impl Engine for Parrot {
        fn on(&mut self, _now: Instant, _event: Event<'_>, out: &mut Commands) {
            self.0.iter().for_each(|command| out.push(command.clone()));
        }

        fn deadline(&self) -> Option<Instant> {
            None
        }
    }

    fn try_replay(lines: &str, commands: Vec<Command>) -> Result<Replayed, ReplayError> {
        let text = format!("{HEAD}{lines}");
        replay(&mut Parrot(commands), &Recording::<Nothing>::open(&text)?)
    }

    #[test]
    fn every_event_is_read_as_it_was_written() {
        let bytes: ByteSpan = Span::new(ByteOffset(1), ByteOffset(9000));
        let extents = [Extent { page: PageIndex(0), pages: Pages(3), lba: Lba(8) }];
        let access = |object, page, mark| Access { object: ObjectId(object), page: PageIndex(page), mark };
        let accesses = [access(1, 2, false), access(1, 3, true), access(u64::MAX, 3, false)];
        let device = Measured { positioning: Nanos(10_500_001), rate: Rate::bytes_per_second(51.2e6 / 3.0) };
        let runs = [Span::new(PageIndex(1), PageIndex(2)), Span::new(PageIndex(4), PageIndex(9))];
        let events = [
            Event::Opened { stream: StreamId(1), object: ObjectId(2), length: Bytes(3), pid: ProcessId(4) },
            Event::Serving(ServingEvent::Described {
                stream: StreamId(1),
                about: StreamInfo { kind: "mp4", directory: "/a b/%c", program: "" },
            }),
            Event::Serving(ServingEvent::Restored {
                learnt: "foreseek-learnt 1\nclass seen=3\n",
                device: None,
            }),
            Event::Serving(ServingEvent::Restored { learnt: "", device: Some(device) }),
            Event::Serving(ServingEvent::Called { stream: StreamId(1), range: bytes }),
            Event::Closed { stream: StreamId(1) },
            Event::Placed { object: ObjectId(2), extents: &extents },
            Event::Placed { object: ObjectId(2), extents: &[] },
            Event::Hint(HintEvent::Watched { object: ObjectId(2), range: bytes }),
            Event::Hint(HintEvent::Unwatched { object: ObjectId(2), range: bytes }),
            Event::Read { request: RequestId(7), stream: StreamId(1), range: bytes, pid: None },
            Event::Read { request: RequestId(8), stream: StreamId(1), range: bytes, pid: Some(ProcessId(4)) },
            Event::Resized { object: ObjectId(2), length: Bytes(5) },
            Event::Hint(HintEvent::Hinted { mode: HintMode::SetFromMark, accesses: &accesses, done: false }),
            Event::Hint(HintEvent::Hinted { mode: HintMode::Append, accesses: &[], done: true }),
            Event::Hint(HintEvent::Answered { request: RequestId(7) }),
            Event::Done {
                fetch: FetchId(1),
                epoch: Epoch(2),
                got: Pages(3),
                outcome: FetchOutcome::Failed,
                in_flight: 4,
            },
            Event::Refused { fetch: FetchId(1), why: Refusal::Unsupported },
            Event::Changed { object: ObjectId(2), range: bytes, epoch: Epoch(u32::MAX) },
            Event::Hint(HintEvent::Resident { query: QueryId(5), runs: None }),
            Event::Hint(HintEvent::Resident { query: QueryId(5), runs: Some(&[]) }),
            Event::Hint(HintEvent::Resident { query: QueryId(5), runs: Some(&runs) }),
            Event::Serving(ServingEvent::Unpinned { frames: &[FrameId(1), FrameId(2)] }),
            Event::Budget { pages: Pages(1000) },
            Event::Serving(ServingEvent::Ran { pid: ProcessId(4) }),
            Event::Serving(ServingEvent::Exited { pid: ProcessId(4) }),
            Event::Tick,
        ];
        let mut parts = Parts::default();
        for event in &events {
            let mut line = String::new();
            event.write(&mut line);
            let mut fields = Fields::new(&line);
            assert_eq!(read::event(&mut fields, &mut parts), Ok(event.clone()), "{line}");
            assert_eq!(fields.end(), Ok(()), "{line}");
        }
    }

    #[test]
    fn recordings_of_earlier_releases_name_the_positioning_time_switch() {
        let event = |key: &str| {
            let line = format!("recalled learnt= {key}=10500001 rate=17000000");
            format!("{:?}", read::event(&mut Fields::new(&line), &mut Parts::default()))
        };
        assert!(event("positioning").starts_with("Ok"), "{}", event("positioning"));
        assert_eq!(event("switch"), event("positioning"));
        assert_eq!(event("seek"), "Err(\"'seek=10500001' should be 'positioning=...'\")");
    }

    #[test]
    fn commands_are_written_each_in_its_own_way() {
        let commands = [
            Command::Fetch {
                fetch: FetchId(1),
                object: ObjectId(2),
                range: Span::new(PageIndex(3), PageIndex(4)),
                epoch: Epoch(5),
                into: Destination::Frames(vec![FrameId(6), FrameId(4)]),
                urgency: Urgency::Demand,
                apart: true,
            },
            Command::Fetch {
                fetch: FetchId(2),
                object: ObjectId(2),
                range: Span::new(PageIndex(3), PageIndex(4)),
                epoch: Epoch(5),
                into: Destination::PageCache,
                urgency: Urgency::Prefetch,
                apart: false,
            },
            Command::Serving(ServingCommand::Serve { request: RequestId(1), frames: vec![FrameId(2)] }),
            Command::Serving(ServingCommand::Fail { request: RequestId(3), fetch: FetchId(4) }),
            Command::Pass { request: RequestId(1) },
            Command::Hint(HintCommand::Callback {
                request: RequestId(1),
                marked: None,
                requested: (ObjectId(2), PageIndex(3)),
            }),
            Command::Serving(ServingCommand::Drop { frames: vec![FrameId(1), FrameId(2)] }),
            Command::Hint(HintCommand::Forget {
                object: ObjectId(2),
                range: Span::new(PageIndex(3), PageIndex(4)),
            }),
            Command::Hint(HintCommand::AskResident {
                query: QueryId(1),
                object: ObjectId(2),
                range: Span::new(PageIndex(3), PageIndex(4)),
            }),
        ];
        let lines = "5 tick\n> fetch 1 2 3..4 5 frames:6,4 demand apart\n> fetch 2 2 3..4 5 cache prefetch\n\
            > serve 1 2\n> fail 3 4\n> pass 1\n> want 1 - 2:3\n> drop 1 2\n> forget 2 3..4\n> ask 1 2 3..4\n";
        let equal = Replayed { events: 1, commands: 9, cut: false };
        assert_eq!(try_replay(lines, commands.to_vec()), Ok(equal));
    }

    #[test]
    fn the_first_difference_is_named_with_its_line_event_and_time() {
        let commands = vec![Command::Pass { request: RequestId(1) }];
        let error = try_replay("5 tick\n> pass 1\n6 tick\n> pass 2\n7 tick\n", commands.clone());
        assert_eq!(
            error.map_err(|error| error.to_string()),
            Err(
                "recording, line 6: at 6 ns, event 1, the engine was recorded to answer 'pass 2', and answers \
                 'pass 1'"
                    .to_owned()
            )
        );
        for (lines, line) in [("5 tick\n6 tick\n", 3), ("5 tick\n> pass 1\n> pass 1\n", 5)] {
            let Err(ReplayError::Mismatch { line: at, .. }) = try_replay(lines, commands.clone()) else {
                panic!("{lines} is taken for equal");
            };
            assert_eq!(at, line);
        }
    }

    #[test]
    fn a_malformed_line_is_named_with_its_reason() {
        for (line, reason) in [
            ("tick", "time: 'tick' is no number, or too large a one"),
            ("5", "the line ends before the name of an event"),
            ("5 jump", "'jump' is no event"),
            ("5 tick tock", "'tock' is one word too many"),
            ("5 budget -3", "pages: '-3' is no number, or too large a one"),
            ("5 read 1 2 3", "'3' is no range: START..END"),
            ("5 hint set done 12", "'12' names no object, and none was named before"),
            ("5 placed 1 2+3", "'2+3' is no extent: PAGE+PAGES@LBA"),
            ("5 ran 99999999999", "pid: '99999999999' is no number, or too large a one"),
            ("4 tick", "time runs backwards, from 5 to 4 ns"),
            ("> pass 1", "time: '>' is no number, or too large a one"),
        ] {
            let before = if line.starts_with('>') { "" } else { "5 tick\n" };
            let error = try_replay(&format!("{before}{line}\n"), Vec::new());
            let at = if before.is_empty() { 3 } else { 4 };
            assert_eq!(error, Err(ReplayError::Malformed { line: at, reason: reason.to_owned() }), "{line}");
        }
        for (text, line) in
            [("", 1), ("blkparse 1\n", 1), ("foreseek-recording 1\n", 1), ("foreseek-recording 2\n", 2)]
        {
            let Err(ReplayError::Malformed { line: at, .. }) = Recording::<Nothing>::open(text) else {
                panic!("{text} is taken for a recording");
            };
            assert_eq!(at, line);
        }
    }
}
