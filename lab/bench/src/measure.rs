//! One run: the readers work on a set-up with the disk's delays on; the figures are taken when the readers
//! report.

use crate::cell::Cell;
use crate::options::Options;
use crate::policy::{Policy, ReadAhead};
use crate::reader::{Counted, Job, ReaderMessage, Task};
use crate::record::Measured;
use crate::setup::{Environment, Setup};
use crate::{Error, Result};
use foreseek_rig::queue::Queue;
use foreseek_rig::{POLL, Running, processor_time};
use foreseek_units::{Bytes, Nanos};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How much longer than planned readers may take: looking up 6000 files through two file systems, and the
/// slowest requests of a full queue.
const GRACE: Duration = Duration::from_secs(60);

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct What<'a> {
    pub(crate) cell: Cell,
    pub(crate) policy: &'a Policy,
    pub(crate) seed: u64,
}

/// The readers' process and its messages.
struct Readers {
    running: Running,
    to: Option<ChildStdin>,
    messages: Receiver<ReaderMessage>,
}

impl Environment<'_> {
    /// Makes a run.
    pub(crate) fn run(
        &self,
        what: What<'_>,
        options: &Options,
        queue: &mut Queue,
        depth: Bytes,
    ) -> Result<Measured> {
        queue.set_scheduler(what.cell.scheduler())?;
        let read_ahead = match what.policy {
            Policy::Linux(setting) => *setting,
            _ => ReadAhead::Default,
        };
        queue.set_read_ahead(read_ahead.size(depth))?;
        let mut setup = self.setup(what.policy)?;
        let measured = self.measure(what, options, &mut setup);
        // In any case: the rest of the run is faster without them.
        self.disk.set_delays(false)?;
        let mut measured = measured?;
        measured.reader_memory_bytes = setup.readers.usage().peak.get();
        setup.end()?;
        Ok(measured)
    }

    fn measure(&self, what: What<'_>, options: &Options, setup: &mut Setup) -> Result<Measured> {
        let begun_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let load = load();
        let job = what.job(options, setup);
        let mut readers = self.start_readers(setup, &job)?;
        self.receive(what, setup, &mut readers, Duration::ZERO, &ReaderMessage::Ready)?;
        // Overheads are measured without the disk's delays.
        self.disk.set_delays(what.cell.point().is_some())?;
        readers.send("go")?;
        self.receive(what, setup, &mut readers, job_time(job.warm_up_s), &ReaderMessage::Begun)?;
        let reader = readers.running.child.id();
        let used = |setup: &Setup| (processor_time(reader), setup.server_time());
        let before = used(setup);
        self.disk.count_anew()?;
        let counted = self.receive(
            what,
            setup,
            &mut readers,
            job_time(job.seconds),
            &ReaderMessage::Ended(Counted::default()),
        )?;
        let stats = self.disk.stats()?;
        let after = used(setup);
        let status = self.status(what.policy, setup);
        self.disk.set_delays(false)?;
        drop(readers.to.take());
        readers.running.wait("reading", GRACE, self.interrupt, &mut || ())?;
        let seconds = |after: Nanos, before: Nanos| after.saturating_sub(before).as_secs_f64();
        let real = stats.seconds.max(f64::MIN_POSITIVE);
        Ok(Measured {
            begun_s,
            readers: counted,
            device_read_bytes: stats.read_bytes,
            device_requests: stats.requests,
            device_busy: stats.busy_seconds * stats.time_scale / real,
            seek_distance_bytes: stats.mean_seek_distance_bytes,
            path_share: stats.path_share,
            reader_processor_s: seconds(after.0, before.0),
            server_processor_s: seconds(after.1, before.1),
            server_memory_bytes: setup.server_memory().get(),
            reader_memory_bytes: 0,
            load,
            status,
        })
    }

    fn start_readers(&self, setup: &Setup, job: &Job) -> Result<Readers> {
        let mut command = setup.readers.command(self.program);
        command.args(["lab", "bench", "reader"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = Running::start("foreseek", &mut command)?;
        let cannot =
            |why: &str| Error::io("cannot write to", "the readers", std::io::Error::other(why.to_owned()));
        let (Some(to), Some(from)) = (running.child.stdin.take(), running.child.stdout.take()) else {
            return Err(cannot("they have no standard input or output"));
        };
        let (sender, messages) = sync_channel(4);
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(std::io::Result::ok) {
                let what = serde_json::from_str(&line).unwrap_or(ReaderMessage::Failed(line));
                if sender.send(what).is_err() {
                    return;
                }
            }
        });
        let mut readers = Readers { running, to: Some(to), messages };
        readers.send(&serde_json::to_string(job).map_err(|error| cannot(&error.to_string()))?)?;
        Ok(readers)
    }

    /// Waits for one message of the readers while they and the servers live; any other message is an error.
    fn receive(
        &self,
        what: What<'_>,
        setup: &mut Setup,
        readers: &mut Readers,
        time: Duration,
        expected: &ReaderMessage,
    ) -> Result<Counted> {
        let wrong = |why: String| Error::Readers {
            cell: what.cell.to_string(),
            policy: what.policy.to_string(),
            what: why,
        };
        let limit = Instant::now() + time + GRACE;
        loop {
            match readers.messages.recv_timeout(POLL) {
                Ok(ReaderMessage::Failed(why)) => return Err(wrong(why)),
                Ok(ReaderMessage::Ended(counted)) if matches!(expected, ReaderMessage::Ended(_)) => {
                    return Ok(counted);
                }
                Ok(message) if message == *expected => return Ok(Counted::default()),
                Ok(other) => return Err(wrong(format!("the message was {other:?}, not {expected:?}"))),
                Err(RecvTimeoutError::Timeout) if Instant::now() > limit => {
                    return Err(wrong(format!("no message within {} s", (time + GRACE).as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.interrupt.check()?;
                    setup.check(what.policy)?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    readers.running.wait("reading", GRACE, self.interrupt, &mut || ())?;
                    return Err(wrong("they ended".to_owned()));
                }
            }
        }
    }

    /// The mount's status; `None` where it does not answer.
    fn status(&self, policy: &Policy, setup: &Setup) -> Option<serde_json::Value> {
        if !matches!(policy, Policy::Mount(_)) {
            return None;
        }
        let mut command = Command::new(self.program);
        command.args(["mount", "--format", "json", "--status"]).arg(&setup.view);
        let output = command.stderr(Stdio::null()).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }
}

impl What<'_> {
    fn job(&self, options: &Options, setup: &Setup) -> Job {
        let task = match self.cell {
            Cell::Micro(point) => {
                Task::Workload { name: point.benchmark.name().to_owned(), concurrency: point.concurrency }
            }
            Cell::Hot => Task::Hot,
            Cell::Cold => Task::Cold,
        };
        Job {
            folder: setup.view.clone(),
            task,
            data_bytes: options.data.get(),
            handler_bytes: options.reader_holds().get(),
            private_bytes: options.reader_private.get(),
            seed: self.seed,
            time_scale: options.time_scale,
            warm_up_s: options.warm_up(self.cell),
            seconds: options.measured(self.cell),
        }
    }
}

impl Readers {
    fn send(&mut self, line: &str) -> Result<()> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.write_all(format!("{line}\n").as_bytes())
            .map_err(|error| Error::io("cannot write to", "the readers", error))
    }
}

fn job_time(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.max(0.0))
}

/// The load average of the last minute.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default()
}
