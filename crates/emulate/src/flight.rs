//! A request in flight: it is answered once its data have been moved and its time has come.

use crate::schedule::Due;
use foreseek_device::Io;
use foreseek_export::{DataReply, DoneReply, Failure};
use foreseek_storage::Buffer;
use foreseek_units::Instant;
use std::sync::{Mutex, PoisonError};

/// A request between its arrival and its answer.
pub(crate) struct Flight {
    /// The request as the model sees it.
    pub(crate) io: Io,
    /// When it reached the server.
    pub(crate) arrival: Instant,
    stage: Mutex<Stage>,
}

enum Stage {
    /// Neither.
    Moving,
    /// The data have been moved, or moving them failed.
    Moved(PreparedReply),
    /// Its time has come.
    Due(Due),
    /// It was answered.
    Ended,
}

/// What is needed to answer.
pub(crate) enum PreparedReply {
    /// A read, and its data.
    Data(DataReply, Result<Buffer, Failure>),
    /// A write, flush or discard, and its result.
    Done(DoneReply, Result<(), Failure>),
}

impl PreparedReply {
    /// Sends the answer; `failed`: the modelled device failed the request.
    pub(crate) fn send(self, failed: bool) -> Result<(), Failure> {
        let outcome = self.outcome(failed);
        match (self, outcome) {
            (Self::Data(reply, Ok(buffer)), Ok(())) => reply.data(&buffer),
            (Self::Data(reply, _), outcome) => reply.fail(outcome.err().unwrap_or(Failure::Io)),
            (Self::Done(reply, _), outcome) => reply.end(outcome),
        }
        outcome
    }

    /// The result that it will report.
    pub(crate) fn outcome(&self, failed: bool) -> Result<(), Failure> {
        match self {
            _ if failed => Err(Failure::Io),
            Self::Data(_, Err(failure)) => Err(*failure),
            Self::Data(_, Ok(_)) => Ok(()),
            Self::Done(_, result) => *result,
        }
    }
}

impl Flight {
    pub(crate) fn new(io: Io, arrival: Instant) -> Self {
        Self { io, arrival, stage: Mutex::new(Stage::Moving) }
    }

    /// The data have been moved. Returns the answer if its time has already come.
    pub(crate) fn moved(&self, answer: PreparedReply) -> Option<(PreparedReply, Due)> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match *stage {
            Stage::Due(due) => {
                *stage = Stage::Ended;
                Some((answer, due))
            }
            _ => {
                *stage = Stage::Moved(answer);
                None
            }
        }
    }

    /// Its time has come. Returns the answer if the data have already been moved.
    pub(crate) fn due(&self, due: Due) -> Option<PreparedReply> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *stage, Stage::Ended) {
            Stage::Moved(answer) => Some(answer),
            Stage::Moving => {
                *stage = Stage::Due(due);
                None
            }
            Stage::Due(_) | Stage::Ended => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_device::{IoId, Op};
    use foreseek_units::Nanos;
    use std::sync::mpsc::{Receiver, channel};

    fn due(failed: bool) -> Due {
        Due { id: IoId(1), at: Instant(5), modelled: Nanos(5), path: Nanos(0), failed }
    }

    fn write() -> (Flight, PreparedReply, Receiver<Result<(), Failure>>) {
        let io = Io { id: IoId(1), op: Op::Write, range: Default::default() };
        let (to, from) = channel();
        let reply = DoneReply::call(move |result| to.send(result).expect("heard"));
        (Flight::new(io, Instant(0)), PreparedReply::Done(reply, Ok(())), from)
    }

    #[test]
    fn the_later_of_data_and_time_gets_the_answer() {
        let (flight, answer, from) = write();
        assert!(flight.moved(answer).is_none());
        assert_eq!(flight.due(due(false)).expect("both are there").send(false), Ok(()));
        assert_eq!(from.recv(), Ok(Ok(())));

        let (flight, answer, from) = write();
        assert!(flight.due(due(true)).is_none());
        let (answer, due) = flight.moved(answer).expect("both are there");
        assert_eq!(answer.send(due.failed), Err(Failure::Io));
        assert_eq!(from.recv(), Ok(Err(Failure::Io)));
    }

    #[test]
    fn a_time_that_comes_twice_answers_once() {
        let (flight, answer, from) = write();
        assert!(flight.moved(answer).is_none());
        flight.due(due(false)).map(|answer| answer.send(false)).expect("both are there").expect("done");
        assert!(flight.due(due(false)).is_none());
        assert_eq!(from.iter().count(), 1);
    }
}
