//! The accuracy and the speed of an emulated disk.
//!
//! Accuracy: 4 KiB direct reads at random offsets, one at a time. This program computes the model's own
//! response times, in virtual time, for the times at which it issued the reads; the error is the difference
//! from the emulated disk's response time. Bars on an idle machine: median 0.1 ms, p90 0.2 ms, the mean
//! within 1 %.
//!
//! Throughput: a disk without profile over a file of real data, 4 KiB random reads at depth 16 (bar: 40,000 a
//! second) and 1 MiB sequential reads (bar: 900 MB/s).
//!
//! `cargo bench -p foreseek-emulate` prints a table and, last, one JSON line. It needs root.
#![allow(clippy::print_stdout, reason = "a benchmark reports on standard output")]
#![allow(unsafe_code, reason = "asynchronous reads into a buffer that outlives them")]

use anyhow::{Context, Result, ensure};
use foreseek_device::{Build, Device, Io, IoId, Op, Profile};
use foreseek_emulate::{AttachOptions, Backing, Stats, client, serve};
use foreseek_units::{Bytes, Instant, Lba, Nanos, Sectors, Span};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Profiles whose accuracy is measured: a desktop disk, a fast one.
const PROFILES: [&str; 2] = ["barracuda-500g", "raid0-2x-seagate"];
const SIZE: Bytes = Bytes::gib(8);
const READS: usize = 1500;
const DATA: Bytes = Bytes::gib(1);
const DEPTH: u32 = 16;
const SECONDS: u64 = 5;
/// The longest think time between reads: a closed loop without any would always find the platter at the same
/// angle.
const THINK: Nanos = Nanos::from_millis(9);

#[repr(align(4096))]
struct Buffer<const N: usize>([u8; N]);

fn main() -> ExitCode {
    if let Some(status) = serve::run_if_requested() {
        return status;
    }
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("SKIPPED: emulator-accuracy needs root and /dev/fuse");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("emulator-accuracy: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    let mut fields = Vec::new();
    for profile in PROFILES {
        let accuracy = accuracy(profile)?;
        println!("{profile}: {accuracy}");
        fields.push(format!("{profile:?}:{}", accuracy.json()));
    }
    let (random, sequential) = throughput()?;
    println!("no profile: {random:.0} random 4 KiB reads/s at depth {DEPTH}, {sequential:.0} MB/s at 1 MiB");
    fields.push(format!(
        "\"random_reads_per_second\":{random:.0},\"sequential_mb_per_second\":{sequential:.0}"
    ));
    println!("{{{}}}", fields.join(","));
    Ok(())
}

/// An attached disk, detached when dropped.
struct Attached {
    device: PathBuf,
}

impl Attached {
    fn new(options: &AttachOptions) -> Result<Self> {
        Ok(Self { device: client::attach(options)?.device })
    }

    fn stats(&self, reset: bool) -> Result<Stats> {
        Ok(client::stats(&self.device.to_string_lossy(), reset)?)
    }

    fn open(&self) -> Result<File> {
        let open = File::options().read(true).custom_flags(libc::O_DIRECT).open(&self.device);
        open.with_context(|| format!("open {}", self.device.display()))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Err(error) = client::detach(&self.device.to_string_lossy(), true) {
            println!("cannot detach {}: {error}", self.device.display());
        }
    }
}

struct Accuracy {
    /// Absolute values, sorted.
    errors: Vec<Nanos>,
    measured_mean: Nanos,
    modelled_mean: Nanos,
    stats: Stats,
}

impl Accuracy {
    fn error_at(&self, share: f64) -> f64 {
        self.errors[((self.errors.len() - 1) as f64 * share) as usize].as_micros_f64()
    }

    fn mean_ratio(&self) -> f64 {
        self.measured_mean.get() as f64 / self.modelled_mean.get() as f64
    }

    fn json(&self) -> String {
        format!(
            "{{\"error_us\":{{\"p50\":{:.1},\"p90\":{:.1},\"p99\":{:.1}}},\"mean_ratio\":{:.5},\"mean_ms\":{:.3},\
             \"path_us\":{:.1},\"lateness_us\":{{\"p50\":{:.1},\"p99\":{:.1}}},\"spin_share\":{:.4}}}",
            self.error_at(0.5),
            self.error_at(0.9),
            self.error_at(0.99),
            self.mean_ratio(),
            self.measured_mean.as_millis_f64(),
            self.stats.path.base_us,
            self.stats.lateness.p50_us,
            self.stats.lateness.p99_us,
            self.stats.spin_share,
        )
    }
}

impl std::fmt::Display for Accuracy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "error of a random 4 KiB read {:.0} us at the median, {:.0} us at p90, {:.0} us at p99; mean {:.3} ms, \
             {:+.2} % off the model's; path {:.0} us, lateness {:.0} us at the median, {:.0} us at p99, spinning \
             {:.1} % of a core",
            self.error_at(0.5),
            self.error_at(0.9),
            self.error_at(0.99),
            self.measured_mean.as_millis_f64(),
            (self.mean_ratio() - 1.0) * 100.0,
            self.stats.path.base_us,
            self.stats.lateness.p50_us,
            self.stats.lateness.p99_us,
            self.stats.spin_share * 100.0,
        )
    }
}

