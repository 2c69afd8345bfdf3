//! The effect of the feedback on the upstream under random reads of 4 KiB: `cargo run --release --example
//! random_reads`.
//!
//! The cache alone, without disks or time: each fetch has arrived when the next read comes. The array and the
//! cache are those of ATC'08: strips of 128 KiB, 500 MiB. docs/internals/arrays.md has the results.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use foreseek_device::Profile;
use foreseek_strips::{Following, Geometry, Lru, Settings, StripCache, registry};
use foreseek_units::{Bytes, Lba, PageIndex, PageSpan, Pages};
use std::sync::Arc;

/// Sizes of the workspaces, in tenths of a GiB.
const WORKSPACES: [u64; 6] = [6, 8, 10, 12, 16, 20];
/// After these numbers of reads a line is printed; tiobench makes 40,000 (section 3.4).
const LOOKS: [u64; 3] = [40_000, 120_000, 400_000];

fn main() {
    let profile = Profile::builtin("raid5-5x-15k").expect("built in");
    println!("workspace  policy                    reads  upstream's limit  downstream  hit rate  refused");
    for tenths in WORKSPACES {
        for policy in ["sp", "asp", "asp-without-cost-test"] {
            random_reads(&profile, tenths, policy);
        }
    }
}

fn random_reads(profile: &Profile, tenths: u64, policy: &str) {
    let pages = Bytes::gib(tenths).pages_floor() / Pages(10);
    let geometry = Geometry::new(profile.stripes().expect("an array"), Lba(0), Bytes::gib(4).pages_floor())
        .expect("valid");
    let settings = Settings { cache: Bytes::mib(500).pages_floor(), following: Following::Streams };
    let rules = registry::by_name(policy).expect("known").rules;
    let member = Arc::new(profile.member().expect("an array"));
    let mut cache = StripCache::new(geometry, settings, rules, member, Box::new(Lru)).expect("large enough");
    let (mut draw, mut dropped) = (88_172_645_463_325_252u64, Vec::new());
    for read in 1..=LOOKS[LOOKS.len() - 1] {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        for (strip, blocks) in geometry.strips(PageSpan::at(PageIndex(draw % pages), Pages(1))) {
            let fetched = cache.read(strip, blocks, &mut dropped).fetch;
            cache.arrived(strip, fetched, true, &mut dropped);
            dropped.clear();
        }
        if LOOKS.contains(&read) {
            let stats = cache.stats();
            println!(
                "{:>5.1} GiB  {policy:<22} {read:>8} {:>17} {:>11} {:>9.2} {:>8}",
                tenths as f64 / 10.0,
                cache.upstream_limit(),
                cache.strips().1,
                (stats.cache_hits + stats.prefetch_hits) as f64 / read as f64,
                stats.refused_by_cost + stats.refused_by_size,
            );
        }
    }
}
