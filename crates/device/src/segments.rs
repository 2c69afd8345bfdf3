//! The buffer of a disk: segments with data that were read, and the stream that reads ahead.
//!
//! After a read the disk reads ahead until the segment is full, as long as the head is not needed elsewhere.
//! The *stream* is that reading: it began at a time and position of the sequential pass, so that its progress
//! is a function of time and costs nothing to keep. A hit does not disturb it. A hit advances the stream's
//! limit, since a segment is a ring that keeps the data behind the reader only while there is room. A reader
//! of small requests therefore runs at the media's rate.
//!
//! A full segment stops the stream with the head on its track. The stream resumes when half of the segment
//! has been consumed, so that it does not lose a revolution for each request.
//!
//! Source: Ruemmler and Wilkes 1994 (read-ahead cache); the ring and the half are our choices.

use crate::geometry::Geometry;
use foreseek_units::{Instant, Lba, Nanos, SectorSpan, Sectors, Span};

/// One segment: a range of sectors in the buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    held: SectorSpan,
    used: u64,
}

/// Reading ahead: the head passes over sectors one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriveReadAhead {
    segment: usize,
    /// When its first sector began to pass; may be in the future by a rotational wait.
    began: Instant,
    /// The time of that sector in the sequential pass.
    origin: Nanos,
    /// Where it stops.
    limit: Lba,
    /// The end of the last request that it answered.
    consumed: Lba,
}

/// The part of a range in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Not its first sector.
    Nothing,
    /// The sectors before this one; the rest has to be read.
    UpTo(Lba),
    /// All of it.
    All,
}

/// The segments and the stream.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    segments: Vec<Segment>,
    size: Sectors,
    stream: Option<DriveReadAhead>,
    uses: u64,
}

impl DriveReadAhead {
    /// When the last sector before `end` has been read, if the stream continues that far.
    pub(crate) fn passed_at(&self, geometry: &Geometry, end: Lba) -> Instant {
        self.began + (geometry.passed_at(end) - self.origin)
    }

    /// When the sector that passes at `passes` of the sequential pass comes, if the stream continues that
    /// far.
    pub(crate) fn comes_at(&self, passes: Nanos) -> Instant {
        self.began + (passes - self.origin)
    }

    /// The first sector that is not yet read at `now`.
    pub(crate) fn reached(&self, geometry: &Geometry, now: Instant) -> Lba {
        geometry.reached_at(self.origin + (now - self.began)).min(self.limit)
    }

    /// Where it stops unless more is consumed.
    pub(crate) fn limit(&self) -> Lba {
        self.limit
    }

    /// The end of the last request that it answered.
    pub(crate) fn consumed(&self) -> Lba {
        self.consumed
    }
}

impl Buffer {
    /// `segments` of `size` each; zero of either switches buffering and read-ahead off.
    pub(crate) fn new(segments: usize, size: Sectors) -> Self {
        let segments = if size.is_zero() { 0 } else { segments };
        Self { segments: vec![Segment::default(); segments], size, stream: None, uses: 0 }
    }

    /// The current reading ahead, if any.
    pub(crate) fn stream(&self) -> Option<&DriveReadAhead> {
        self.stream.as_ref()
    }

    /// The contents of the stream's segment at `now`.
    pub(crate) fn streamed(&self, geometry: &Geometry, now: Instant) -> SectorSpan {
        self.stream.as_ref().map_or(Span::default(), |stream| {
            let end = stream.reached(geometry, now);
            let held = self.segments[stream.segment].held;
            Span::new(held.start.max(end - self.size).min(end), end)
        })
    }

    /// The part of a range in the segments at `now`, and whether it is in the stream's.
    pub(crate) fn held(&self, geometry: &Geometry, now: Instant, range: SectorSpan) -> (Held, bool) {
        let of = |held: SectorSpan| match () {
            () if held.covers(range) => Held::All,
            () if held.contains(range.start) => Held::UpTo(held.end),
            () => Held::Nothing,
        };
        if self.stream.is_some() {
            let held = of(self.streamed(geometry, now));
            if held != Held::Nothing {
                return (held, true);
            }
        }
        let streaming = self.stream.map(|stream| stream.segment);
        let others = self.segments.iter().enumerate().filter(|(at, _)| Some(*at) != streaming);
        let mut best = Held::Nothing;
        for (_, segment) in others {
            match (of(segment.held), best) {
                (Held::All, _) => return (Held::All, false),
                (Held::UpTo(end), Held::UpTo(other)) if end <= other => {}
                (Held::UpTo(end), _) => best = Held::UpTo(end),
                _ => {}
            }
        }
        (best, false)
    }

