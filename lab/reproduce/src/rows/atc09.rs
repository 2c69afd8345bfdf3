//! ATC'09 sections 3 and 5: the disks alone, read past the page cache, one request at a time; and programs with
//! libprefetch as in the paper (`Settings::paper`). The defaults are run as well and not judged.
//!
//! Where a claim is about a range ("below 1 MB", "above 2 MB"), every point of the sweep in it counts, and the
//! one furthest from the stated value is judged.

use super::{Context, Row};
use crate::Measured;
use crate::pick::Sweep;
use foreseek_simulate::experiment::Metric;

/// No read-ahead: nothing passes through the page cache.
const NONE: &str = "none";
const DISK_1: &str = "barracuda-500g";
const DISK_2: &str = "barracuda-500g-oldfw";
const DISK_3: &str = "wd-500g";

/// "Roughly 1 to 5MB".
const MEDIUM: &[&str] = &["1 MiB", "2 MiB", "5 MiB"];
/// The longest seek of the sweep.
const FULL_STROKE: &str = "460 GiB";
const BELOW_1_MB: &[&str] =
    &["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB", "112 KiB", "256 KiB", "512 KiB"];
/// Requests that are larger than 64 KiB.
const LARGER: &[&str] = &["128 KiB", "256 KiB", "512 KiB", "1 MiB", "4 MiB"];
/// Infill too small to join anything.
const NO_INFILL: &str = "2 KiB";
const INFILLS: &[&str] = &["lp-infill-16m", "lp-infill-128m", "lp-infill-256m"];
/// Infill above 2 MB.
const LARGE_INFILL: &[&str] = &["4 MiB", "8 MiB", "16 MiB"];

const LINUX: &str = "linux-2.6.18";
const LIBPREFETCH: &str = "libprefetch:linux-2.6.18";
/// The library reads the gaps, which users can run. The paper's kernel does so in runs of its own.
const LIBRARY_INFILL: &str = "libprefetch-infill:linux-2.6.18";
const UNCONTROLLED: &str = "libprefetch-uncontrolled:linux-2.6.18";
const SHIPPED: &str = "libprefetch-shipped:linux-2.6.18";

