//! Reading experiments from TOML.
//!
//! A file names a set-up (TR-840's by default), a workload and what is swept. Everything else has the set-up's
//! value and may be overridden, key by key, in the tables `machine`, `costs`, `write_back`, `block`, `prefetch`
//! and `layout`. `docs/internals/simulator.md` lists the keys.

use super::axis::{Axis, Variant};
use super::policy::Policy;
use super::set_up::{SET_UPS, SetUp};
use super::{DURATION, Experiment, ExperimentError, FETCH_LIMIT, SEEDS, WARM_UP};
use crate::array;
use crate::machine::{Costs, WriteBack};
use crate::workload::{Aging, DirectReads, FileSystem, Parameters, ReadingOrder, Walk};
use foreseek_device::{Profile, Queue};
use foreseek_kernels as kernels;
use foreseek_readahead::depth::{Averaging, PageMeasure};
use foreseek_readahead::stream;
use foreseek_strips::Following;
use foreseek_units::{Bytes, Nanos, Pages, SECTORS_PER_PAGE, Sectors};
use serde::Deserialize;

/// The longest text of an experiment: a few hundred lines. It keeps a wrong path from being parsed.
const LENGTH_LIMIT: usize = 1 << 20;

/// The tables whose keys can be swept and set.
pub const TABLES: [&str; 8] =
    ["machine", "costs", "write_back", "block", "array_cache", "prefetch", "layout", "workload"];

/// The key outside tables that can be swept and set.
pub const SCHEDULER: &str = "scheduler";

/// The table of an experiment that has a key, [`SCHEDULER`] or `table.key`, and the key's name there. The table is made
/// if there is none. `None` for any other key.
pub fn place_of<'a>(experiment: &'a mut toml::Table, key: &'a str) -> Option<(&'a mut toml::Table, &'a str)> {
    if key == SCHEDULER {
        return Some((experiment, key));
    }
    let (table, name) = key.split_once('.').filter(|(table, _)| TABLES.contains(table))?;
    let table = experiment.entry(table).or_insert_with(|| toml::Table::new().into());
    Some((table.as_table_mut()?, name))
}

/// The most requests of a pool: 256 for each handler of the largest benchmark.
const REQUESTS_LIMIT: u64 = 1 << 20;

/// An experiment as a file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Option<String>,
    #[serde(default)]
    description: String,
    set_up: Option<String>,
    devices: Option<Vec<String>>,
    scheduler: Option<String>,
    policies: Option<Vec<String>>,
    concurrency: Option<Vec<u32>>,
    seeds: Option<Vec<u64>>,
    warm_up_s: Option<f64>,
    warm_up_a_handler_s: Option<f64>,
    duration_s: Option<f64>,
    workload: WrittenWorkload,
    #[serde(default)]
    machine: WrittenMachine,
    #[serde(default)]
    costs: WrittenCosts,
    #[serde(default)]
    write_back: WrittenWriteBack,
    #[serde(default)]
    block: WrittenBlock,
    #[serde(default)]
    array_cache: WrittenArrayCache,
    #[serde(default)]
    prefetch: WrittenPrefetch,
    #[serde(default)]
    layout: WrittenLayout,
    /// A key, `table.key` or `scheduler`, and its values.
    #[serde(default)]
    sweep: toml::Table,
}

/// A size as a file has it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Size(Bytes);

impl TryFrom<String> for Size {
    type Error = foreseek_units::ParseSizeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenWorkload {
    name: String,
    file_size: Option<Size>,
    data_size: Option<Size>,
    handler_memory: Option<Size>,
    mapped: Option<bool>,
    turn: Option<Size>,
    opens_late: Option<bool>,
    whole: Option<bool>,
    under_way: Option<bool>,
    row_us: Option<f64>,
    row: Option<Size>,
    look_up_us: Option<f64>,
    cache: Option<Size>,
    tile_us: Option<f64>,
    walk_s: Option<f64>,
    order: Option<ReadingOrder>,
    reversed: Option<bool>,
    threads: Option<u32>,
    apart: Option<bool>,
    opened: Option<f64>,
    read: Option<f64>,
    think_ms: Option<f64>,
    scattered: Option<bool>,
    processes: Option<u32>,
    stride: Option<u32>,
    reads: Option<u32>,
    distance: Option<Size>,
    backward: Option<bool>,
    reorder: Option<Size>,
    infill: Option<Size>,
    request: Option<Size>,
    offset: Option<Size>,
}

impl WrittenWorkload {
    /// The reads past the page cache, if a key is about them.
    fn direct(&self) -> Option<DirectReads> {
        let Self { distance, backward, reorder, infill, request, offset, .. } = self;
        let sizes = [distance, reorder, infill, request, offset];
        let default = DirectReads::default();
        let size = |given: &Option<Size>, default| given.map_or(default, |size| size.0);
        (backward.is_some() || sizes.iter().any(|size| size.is_some())).then(|| DirectReads {
            distance: size(distance, default.distance),
            backward: backward.unwrap_or(default.backward),
            reorder: size(reorder, default.reorder),
            infill: size(infill, default.infill),
            request: size(request, default.request),
            offset: size(offset, default.offset),
        })
    }