fn accuracy(profile: &str) -> Result<Accuracy> {
    let disk = Attached::new(&AttachOptions { thin: true, ..AttachOptions::new(profile, SIZE) })?;
    let file = disk.open()?;
    // Wait until udev and others have probed the new device.
    std::thread::sleep(Duration::from_millis(500));
    let epoch = Instant(disk.stats(true)?.model_epoch_ns);
    let mut random = Random(1);
    let mut buffer = Buffer([0; 4096]);
    let mut reads = Vec::with_capacity(READS);
    for _ in 0..READS {
        std::thread::sleep(Nanos(random.below(THINK.get())).into());
        let page = random.below(SIZE.pages_floor().get());
        let start = now();
        file.read_exact_at(&mut buffer.0, page * 4096).context("read")?;
        reads.push((page, start, now()));
    }
    let stats = disk.stats(false)?;
    ensure!(stats.reads == READS as u64, "other programs read the disk too: {} reads", stats.reads);
    let mut model = modelled(profile, epoch)?;
    let modelled = reads.iter().map(|(page, start, _)| model(*page, *start)).collect::<Result<Vec<_>>>()?;
    let measured = reads.iter().map(|(_, start, end)| *end - *start);
    // The first read is left out: the kernel has probed the new device, so the modelled head is elsewhere.
    let pairs: Vec<_> = measured.zip(modelled).skip(1).collect();
    let mut errors: Vec<_> = pairs.iter().map(|(a, b)| Nanos(a.get().abs_diff(b.get()))).collect();
    errors.sort_unstable();
    let count = pairs.len() as u64;
    Ok(Accuracy {
        errors,
        measured_mean: pairs.iter().map(|pair| pair.0).sum::<Nanos>() / count,
        modelled_mean: pairs.iter().map(|pair| pair.1).sum::<Nanos>() / count,
        stats,
    })
}

/// The model's response time of a read of a page at a real time.
fn modelled(profile: &str, epoch: Instant) -> Result<impl FnMut(u64, Instant) -> Result<Nanos>> {
    let profile = Profile::builtin(profile).context("a built-in profile")?;
    let mut device: Box<dyn Device> = profile.build(&Build { size: Some(SIZE), ..Build::default() })?;
    let mut done = Vec::new();
    Ok(move |page: u64, at: Instant| {
        let issued = Instant((at - epoch).get());
        while let Some(next) = device.next().filter(|next| *next <= issued) {
            device.advance(next, &mut done);
        }
        done.clear();
        let range = Span::at(Lba(page * 8), Sectors(8));
        device.submit(issued, Io { id: IoId(page), op: Op::Read, range }).context("submit")?;
        while done.is_empty() {
            let next = device.next().context("the device forgot a request")?;
            device.advance(next, &mut done);
        }
        Ok(done[0].at - issued)
    })
}

/// Random reads a second and sequential MB/s of a disk without profile.
fn throughput() -> Result<(f64, f64)> {
    let path = PathBuf::from(format!("/var/tmp/foreseek-accuracy-{}", std::process::id()));
    let result = fill(&path).and_then(|()| {
        let backing = Backing::File(path.clone());
        let disk = Attached::new(&AttachOptions { backing, ..AttachOptions::new("none", DATA) })?;
        let file = disk.open()?;
        Ok((random_reads(&file)?, sequential_reads(&file)?))
    });
    std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
    result
}

/// Real data: reading a file that is only allocated causes almost no I/O.
fn fill(path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| format!("make {}", path.display()))?;
    let block: Vec<u8> =
        (0..1 << 20).map(|byte: u32| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for number in 0..DATA.get() >> 20 {
        file.write_all_at(&block, number << 20).context("write")?;
    }
    file.sync_all().context("sync")
}

fn random_reads(file: &File) -> Result<f64> {
    let mut ring = io_uring::IoUring::new(DEPTH)?;
    let mut buffers: Vec<Box<Buffer<4096>>> = (0..DEPTH).map(|_| Box::new(Buffer([0; 4096]))).collect();
    let mut random = Random(2);
    let mut next = |slot: usize, buffers: &mut Vec<Box<Buffer<4096>>>| {
        let page = random.below(DATA.pages_floor().get());
        let fd = io_uring::types::Fd(file.as_raw_fd());
        io_uring::opcode::Read::new(fd, buffers[slot].0.as_mut_ptr(), 4096)
            .offset(page * 4096)
            .build()
            .user_data(slot as u64)
    };
    let (start, mut count, mut in_flight) = (now(), 0u64, 0u32);
    let until = start + Nanos::from_secs(SECONDS);
    for slot in 0..DEPTH as usize {
        let entry = next(slot, &mut buffers);
        // SAFETY: each slot's buffer is used by one read at a time and lives until all have ended.
        unsafe { ring.submission().push(&entry) }.context("submit")?;
        in_flight += 1;
    }
    while in_flight > 0 {
        ring.submit_and_wait(1).context("wait")?;
        let ended: Vec<_> = ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (slot, result) in ended {
            ensure!(result == 4096, "a read gave {result}");
            (count, in_flight) = (count + 1, in_flight - 1);
            if now() < until {
                let entry = next(slot as usize, &mut buffers);
                // SAFETY: as above.
                unsafe { ring.submission().push(&entry) }.context("submit")?;
                in_flight += 1;
            }
        }
    }
    Ok(count as f64 / (now() - start).as_secs_f64())
}

fn sequential_reads(file: &File) -> Result<f64> {
    let mut buffer = Box::new(Buffer([0; 1 << 20]));
    let (start, mut bytes) = (now(), 0u64);
    while now() - start < Nanos::from_secs(SECONDS) {
        file.read_exact_at(&mut buffer.0, bytes % DATA.get()).context("read")?;
        bytes += 1 << 20;
    }
    Ok(bytes as f64 / 1e6 / (now() - start).as_secs_f64())
}

fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

/// xorshift64*: the same reads at each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }
}