    /// Begins to read at `from`: the first sector passes at `began`. The stream continues to `limit`.
    pub(crate) fn begin(&mut self, geometry: &Geometry, began: Instant, from: Lba, end: Lba, limit: Lba) {
        debug_assert!(self.stream.is_none(), "a stream begins where the one before was ended");
        if self.segments.is_empty() {
            return;
        }
        let joins = |segment: &Segment| !segment.held.is_empty() && segment.held.end == from;
        let segment = self.segments.iter().position(joins).unwrap_or_else(|| self.take_oldest(from));
        let origin = geometry.passes_at(from);
        self.stream = Some(DriveReadAhead { segment, began, origin, limit, consumed: end });
        self.touch(segment);
    }

    fn take_oldest(&mut self, from: Lba) -> usize {
        let oldest = self.segments.iter().enumerate().min_by_key(|(_, segment)| segment.used);
        let at = oldest.map_or(0, |(at, _)| at);
        self.segments[at].held = Span::new(from, from);
        at
    }

    fn touch(&mut self, segment: usize) {
        self.uses += 1;
        self.segments[segment].used = self.uses;
    }

    /// A request up to `end` was answered by the stream, which may continue to `limit`.
    pub(crate) fn consume(&mut self, end: Lba, limit: Lba) {
        if let Some(stream) = &mut self.stream {
            stream.consumed = end;
            stream.limit = stream.limit.max(limit);
            let segment = stream.segment;
            self.touch(segment);
        }
    }

    /// Ends the stream at `now`; returns the first sector that it did not read.
    pub(crate) fn end(&mut self, geometry: &Geometry, now: Instant) -> Option<Lba> {
        let held = self.streamed(geometry, now);
        let stream = self.stream.take()?;
        self.segments[stream.segment].held = held;
        Some(held.end)
    }

    /// The size of a segment.
    pub(crate) fn segment_size(&self) -> Sectors {
        self.size
    }

    /// Whether the data just before a sector are in the buffer.
    pub(crate) fn follows(&self, geometry: &Geometry, now: Instant, start: Lba) -> bool {
        let ends = |held: SectorSpan| !held.is_empty() && held.end == start;
        ends(self.streamed(geometry, now)) || self.segments.iter().any(|segment| ends(segment.held))
    }

    /// Keeps a range that did not come from a stream. The stream must have ended.
    pub(crate) fn hold(&mut self, range: SectorSpan) {
        if self.segments.is_empty() || range.is_empty() {
            return;
        }
        let at = self.take_oldest(range.start);
        self.segments[at].held = Span::new(range.start.max(range.end - self.size), range.end);
        self.touch(at);
    }

    /// Whether `more` sectors are enough for a stopped stream to resume.
    pub(crate) fn worth_resuming(&self, more: Sectors) -> bool {
        more * 2 >= self.size
    }