    /// The walk of a tree, if a key is about it.
    fn walk(&self, think: Nanos) -> Option<Walk> {
        let Self { order, reversed, threads, apart, opened, read, think_ms, scattered, .. } = self;
        let said = [
            order.is_some(),
            reversed.is_some(),
            threads.is_some(),
            apart.is_some(),
            opened.is_some(),
            read.is_some(),
            think_ms.is_some(),
            scattered.is_some(),
        ];
        let default = Walk::default();
        said.contains(&true).then(|| Walk {
            order: order.unwrap_or(default.order),
            reversed: reversed.unwrap_or(default.reversed),
            threads: threads.unwrap_or(default.threads),
            apart: apart.unwrap_or(default.apart),
            opened: opened.unwrap_or(default.opened),
            read: read.unwrap_or(default.read),
            think,
            scattered: scattered.unwrap_or(default.scattered),
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMachine {
    memory: Option<Size>,
    system_memory: Option<Size>,
    private_share: Option<f64>,
    paged: Option<bool>,
    reused: Option<bool>,
    marks_beginning: Option<bool>,
    processors: Option<u32>,
    time_slice_ms: Option<f64>,
    client_delay_ms: Option<f64>,
    advice_moves: Option<bool>,
    ends_jobs: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCosts {
    system_call_us: Option<f64>,
    look_up_us: Option<f64>,
    copy_us: Option<f64>,
    fault_us: Option<f64>,
    allocate_us: Option<f64>,
    reclaim_us: Option<f64>,
    submit_us: Option<f64>,
    interrupt_us: Option<f64>,
    switch_us: Option<f64>,
    create_us: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenWriteBack {
    background: Option<f64>,
    limit: Option<f64>,
    expire_s: Option<f64>,
    period_s: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBlock {
    requests: Option<usize>,
    congested_above: Option<usize>,
    uncongested_below: Option<usize>,
    largest_sectors: Option<u64>,
    infill: Option<Size>,
    unplug_at: Option<usize>,
    unplug_after_ms: Option<f64>,
    batch: Option<usize>,
    submitter_sleeps: Option<bool>,
    in_device: Option<usize>,
    device_order: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenArrayCache {
    policy: Option<String>,
    size: Option<Size>,
    write_share: Option<f64>,
    request_us: Option<f64>,
    copy_us: Option<f64>,
    missed_turn: Option<bool>,
    scheduler: Option<String>,
    in_device: Option<usize>,
    assumed: Option<String>,
    failed_member: Option<usize>,
    slow_ms: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPrefetch {
    #[serde(default, deserialize_with = "generation")]
    generation: Option<stream::Generation>,
    window_pages: Option<u64>,
    aggressive_pages: Option<u64>,
    slow_start_pages: Option<u64>,
    congestion: Option<kernels::Congestion>,
    averaging: Option<Averaging>,
    #[serde(alias = "switch_weight")]
    positioning_weight: Option<f64>,
    page_measure: Option<PageMeasure>,
    rho: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLayout {
    seed: Option<u64>,
    by_seed: Option<bool>,
    colour: Option<u32>,
    journal: Option<bool>,
    aged_used: Option<f64>,
    aged_free_run_pages: Option<u64>,
    metadata: Option<String>,
    raw: Option<bool>,
}

impl Experiment {
    /// Reads an experiment. `file` is the text's name in errors; `device` finds the profile of a device's name
    /// or path.
    ///
    /// # Errors
    /// The text is no experiment; the message names the file, the line or key, and the reason.
    pub fn parse(
        file: &str,
        text: &str,
        device: &dyn Fn(&str) -> Result<Profile, String>,
    ) -> Result<Self, ExperimentError> {
        let reader = Reader { file };
        if text.len() > LENGTH_LIMIT {
            return Err(reader.wrong("the file", format!("is longer than {}", Bytes(LENGTH_LIMIT as u64))));
        }
        let mut written: Written = toml::from_str(text).map_err(|error| reader.syntax(text, &error))?;
        let sweep = std::mem::take(&mut written.sweep);
        let mut experiment = reader.experiment(written, device)?;
        experiment.axis = reader.axis(text, sweep, device)?;
        experiment.check()?;
        Ok(experiment)
    }
}

/// Where the text came from.
struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, key: &str, reason: String) -> ExperimentError {
        ExperimentError::Key { file: self.file.to_owned(), key: key.to_owned(), reason }
    }

    /// The key is the one on the line to which the parser points.
    fn syntax(&self, text: &str, error: &toml::de::Error) -> ExperimentError {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = &text.as_bytes()[..at];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let content = text.lines().nth(line - 1).unwrap_or("").trim();
        let key = content.split('=').next().unwrap_or(content).trim().to_owned();
        let key = if key.is_empty() { "the file".to_owned() } else { key };
        ExperimentError::Syntax {
            file: self.file.to_owned(),
            line,
            key,
            reason: error.message().replace('\n', "; "),
        }
    }

    /// The fifth axis: each value is put in its place in the text, which is then read as usual.
    fn axis(
        &self,
        text: &str,
        sweep: toml::Table,
        device: &dyn Fn(&str) -> Result<Profile, String>,
    ) -> Result<Option<Axis>, ExperimentError> {
        let wrong = |reason: &str| self.wrong("sweep", reason.to_owned());
        let mut keys = sweep.into_iter();
        let Some((key, values)) = keys.next() else { return Ok(None) };
        if keys.next().is_some() {
            return Err(wrong(
                "give one key: devices, policies, concurrency and seeds have lists of their own",
            ));
        }
        let toml::Value::Array(values) = values else {
            return Err(wrong(&format!("give '{key}' a list of values, with the key in quotes")));
        };
        let unknown = || {
            let known = TABLES.join(", ");
            wrong(&format!(
                "'{key}' is not a key of a table: give {SCHEDULER}, or one of {known}, a dot and a key"
            ))
        };
        let variants = values.into_iter().map(|value| {
            let label = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let mut whole: toml::Table = toml::from_str(text).map_err(|error| self.syntax(text, &error))?;
            whole.remove("sweep");
            let (table, name) = place_of(&mut whole, &key).ok_or_else(unknown)?;
            table.insert(name.to_owned(), value);
            let complaint = |error: toml::de::Error| {
                self.wrong(&format!("sweep, '{key}' = {label}"), error.message().replace('\n', "; "))
            };
            let written: Written = toml::Value::Table(whole).try_into().map_err(complaint)?;
            Ok(Variant { value: label, experiment: self.experiment(written, device)? })
        });
        let variants = variants.collect::<Result<Vec<_>, ExperimentError>>()?;
        Ok(Some(Axis { key, variants }))
    }

    fn experiment(
        &self,
        written: Written,
        device: &dyn Fn(&str) -> Result<Profile, String>,
    ) -> Result<Experiment, ExperimentError> {
        let set_up = self.set_up(written.set_up.as_deref())?;
        let name = written.name.unwrap_or_else(|| written.workload.name.clone());
        let mut experiment = Experiment::new(&name, set_up, &written.workload.name);
        experiment.description = written.description;
        if let Some(names) = written.devices {
            let profiles = names.iter().map(|name| device(name).map_err(|why| self.wrong("devices", why)));
            experiment.devices = profiles.collect::<Result<_, _>>()?;
        }
        experiment.scheduler = written.scheduler.unwrap_or(experiment.scheduler);
        if let Some(policies) = written.policies {
            experiment.policies = policies.iter().map(|policy| Policy::from(&**policy)).collect();
        }
        experiment.concurrency = written.concurrency.unwrap_or(experiment.concurrency);
        experiment.seeds = written.seeds.unwrap_or_else(|| SEEDS.to_vec());
        experiment.warm_up = self.seconds("warm_up_s", written.warm_up_s, WARM_UP)?;
        let each = written.warm_up_a_handler_s;
        experiment.warm_up_a_handler = self.seconds("warm_up_a_handler_s", each, Nanos::ZERO)?;
        experiment.duration = self.seconds("duration_s", written.duration_s, DURATION)?;
        let think = self.time("workload.think_ms", written.workload.think_ms, 1e6, Nanos::ZERO)?;
        let cost = |key: &str, given: Option<f64>| {
            given.map(|given| self.time(key, Some(given), 1e3, Nanos::ZERO)).transpose()
        };
        let walk_time = written.workload.walk_s;
        let walk_time = walk_time.map(|time| self.seconds("workload.walk_s", Some(time), Nanos::ZERO));
        experiment.parameters = Parameters {
            file_size: written.workload.file_size.map(|size| size.0),
            data_size: written.workload.data_size.map(|size| size.0),
            handler_memory: written.workload.handler_memory.map(|size| size.0),
            mapped: written.workload.mapped,
            turn: written.workload.turn.map(|turn| turn.0),
            opens_late: written.workload.opens_late,
            whole: written.workload.whole,
            under_way: written.workload.under_way,
            row_cost: cost("workload.row_us", written.workload.row_us)?,
            row: written.workload.row.map(|row| row.0),
            look_up_cost: cost("workload.look_up_us", written.workload.look_up_us)?,
            cache: written.workload.cache.map(|cache| cache.0),
            tile_cost: cost("workload.tile_us", written.workload.tile_us)?,
            walk_time: walk_time.transpose()?,
            walk: written.workload.walk(think),
            processes: written.workload.processes,
            stride: written.workload.stride,
            reads: written.workload.reads,
            direct: written.workload.direct(),
        };
        self.machine(&mut experiment, &written.machine)?;
        self.costs(&mut experiment.machine.costs, &written.costs)?;
        self.write_back(&mut experiment.machine.write_back, &written.write_back)?;
        self.block(&mut experiment.block, &written.block)?;
        self.array_cache(&mut experiment.array, written.array_cache)?;
        self.layout(&mut experiment, &written.layout)?;
        self.prefetch(&mut experiment.prefetch, &written.prefetch)?;
        experiment.check().map_err(|error| self.place(error))?;
        Ok(experiment)
    }

    /// An error about a key of an experiment from a file names the file.
    fn place(&self, error: ExperimentError) -> ExperimentError {
        match error {
            ExperimentError::Key { key, reason, .. } => self.wrong(&key, reason),
            ExperimentError::Workload { cause, .. } => self.wrong("workload", cause.to_string()),
            other => other,
        }
    }

    fn set_up(&self, name: Option<&str>) -> Result<SetUp, ExperimentError> {
        let Some(name) = name else { return Ok(SetUp::Tr840) };
        let found = SET_UPS.iter().find(|(known, _)| *known == name);
        found.map(|(_, set_up)| *set_up).ok_or_else(|| {
            let known: Vec<&str> = SET_UPS.iter().map(|(name, _)| *name).collect();
            self.wrong("set_up", format!("there is no '{name}'; known are {}", known.join(", ")))
        })
    }

    /// A time in a unit of this many nanoseconds.
    fn time(
        &self,
        key: &str,
        given: Option<f64>,
        unit: f64,
        default: Nanos,
    ) -> Result<Nanos, ExperimentError> {
        /// The longest virtual time: a year, long before nanoseconds overflow.
        const LONGEST: f64 = 365.0 * 86_400.0 * 1e9;
        match given {
            None => Ok(default),
            Some(time) if (0.0..=LONGEST).contains(&(time * unit)) => Ok(Nanos((time * unit).round() as u64)),
            Some(time) => {
                Err(self.wrong(key, format!("{time} is not a valid time: give one from 0 to a year")))
            }
        }
    }

    fn seconds(&self, key: &str, given: Option<f64>, default: Nanos) -> Result<Nanos, ExperimentError> {
        self.time(key, given, 1e9, default)
    }

    fn share(&self, key: &str, given: Option<f64>, to: &mut f64) -> Result<(), ExperimentError> {
        match given {
            None => Ok(()),
            Some(share) if share > 0.0 && share < 1.0 => {
                *to = share;
                Ok(())
            }
            Some(share) => Err(self.wrong(key, format!("{share} is not between 0 and 1"))),
        }
    }

    fn machine(&self, to: &mut Experiment, given: &WrittenMachine) -> Result<(), ExperimentError> {
        let machine = &mut to.machine;
        if let Some(Size(total)) = given.memory {
            machine.memory = machine.memory.resized(total);
        }
        if let Some(Size(system)) = given.system_memory {
            machine.memory.system = system;
        }
        machine.memory.reused = given.reused.unwrap_or(machine.memory.reused);
        machine.memory.paged = given.paged.unwrap_or(machine.memory.paged);
        let marks = &mut machine.memory.marks_beginning;
        *marks = given.marks_beginning.unwrap_or(*marks);
        machine.memory.advice_moves = given.advice_moves.unwrap_or(machine.memory.advice_moves);
        machine.ends_jobs = given.ends_jobs.unwrap_or(machine.ends_jobs);
        self.share("machine.private_share", given.private_share, &mut machine.memory.private_share)?;
        machine.processors = given.processors.unwrap_or(machine.processors);
        let slice = machine.time_slice;
        machine.time_slice = self.time("machine.time_slice_ms", given.time_slice_ms, 1e6, slice)?;
        let delay = machine.client_delay;
        machine.client_delay = self.time("machine.client_delay_ms", given.client_delay_ms, 1e6, delay)?;
        Ok(())
    }

    fn costs(&self, to: &mut Costs, given: &WrittenCosts) -> Result<(), ExperimentError> {
        let all = [
            ("costs.system_call_us", given.system_call_us, &mut to.system_call),
            ("costs.look_up_us", given.look_up_us, &mut to.look_up),
            ("costs.copy_us", given.copy_us, &mut to.copy),
            ("costs.fault_us", given.fault_us, &mut to.fault),
            ("costs.allocate_us", given.allocate_us, &mut to.allocate),
            ("costs.reclaim_us", given.reclaim_us, &mut to.reclaim),
            ("costs.submit_us", given.submit_us, &mut to.submit),
            ("costs.interrupt_us", given.interrupt_us, &mut to.interrupt),
            ("costs.switch_us", given.switch_us, &mut to.switch),
            ("costs.create_us", given.create_us, &mut to.create),
        ];
        for (key, given, to) in all {
            *to = self.time(key, given, 1e3, *to)?;
        }
        Ok(())
    }

    fn write_back(&self, to: &mut WriteBack, given: &WrittenWriteBack) -> Result<(), ExperimentError> {
        self.share("write_back.background", given.background, &mut to.background)?;
        self.share("write_back.limit", given.limit, &mut to.limit)?;
        to.expire = self.seconds("write_back.expire_s", given.expire_s, to.expire)?;
        to.period = self.seconds("write_back.period_s", given.period_s, to.period)?;
        if to.period.is_zero() {
            return Err(self.wrong("write_back.period_s", "must be more than 0".to_owned()));
        }
        Ok(())
    }

    fn block(&self, to: &mut crate::block::Settings, given: &WrittenBlock) -> Result<(), ExperimentError> {
        to.requests = given.requests.unwrap_or(to.requests);
        to.congested_above = given.congested_above.unwrap_or(to.congested_above);
        to.uncongested_below = given.uncongested_below.unwrap_or(to.uncongested_below);
        to.largest = given.largest_sectors.map_or(to.largest, Sectors);
        to.infill = given.infill.map_or(to.infill, |size| size.0.sectors_floor());
        to.unplug_at = given.unplug_at.unwrap_or(to.unplug_at);
        to.unplug_after = self.time("block.unplug_after_ms", given.unplug_after_ms, 1e6, to.unplug_after)?;
        to.batch = given.batch.unwrap_or(to.batch);
        to.submitter_sleeps = given.submitter_sleeps.unwrap_or(to.submitter_sleeps);
        to.in_device = given.in_device.unwrap_or(to.in_device);
        to.device_order = match given.device_order.as_deref() {
            None => to.device_order,
            Some("shortest-access") => Queue::Sptf,
            Some("shortest-seek") => Queue::Sstf,
            Some("arrival") => Queue::Fifo,
            Some(other) => {
                let reason =
                    format!("there is no '{other}'; known are shortest-access, shortest-seek, arrival");
                return Err(self.wrong("block.device_order", reason));
            }
        };
        let limits = [
            ("block.requests", to.requests as u64, REQUESTS_LIMIT),
            ("block.largest_sectors", to.largest.get(), FETCH_LIMIT * SECTORS_PER_PAGE),
            ("block.batch", to.batch as u64, REQUESTS_LIMIT),
            ("block.in_device", to.in_device as u64, REQUESTS_LIMIT),
        ];
        match limits.into_iter().find(|(_, value, most)| !(1..=*most).contains(value)) {
            Some((key, value, most)) => Err(self.wrong(key, format!("is {value}: give 1 to {most}"))),
            None => Ok(()),
        }
    }

    fn array_cache(&self, to: &mut array::Settings, given: WrittenArrayCache) -> Result<(), ExperimentError> {
        to.policy = given.policy.or_else(|| to.policy.take());
        to.size = given.size.map_or(to.size, |size| size.0);
        if given.write_share.is_some() {
            let mut share = 0.0;
            self.share("array_cache.write_share", given.write_share, &mut share)?;
            to.write_share = Some(share);
        }
        to.request = self.time("array_cache.request_us", given.request_us, 1e3, to.request)?;
        to.copy = self.time("array_cache.copy_us", given.copy_us, 1e3, to.copy)?;
        let of = |missed| if missed { Following::MissesRotation } else { Following::Streams };
        to.following = given.missed_turn.map(of).or(to.following);
        to.assumed = given.assumed.or_else(|| to.assumed.take());
        if let Some(scheduler) = given.scheduler {
            to.scheduler = scheduler;
        }
        to.failed_member = given.failed_member.or(to.failed_member);
        to.slow = self.time("array_cache.slow_ms", given.slow_ms, 1e6, to.slow)?;
        to.members.in_device = given.in_device.unwrap_or(to.members.in_device);
        if !(1..=REQUESTS_LIMIT).contains(&(to.members.in_device as u64)) {
            let reason = format!("is {}: give 1 to {REQUESTS_LIMIT}", to.members.in_device);
            return Err(self.wrong("array_cache.in_device", reason));
        }
        Ok(())
    }

    fn layout(&self, to: &mut Experiment, given: &WrittenLayout) -> Result<(), ExperimentError> {
        let layout = &mut to.layout;
        layout.seed = given.seed.unwrap_or(layout.seed);
        layout.by_seed = given.by_seed.unwrap_or(layout.by_seed);
        layout.colour = given.colour.unwrap_or(layout.colour);
        layout.journal = given.journal.unwrap_or(layout.journal);
        layout.raw = given.raw.unwrap_or(layout.raw);
        layout.metadata = match given.metadata.as_deref() {
            None | Some("in-memory") => None,
            Some("ext3") => Some(FileSystem::Ext3),
            Some("ext4") => Some(FileSystem::Ext4),
            Some(other) => {
                let reason = format!("there is no '{other}'; known are in-memory, ext3, ext4");
                return Err(self.wrong("layout.metadata", reason));
            }
        };
        layout.aging = match (given.aged_used, given.aged_free_run_pages) {
            (None, None) => layout.aging,
            (Some(used), Some(run)) => Some(Aging { used, free_run: Pages(run) }),
            _ => {
                let reason = "give both aged_used and aged_free_run_pages, or neither".to_owned();
                return Err(self.wrong("layout", reason));
            }
        };
        Ok(())
    }

    fn prefetch(&self, to: &mut kernels::Settings, given: &WrittenPrefetch) -> Result<(), ExperimentError> {
        to.congestion = given.congestion.unwrap_or(to.congestion);
        let to = &mut to.stream;
        to.generation = given.generation.unwrap_or(to.generation);
        to.averaging = given.averaging.unwrap_or(to.averaging);
        to.page_measure = given.page_measure.unwrap_or(to.page_measure);
        if let Some(rho) = given.rho {
            if !stream::RHO_RANGE.contains(&rho) {
                return Err(self.wrong("prefetch.rho", format!("is {rho}: give 2 to {}", stream::RHO_LIMIT)));
            }
            to.rho = rho;
        }
        self.share("prefetch.positioning_weight", given.positioning_weight, &mut to.positioning_weight)?;
        let pages = [
            ("prefetch.window_pages", given.window_pages, &mut to.window),
            ("prefetch.aggressive_pages", given.aggressive_pages, &mut to.aggressive),
            ("prefetch.slow_start_pages", given.slow_start_pages, &mut to.slow_start),
        ];
        for (key, given, to) in pages {
            match given {
                None => {}
                Some(pages) if (1..=FETCH_LIMIT).contains(&pages) => *to = Pages(pages),
                Some(_) => return Err(self.wrong(key, format!("give 1 to {FETCH_LIMIT} pages"))),
            }
        }
        Ok(())
    }
}

/// A window machine by its name.
fn generation<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<stream::Generation>, D::Error> {
    let name = String::deserialize(from)?;
    let found = kernels::generation(&name);
    found.map(Some).ok_or_else(|| serde::de::Error::custom(format!("there are no windows called '{name}'")))
}