pub(super) const ROWS: &[Row] = &[
    Row::new("LP-seek-small", &["lp-seek-forward"], |c| {
        grown(c, "lp-seek-forward", &Metric::RESPONSE, "112 KiB").of_values(MEDIUM).on(DISK_1).mean()
    }),
    Row::new("LP-seek-large", &["lp-seek-forward"], |c| {
        grown(c, "lp-seek-forward", &Metric::RESPONSE, "5 MiB").of_values(&[FULL_STROKE]).on(DISK_1).mean()
    }),
    Row::new("LP-seek-forward", &["lp-seek-forward", "lp-seek-backward"], |c| {
        let runs = ("lp-seek-forward", "lp-seek-backward");
        c.runs.over(runs, NONE, &Metric::RESPONSE).of_values(BELOW_1_MB).on(DISK_1).largest()
    }),
    Row::new("LP-reorder-18m", REORDER, |c| reordered(c, &Metric::TIME, "18 MiB").mean()),
    Row::new("LP-reorder-256m", REORDER, |c| reordered(c, &Metric::TIME, "256 MiB").mean()),
    Row::new("LP-reorder-ratio", REORDER, |c| {
        grown(c, "lp-reorder", &Metric::TIME, "256 MiB").of_values(&["18 MiB"]).mean()
    }),
    Row::new("LP-dist-384k", REORDER, |c| reordered(c, &Metric::SEEK_DISTANCE, "384 KiB").mean()),
    Row::new("LP-dist-18m", REORDER, |c| reordered(c, &Metric::SEEK_DISTANCE, "18 MiB").times(1e3).mean()),
    // "Infill of up to 32KB reduces runtime"; of the 16 MB buffer "infill has very little effect".
    Row::new("LP-infill-32k", INFILLS, |c| {
        let of = |run| infilled(c, run, &["32 KiB"]).on(DISK_2);
        let judged = of("lp-infill-128m").and(of("lp-infill-256m")).largest()?;
        Some(Measured { beside: of("lp-infill-16m").places(), ..judged })
    }),
    // The larger buffers have no gap of 2 MB between two of their pages.
    Row::new("LP-infill-2m", INFILLS, |c| {
        let of = |run| infilled(c, run, LARGE_INFILL).on(DISK_2);
        let judged = of("lp-infill-16m").smallest()?;
        let beside = of("lp-infill-128m").and(of("lp-infill-256m"));
        Some(Measured { beside: beside.places(), ..judged })
    }),
    Row::new("LP-infill-neutral", INFILLS, |c| {
        let of = |run: &&str| infilled(c, run, &["4 KiB", "8 KiB", "16 KiB", "32 KiB"]).on(DISK_1);
        INFILLS.iter().map(of).reduce(Sweep::and)?.furthest_from(1.0..=1.0)
    }),
    // "Confirm on several disks."
    Row::new("LP-zones", ZONES, |c| {
        let slowed = |run, last: &str| grown(c, run, &Metric::THROUGHPUT, "0 GiB").of_values(&[last]);
        let [large, small] = ZONES else { return None };
        let beside = slowed(large, "464 GiB").not_on(DISK_1).and(slowed(small, "297 GiB"));
        Some(Measured { beside: beside.places(), ..slowed(large, "464 GiB").on(DISK_1).mean()? })
    }),
    Row::new("LP-request-64k", &["lp-requests"], |c| {
        let over = |size| grown(c, "lp-requests", &Metric::THROUGHPUT, size).of_values(&["64 KiB"]);
        LARGER.iter().map(|size| over(size)).reduce(Sweep::and)?.smallest()
    }),
    Row::new("LP-sequential-fast", &["lp-fast-file"], |c| {
        faster(c, "lp-fast-file", &Metric::TIME, &["4 GiB"])
    }),
    Row::new("LP-sequential-slow", &["lp-slow-file"], |c| {
        faster(c, "lp-slow-file", &Metric::TIME, &["4 GiB"])
    }),
    Row::new("LP-sqlite-fits", SCAN, |c| faster(c, "lp-scan", &Metric::TIME, &["132 MiB"])),
    Row::new("LP-sqlite-peak", SCAN, |c| {
        let all = |policy| c.runs.ratios("lp-scan", (LINUX, policy), &Metric::TIME, &(0..=u32::MAX));
        Some(Measured { beside: all(SHIPPED).places(), ..all(LIBPREFETCH).largest()? })
    }),
    Row::new("LP-sqlite-4g", SCAN, |c| faster(c, "lp-scan", &Metric::TIME, &["4110 MiB"])),
    Row::new("LP-sqlite-growth", SCAN, |c| {
        c.runs.growth("lp-scan", LIBPREFETCH, &Metric::TIME, "132 MiB").of_values(&["4110 MiB"]).mean()
    }),
    Row::new("LP-gimp-peak", BLUR, |c| faster(c, "lp-blur", &Metric::LONGEST_RESPONSE, &["1 GiB"])),
    Row::new("LP-gimp-12g", BLUR_12_GB, |c| faster(c, "lp-blur-12g", &Metric::LONGEST_RESPONSE, &["12 GiB"])),
    Row::new("LP-infill-disk2", INFILL_SCANS, |c| gained_most(c, DISK_2)),
    Row::new("LP-infill-disk1", INFILL_SCANS, |c| gained_most(c, DISK_1)),
    Row::new("LP-infill-disk3", INFILL_SCANS, |c| gained_most(c, DISK_3)),
    Row::new("LP-infill-noharm", INFILL_SCANS, |c| {
        Some(Measured { beside: gained_by_library(c).places(), ..gained(c).smallest()? })
    }),
    // "The difference in runtime when both libprefetch and infill are used": at the size with the largest
    // difference.
    Row::new("LP-infill-equal", INFILL_SCANS, |c| {
        let over = |run, policy| c.runs.over_devices(run, policy, &Metric::TIME, (DISK_2, DISK_1));
        let beside = over(INFILL_SCAN, LIBRARY_INFILL).places();
        Some(Measured { beside, ..over(KERNEL_INFILL_SCAN, LIBPREFETCH).largest()? })
    }),
    Row::new("LP-two-sqlite", SCANS, |c| faster(c, "lp-scans", &Metric::TIME, &["2"])),
    Row::new("LP-three-sqlite", SCANS, |c| faster(c, "lp-scans", &Metric::TIME, &["3"])),
    Row::new("LP-scale2-stock", SCANS, |c| scaled(c, LINUX, "2")),
    Row::new("LP-scale3-stock", SCANS, |c| scaled(c, LINUX, "3")),
    Row::new("LP-scale2", SCANS, |c| scaled(c, LIBPREFETCH, "2")),
    Row::new("LP-scale3", SCANS, |c| scaled(c, LIBPREFETCH, "3")),
    Row::new("LP-gimp-many", BLURS, |c| {
        let all =
            |policy| c.runs.ratios("lp-blurs", (LINUX, policy), &Metric::LONGEST_RESPONSE, &(0..=u32::MAX));
        Some(Measured { beside: all(SHIPPED).places(), ..all(LIBPREFETCH).furthest_from(3.0..=4.0)? })
    }),
    Row::new("LP-no-aimd", UNCONTROLLED_RUNS, |c| {
        let one = |(stock, processes, uncontrolled)| without_control(c, stock, processes, uncontrolled);
        let runs = [
            ("lp-scans", "2", "lp-scans-2-uncontrolled"),
            ("lp-scans", "3", "lp-scans-3-uncontrolled"),
            ("lp-blurs", "2", "lp-blurs-2-uncontrolled"),
            ("lp-blurs", "3", "lp-blurs-3-uncontrolled"),
        ];
        runs.map(one).into_iter().reduce(Sweep::and)?.largest()
    }),
    Row::new("LP-neighbour", &["lp-md5sum"], |c| slower(c, "lp-md5sum")),
    Row::new("LP-memwalk", &["lp-mem-walk"], |c| slower(c, "lp-mem-walk")),
];