    /// Drops data that a write changes. The stream must have ended.
    pub(crate) fn forget(&mut self, range: SectorSpan) {
        for segment in self.segments.iter_mut().filter(|segment| segment.held.overlaps(range)) {
            let before = Span::new(segment.held.start, range.start);
            let after = Span::new(range.end, segment.held.end);
            segment.held = if before.is_empty() { after } else { before };
            if segment.held.is_empty() {
                segment.held = Span::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Rules, SwitchTimes, ZoneShape};

    /// One sector per microsecond, no switches: times are sectors.
    fn geometry() -> Geometry {
        let switch = SwitchTimes::new(Nanos::ZERO, Nanos::ZERO);
        Geometry::new(&Rules::plain(1, Nanos(1_000_000), switch), &[ZoneShape::plain(100, 1000)])
    }

    fn span(start: u64, end: u64) -> SectorSpan {
        Span::new(Lba(start), Lba(end))
    }

    fn at(us: u64) -> Instant {
        Instant(us * 1000)
    }

    #[test]
    fn the_stream_reads_on_to_its_limit_and_keeps_a_segment() {
        let geometry = geometry();
        let mut buffer = Buffer::new(2, Sectors(100));
        buffer.begin(&geometry, at(500), Lba(200), Lba(210), Lba(310));
        // Until then it waits for its first sector.
        assert_eq!(buffer.streamed(&geometry, at(400)), span(200, 200));
        assert_eq!(buffer.streamed(&geometry, at(550)), span(200, 250));
        assert_eq!(buffer.streamed(&geometry, at(9000)), span(210, 310));
        // Consumption advances the limit; data a segment behind are gone.
        buffer.consume(Lba(300), Lba(400));
        assert_eq!(buffer.streamed(&geometry, at(690)), span(290, 390));
        assert_eq!(buffer.held(&geometry, at(690), span(300, 390)), (Held::All, true));
        assert_eq!(buffer.held(&geometry, at(690), span(380, 395)), (Held::UpTo(Lba(390)), true));
        assert_eq!(buffer.held(&geometry, at(690), span(280, 295)).0, Held::Nothing);
        assert_eq!(buffer.end(&geometry, at(650)), Some(Lba(350)));
        assert_eq!(buffer.held(&geometry, at(9000), span(260, 350)), (Held::All, false));
    }

    #[test]
    fn a_stream_that_continues_where_one_ended_takes_its_segment_and_others_the_oldest() {
        let geometry = geometry();
        let mut buffer = Buffer::new(2, Sectors(100));
        for (began, from) in [(0, 0), (100, 5000)] {
            buffer.begin(&geometry, at(began), Lba(from), Lba(from + 10), Lba(from + 110));
            buffer.end(&geometry, at(began + 50));
        }
        buffer.begin(&geometry, at(1000), Lba(50), Lba(60), Lba(150));
        buffer.end(&geometry, at(1010));
        assert_eq!(buffer.held(&geometry, at(1010), span(0, 60)).0, Held::All);
        assert_eq!(buffer.held(&geometry, at(1010), span(5000, 5050)).0, Held::All);
        // A third position replaces the least recently used one.
        buffer.begin(&geometry, at(2000), Lba(9000), Lba(9010), Lba(9100));
        assert_eq!(buffer.held(&geometry, at(2020), span(5000, 5050)).0, Held::Nothing);
        assert_eq!(buffer.held(&geometry, at(2020), span(0, 60)).0, Held::All);
    }

    #[test]
    fn a_write_drops_the_data_that_it_changes() {
        let geometry = geometry();
        let holding = |written: SectorSpan| {
            let mut buffer = Buffer::new(1, Sectors(100));
            buffer.begin(&geometry, at(0), Lba(0), Lba(10), Lba(100));
            buffer.end(&geometry, at(100));
            buffer.forget(written);
            buffer
        };
        let held = |buffer: &Buffer, range| buffer.held(&geometry, at(0), range).0;
        assert_eq!(held(&holding(span(40, 50)), span(0, 40)), Held::All);
        assert_eq!(held(&holding(span(40, 50)), span(39, 41)), Held::UpTo(Lba(40)));
        assert_eq!(held(&holding(span(0, 50)), span(50, 100)), Held::All);
        assert_eq!(held(&holding(span(0, 100)), span(10, 20)), Held::Nothing);
        assert_eq!(held(&holding(span(100, 200)), span(0, 100)), Held::All);
    }

    #[test]
    fn without_segments_nothing_is_held_and_nothing_streams() {
        let geometry = geometry();
        for mut buffer in [Buffer::new(0, Sectors(100)), Buffer::new(8, Sectors(0))] {
            buffer.begin(&geometry, at(0), Lba(0), Lba(10), Lba(100));
            assert!(buffer.stream().is_none());
            assert_eq!(buffer.held(&geometry, at(50), span(0, 1)).0, Held::Nothing);
            assert_eq!(buffer.end(&geometry, at(50)), None);
        }
    }
}
