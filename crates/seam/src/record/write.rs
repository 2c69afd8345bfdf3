//! Lines of a recording. Writing to a string cannot fail, so the results of `write!` are dropped.

use super::Line;
use crate::{
    Command, Destination, Event, Extent, FetchOutcome, FrameId, HintCommand, HintEvent, HintMode, Refusal,
    ServingCommand, ServingEvent, StreamInfo, Urgency, percent,
};
use foreseek_units::{ByteSpan, PageSpan};
use std::fmt::Write;

impl Line for Event<'_> {
    fn write(&self, line: &mut String) {
        let _ = match self {
            Event::Opened { stream, object, length, pid } => {
                write!(line, "opened {} {} {} {}", stream.0, object.0, length.0, pid.0)
            }
            Event::Serving(ServingEvent::Described {
                stream,
                about: StreamInfo { kind, directory, program },
            }) => {
                let [kind, directory, program] = [kind, directory, program].map(percent::encoded);
                write!(line, "described {} kind={kind} directory={directory} program={program}", stream.0)
            }
            Event::Serving(ServingEvent::Restored { learnt, device }) => {
                let learnt = percent::encoded(learnt);
                let _ = write!(line, "recalled learnt={learnt}");
                device.iter().try_for_each(|device| {
                    write!(
                        line,
                        " positioning={} rate={}",
                        device.positioning.0,
                        device.rate.as_bytes_per_second()
                    )
                })
            }
            Event::Serving(ServingEvent::Called { stream, range }) => {
                write!(line, "called {} {}", stream.0, span(*range))
            }
            Event::Closed { stream } => write!(line, "closed {}", stream.0),
            Event::Placed { object, extents } => {
                let _ = write!(line, "placed {}", object.0);
                words(line, extents.iter());
                Ok(())
            }
            Event::Hint(HintEvent::Watched { object, range }) => {
                write!(line, "watched {} {}", object.0, span(*range))
            }
            Event::Hint(HintEvent::Unwatched { object, range }) => {
                write!(line, "unwatched {} {}", object.0, span(*range))
            }
            Event::Read { request, stream, range, pid } => {
                let _ = write!(line, "read {} {} {}", request.0, stream.0, span(*range));
                pid.iter().try_for_each(|pid| write!(line, " {}", pid.0))
            }
            Event::Hint(HintEvent::Hinted { mode, accesses, done }) => {
                let _ = write!(line, "hint {} {}", mode_name(*mode), if *done { "done" } else { "more" });
                let mut last = None;
                accesses.iter().try_for_each(|access| {
                    line.push(' ');
                    if last != Some(access.object) {
                        let _ = write!(line, "{}:", access.object.0);
                    }
                    last = Some(access.object);
                    write!(line, "{}{}", access.page.0, if access.mark { "*" } else { "" })
                })
            }
            Event::Hint(HintEvent::Answered { request }) => write!(line, "answered {}", request.0),
            Event::Done { fetch, epoch, got, outcome, in_flight } => {
                let outcome = match outcome {
                    FetchOutcome::Arrived => "arrived",
                    FetchOutcome::FromMemory => "from-memory",
                    FetchOutcome::Issued => "issued",
                    FetchOutcome::Failed => "failed",
                };
                write!(line, "done {} {} {} {outcome} {in_flight}", fetch.0, epoch.0, got.0)
            }
            Event::Refused { fetch, why } => {
                let why = match why {
                    Refusal::Busy => "busy",
                    Refusal::Unsupported => "unsupported",
                    Refusal::Gone => "gone",
                };
                write!(line, "refused {} {why}", fetch.0)
            }
            Event::Changed { object, range, epoch } => {
                write!(line, "changed {} {} {}", object.0, span(*range), epoch.0)
            }
            Event::Resized { object, length } => write!(line, "resized {} {}", object.0, length.0),
            Event::Hint(HintEvent::Resident { query, runs: None }) => {
                write!(line, "resident {} unknown", query.0)
            }
            Event::Hint(HintEvent::Resident { query, runs: Some(runs) }) => {
                let _ = write!(line, "resident {}", query.0);
                words(line, runs.iter());
                Ok(())
            }
            Event::Serving(ServingEvent::Unpinned { frames }) => write!(line, "unpinned{}", list(frames)),
            Event::Budget { pages } => write!(line, "budget {}", pages.0),
            Event::Serving(ServingEvent::Ran { pid }) => write!(line, "ran {}", pid.0),
            Event::Serving(ServingEvent::Exited { pid }) => write!(line, "exited {}", pid.0),
            Event::Tick => write!(line, "tick"),
        };
    }
}

impl Line for Command {
    fn write(&self, line: &mut String) {
        let _ = match self {
            Command::Fetch { fetch, object, range, epoch, into, urgency, apart } => {
                let into = match into {
                    Destination::PageCache => "cache".to_owned(),
                    Destination::Frames(frames) => {
                        format!("frames:{}", list(frames).trim_start().replace(' ', ","))
                    }
                };
                let urgency = match urgency {
                    Urgency::Demand => "demand",
                    Urgency::Prefetch => "prefetch",
                };
                let apart = if *apart { " apart" } else { "" };
                write!(
                    line,
                    "fetch {} {} {} {} {into} {urgency}{apart}",
                    fetch.0,
                    object.0,
                    span(*range),
                    epoch.0
                )
            }
            Command::Serving(ServingCommand::Serve { request, frames }) => {
                write!(line, "serve {}{}", request.0, list(frames))
            }
            Command::Serving(ServingCommand::Fail { request, fetch }) => {
                write!(line, "fail {} {}", request.0, fetch.0)
            }
            Command::Pass { request } => write!(line, "pass {}", request.0),
            Command::Hint(HintCommand::Callback { request, marked, requested }) => {
                let marked =
                    marked.map_or("-".to_owned(), |(object, page)| format!("{}:{}", object.0, page.0));
                write!(line, "want {} {marked} {}:{}", request.0, requested.0.0, requested.1.0)
            }
            Command::Serving(ServingCommand::Drop { frames }) => write!(line, "drop{}", list(frames)),
            Command::Hint(HintCommand::Forget { object, range }) => {
                write!(line, "forget {} {}", object.0, span(*range))
            }
            Command::Hint(HintCommand::AskResident { query, object, range }) => {
                write!(line, "ask {} {} {}", query.0, object.0, span(*range))
            }
        };
    }
}

impl Line for Extent {
    fn write(&self, line: &mut String) {
        let _ = write!(line, "{}+{}@{}", self.page.0, self.pages.0, self.lba.0);
    }
}

impl Line for PageSpan {
    fn write(&self, line: &mut String) {
        let _ = write!(line, "{}..{}", self.start.0, self.end.0);
    }
}

impl Line for ByteSpan {
    fn write(&self, line: &mut String) {
        let _ = write!(line, "{}..{}", self.start.0, self.end.0);
    }
}

/// Adds them as words, each after a space.
pub fn words<'a, T: Line + 'a>(line: &mut String, all: impl IntoIterator<Item = &'a T>) {
    for one in all {
        line.push(' ');
        one.write(line);
    }
}

fn span(span: impl Line) -> String {
    let mut word = String::new();
    span.write(&mut word);
    word
}

fn list(frames: &[FrameId]) -> String {
    frames.iter().map(|frame| format!(" {}", frame.0)).collect()
}

fn mode_name(mode: HintMode) -> &'static str {
    match mode {
        HintMode::Set => "set",
        HintMode::Append => "append",
        HintMode::SetFromMark => "from-mark",
    }
}