/// On disks of 500 and of 320 GB.
const ZONES: &[&str] = &["lp-zones", "lp-zones-320"];
const SCAN: &[&str] = &["lp-scan"];
const BLUR: &[&str] = &["lp-blur"];
const BLUR_12_GB: &[&str] = &["lp-blur-12g"];
const SCANS: &[&str] = &["lp-scans"];
const BLURS: &[&str] = &["lp-blurs"];
const UNCONTROLLED_RUNS: &[&str] = &[
    "lp-scans",
    "lp-blurs",
    "lp-scans-2-uncontrolled",
    "lp-scans-3-uncontrolled",
    "lp-blurs-2-uncontrolled",
    "lp-blurs-3-uncontrolled",
];
const INFILL_SCANS: &[&str] = &[INFILL_SCAN, KERNEL_INFILL_SCAN];
const INFILL_SCAN: &str = "lp-infill-scan";
const KERNEL_INFILL_SCAN: &str = "lp-infill-scan-kernel";

/// The stock time over that with libprefetch as in the paper; that with the defaults beside it.
fn faster(c: &Context<'_>, run: &str, metric: &Metric, values: &[&str]) -> Option<Measured> {
    let over = |policy| c.runs.ratios_at(run, (LINUX, policy), metric, values);
    Some(Measured { beside: over(SHIPPED).places(), ..over(LIBPREFETCH).mean()? })
}

/// The time of several scans over that of one.
fn scaled(c: &Context<'_>, policy: &str, processes: &str) -> Option<Measured> {
    c.runs.growth("lp-scans", policy, &Metric::TIME, "1").of_values(&[processes]).mean()
}

/// The stock time of some processes over that of as many without the contention controller.
fn without_control(c: &Context<'_>, stock: &str, processes: &str, uncontrolled: &str) -> Sweep {
    let stock = c.runs.values_at(stock, LINUX, &Metric::TIME, &[processes]);
    stock.over(c.runs.values(uncontrolled, UNCONTROLLED, &Metric::TIME, &(0..=u32::MAX)))
}

/// The time without infill over that with the kernel's, as in the paper.
fn gained(c: &Context<'_>) -> Sweep {
    c.runs.over((INFILL_SCAN, KERNEL_INFILL_SCAN), LIBPREFETCH, &Metric::TIME)
}

/// The time without infill over that with the library's.
fn gained_by_library(c: &Context<'_>) -> Sweep {
    c.runs.ratios(INFILL_SCAN, (LIBPREFETCH, LIBRARY_INFILL), &Metric::TIME, &(0..=u32::MAX))
}

/// The largest gain on a disk by the kernel's infill; the library's beside it.
fn gained_most(c: &Context<'_>, disk: &str) -> Option<Measured> {
    Some(Measured { beside: gained_by_library(c).on(disk).places(), ..gained(c).on(disk).largest()? })
}

/// A neighbour's time beside libprefetch over that beside the stock program.
fn slower(c: &Context<'_>, run: &str) -> Option<Measured> {
    let over = |policy| c.runs.ratios(run, (policy, LINUX), &Metric::LONGEST_RESPONSE, &(0..=u32::MAX));
    Some(Measured { beside: over(SHIPPED).places(), ..over(LIBPREFETCH).mean()? })
}

const REORDER: &[&str] = &["lp-reorder"];

/// A metric at each value of a sweep over that at one of them.
fn grown(c: &Context<'_>, run: &str, metric: &Metric, from: &str) -> Sweep {
    c.runs.growth(run, NONE, metric, from)
}

/// A metric of the reordered reads with a buffer.
fn reordered(c: &Context<'_>, metric: &Metric, buffer: &str) -> Sweep {
    c.runs.values_at("lp-reorder", NONE, metric, &[buffer])
}

/// The time with infill over that without.
fn infilled(c: &Context<'_>, run: &str, infill: &[&str]) -> Sweep {
    grown(c, run, &Metric::TIME, NO_INFILL).of_values(infill)
}
