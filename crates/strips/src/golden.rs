//! Small cases by hand: strips of four blocks as in figures 2 and 3, a cache of five strips, so that each bottom is one strip.

use crate::blocks::Blocks;
use crate::cache::{Answer, Dropped, StripCache};
use crate::costs::Following;
use crate::error::StripsError;
use crate::geometry::StripNo;
use crate::replacement::{Fifo, Lru, Replacement};
use crate::rules::{Massive, Rules, Settings, Strips};
use crate::stats::Stats;
use crate::testing::{Simple, array};
use foreseek_units::{Nanos, Pages};
use std::sync::Arc;

fn cache_with(strips: Strips, replacement: Box<dyn Replacement>) -> StripCache {
    let settings = Settings { cache: Pages(20), following: Following::Streams };
    let rules = Rules { strips, massive: Massive::Never, measured: false };
    StripCache::new(array(4, 400), settings, rules, Arc::new(Simple), replacement).expect("five strips")
}

fn cache(strips: Strips) -> StripCache {
    cache_with(strips, Box::new(Lru))
}

/// Reads one block; its fetch arrives.
fn read(cache: &mut StripCache, strip: u64, block: u64) -> (Answer, Vec<Dropped>) {
    let mut dropped = Vec::new();
    let answer = cache.read(StripNo(strip), Blocks::range(block, block + 1), &mut dropped);
    cache.arrived(StripNo(strip), answer.fetch, true, &mut dropped);
    (answer, dropped)
}

fn gone(strip: u64, from: u64, to: u64) -> Dropped {
    Dropped { strip: StripNo(strip), blocks: Blocks::range(from, to) }
}

fn held(cache: &StripCache, strip: u64) -> Blocks {
    cache.held(StripNo(strip)).0
}

/// Section 2.1: a miss reads all blocks of the strip. Section 1.1.4: a prefetch hit, and then a cache hit.
#[test]
fn a_miss_reads_the_strip_and_the_next_reads_hit() {
    let mut cache = cache(Strips::Always);
    assert_eq!(read(&mut cache, 3, 1).0.fetch, Blocks::range(0, 4));
    assert_eq!(read(&mut cache, 3, 2).0.here, Blocks::range(2, 3));
    assert_eq!(read(&mut cache, 3, 2).0.here, Blocks::range(2, 3));
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.strip_blocks, stats.prefetch_hits, stats.cache_hits), (1, 3, 1, 1));
    assert_eq!(cache.strips(), (1, 0, 0));
}

/// Sections 2.2 and 2.3, step by step.
fn culled_and_evicted(ghosts: bool) -> StripCache {
    let mut cache = cache(Strips::Adaptive { cost_test: false, ghosts });
    (0..5).for_each(|strip| assert!(read(&mut cache, strip, 0).1.is_empty()));
    assert_eq!((cache.used(), cache.upstream_limit(), cache.strips()), (Pages(20), 5, (5, 0, 0)));
    // The cache is full: the least recently used strip goes. Stripe 0 has strips 0 to 3: 0 becomes a ghost.
    assert_eq!(read(&mut cache, 5, 0).1, [gone(0, 0, 4)]);
    assert_eq!(cache.strips(), (5, 0, u64::from(ghosts)));
    // Strip 1 is both bottoms (no downstream yet): a cache hit there, alpha 1, and the upstream may have four
    // strips. Strip 1 becomes the most recently used; strip 2 flows down and keeps block 0.
    assert_eq!(read(&mut cache, 1, 0).1, [gone(2, 1, 4)]);
    assert_eq!((cache.upstream_limit(), cache.used()), (4, Pages(17)));
    assert_eq!((cache.strips(), held(&cache, 2)), ((4, 1, u64::from(ghosts)), Blocks::range(0, 1)));
    // A read of strip 8: the bottom of all, strip 2, is evicted; then strip 3 flows down.
    assert_eq!(read(&mut cache, 8, 1).1, [gone(2, 0, 1), gone(3, 1, 4)]);
    // A read of strip 2, block 1: strip 3 is evicted, strip 4 flows down.
    assert_eq!(read(&mut cache, 2, 1).1, [gone(3, 0, 1), gone(4, 1, 4)]);
    assert_eq!(cache.stats().reincarnated, u64::from(ghosts));
    // Hits in the upstream, outside the bottoms of one strip each, except when strip 2 itself is the last.
    [8, 1, 5].into_iter().zip([1, 0, 0]).for_each(|(strip, block)| {
        assert!(read(&mut cache, strip, block).1.is_empty());
    });
    assert_eq!(cache.upstream_limit(), 4, "the global bottom is strip 4, downstream");
    cache
}

#[test]
fn past_request_states_survive_and_are_not_culled() {
    let mut cache = culled_and_evicted(true);
    // Strip 2 flows down: block 1 is cached, block 0 was requested in its first life, 2 and 3 are culled.
    assert_eq!(read(&mut cache, 12, 0).1, [gone(4, 0, 1), gone(2, 2, 4)]);
    assert_eq!(held(&cache, 2), Blocks::range(0, 2));
    assert_eq!(read(&mut cache, 2, 0).0.here, Blocks::range(0, 1));
    assert_eq!((cache.stats().prefetch_hits, cache.stats().past_hits), (1, 1));
}

#[test]
fn without_ghosts_the_past_is_unknown() {
    let mut cache = culled_and_evicted(false);
    let first = Dropped { strip: StripNo(2), blocks: Blocks::range(0, 4).without(Blocks::range(1, 2)) };
    assert_eq!(read(&mut cache, 12, 0).1, [gone(4, 0, 1), first]);
    assert_eq!(held(&cache, 2), Blocks::range(1, 2));
}

/// Section 2.2: a ghost lives while a sibling does.
#[test]
fn a_ghost_goes_with_the_last_strip_of_its_stripe() {
    let mut cache = cache(Strips::Adaptive { cost_test: false, ghosts: true });
    // Strip 0 of stripe 0 first, then one strip of each of five other stripes, then strip 1.
    [0, 1, 4, 8, 12, 16].into_iter().for_each(|strip| drop(read(&mut cache, strip, 0)));
    assert_eq!(cache.strips(), (5, 0, 1), "0 is a ghost while 1 lives");
    read(&mut cache, 20, 0);
    assert_eq!(cache.strips(), (5, 0, 0), "1 was the last");
    assert_eq!(cache.stats().evicted, 2);
}

/// Section 2.4. A strip costs 5 + 2 + 4 ms, a block 5 + 2 + 1.
#[test]
fn after_a_refusal_only_the_block_is_read_and_has_a_strip_cache() {
    let mut cache = cache(Strips::Adaptive { cost_test: true, ghosts: true });
    // One block of one strip in each stripe, from stripe 1 on: no two accesses follow each other.
    (0..6).for_each(|stripe| assert_eq!(read(&mut cache, 4 + 4 * stripe, 2).0.fetch, Blocks::range(0, 4)));
    let ms = Nanos::from_millis;
    assert_eq!(cache.costs(), Some((ms(5 * 11), ms(5 * 8))), "five strips are left");
    assert_eq!(read(&mut cache, 40, 2).0.fetch, Blocks::range(2, 3));
    assert_eq!(cache.stats().refused_by_cost, 1);
    // 4 blocks of the evicted strip are gone, one was added.
    assert_eq!((cache.strips().0, cache.used()), (5, Pages(17)));
    assert_eq!(cache.costs(), Some((ms(5 * 11), ms(5 * 8))));
    // Three strips are referenced again, at a block that does not follow: 8 ms more without prefetching for
    // each.
    [12, 16].into_iter().for_each(|strip| assert_eq!(read(&mut cache, strip, 0).0.here, Blocks::range(0, 1)));
    assert_eq!(cache.costs(), Some((ms(5 * 11), ms(7 * 8))));
    assert_eq!(read(&mut cache, 44, 2).0.fetch, Blocks::range(0, 4), "55 is not more than 56");
}

/// Section 2.5: MSP's reads do not count; a reference of one of its blocks counts as if it had not been
/// prefetched.
#[test]
fn blocks_from_msp_are_charged_when_they_are_referenced() {
    let mut cache = cache(Strips::Adaptive { cost_test: true, ghosts: true });
    let mut dropped = Vec::new();
    assert_eq!(cache.prefetch(StripNo(8), &mut dropped), Blocks::range(0, 4));
    assert_eq!(cache.prefetch(StripNo(8), &mut dropped), Blocks::NONE, "on its way already");
    assert_eq!(cache.costs(), Some((Nanos::ZERO, Nanos::ZERO)));
    let answer = cache.read(StripNo(8), Blocks::range(1, 3), &mut dropped);
    assert_eq!(answer, Answer { coming: Blocks::range(1, 3), ..Answer::default() });
    assert_eq!(cache.costs(), Some((Nanos::from_millis(11), Nanos::from_millis(9))));
    assert_eq!((cache.stats().massive_blocks, cache.stats().prefetch_hits), (4, 2));
}

#[test]
fn another_replacement_evicts_another_strip() {
    for (replacement, victim) in [(Box::new(Lru) as Box<dyn Replacement>, 1), (Box::new(Fifo::default()), 0)]
    {
        let mut cache = cache_with(Strips::Always, replacement);
        (0..5).for_each(|strip| drop(read(&mut cache, strip, 0)));
        read(&mut cache, 0, 1);
        assert_eq!(read(&mut cache, 9, 0).1, [gone(victim, 0, 4)]);
    }
}

/// Blocks in flight are not evicted or culled; blocks without room are read without the cache.
#[test]
fn a_cache_full_of_fetches_is_bypassed() {
    let mut cache = cache(Strips::Always);
    let mut dropped = Vec::new();
    let one = Blocks::range(0, 1);
    (0..5).for_each(|strip| assert!(!cache.read(StripNo(strip), one, &mut dropped).fetch.is_empty()));
    assert_eq!(cache.read(StripNo(6), one, &mut dropped), Answer { past: one, ..Answer::default() });
    assert_eq!(cache.prefetch(StripNo(7), &mut dropped), Blocks::NONE);
    assert_eq!((dropped.len(), cache.stats().uncached, cache.strips()), (0, 1, (5, 0, 0)));
    cache.arrived(StripNo(3), Blocks::range(0, 4), false, &mut dropped);
    assert_eq!(
        (dropped.len(), cache.used(), cache.strips()),
        (0, Pages(16), (4, 0, 0)),
        "a fetch that failed"
    );
    assert_eq!(cache.read(StripNo(6), one, &mut dropped).fetch, Blocks::range(0, 4));
}

#[test]
fn a_cache_has_at_least_five_strips() {
    let settings = Settings { cache: Pages(19), following: Following::Streams };
    let rules = Rules { strips: Strips::Never, massive: Massive::Never, measured: false };
    let error = StripCache::new(array(4, 400), settings, rules, Arc::new(Simple), Box::new(Lru)).err();
    assert_eq!(error, Some(StripsError::Cache { given: Pages(19), least: Pages(20) }));
}

/// Random reads of single blocks. The paper reads strips until the cache is full; `Careful` does so from the
/// second miss on only where they have paid.
#[test]
fn the_careful_policy_reads_no_strips_for_random_reads() {
    let strips_read = |strips| {
        let settings = Settings { cache: Pages(400), following: Following::Streams };
        let rules = Rules { strips, massive: Massive::Never, measured: false };
        let cache = StripCache::new(array(4, 400), settings, rules, Arc::new(Simple), Box::new(Lru));
        let mut cache = cache.expect("room for all");
        (0..60).for_each(|at| drop(read(&mut cache, at * 37 % 100, 2)));
        cache.stats().strip_blocks
    };
    assert_eq!(strips_read(Strips::Adaptive { cost_test: true, ghosts: true }), 180);
    assert!(strips_read(Strips::Careful) <= 12);
}

/// A number that nobody foresees, below `most`.
fn draw(seed: &mut u64, most: u64) -> u64 {
    for (left, by) in [(true, 13), (false, 7), (true, 17)] {
        *seed ^= if left { *seed << by } else { *seed >> by };
    }
    *seed % most
}

/// Random reads of single blocks of so many strips, above a cache of 100 whole strips: its counters.
fn random_reads(rules: Strips, strips: u64, reads: u64) -> Stats {
    let settings = Settings { cache: Pages(400), following: Following::Streams };
    let rules = Rules { strips: rules, massive: Massive::Never, measured: false };
    let cache = StripCache::new(array(4, 4000), settings, rules, Arc::new(Simple), Box::new(Lru));
    let (mut cache, mut seed) = (cache.expect("large enough"), 88_172_645_463_325_252);
    for _ in 0..reads {
        let block = draw(&mut seed, strips * 4);
        read(&mut cache, block / 4, block % 4);
    }
    cache.stats()
}

/// A strip costs 11 ms and a block 8. Of five times the cache a strip is kept for 1.25 reads: too few. The cache
/// has single blocks of more strips than that, which have been read 1.4 times each.
#[test]
fn the_careful_policy_counts_on_no_strips_that_the_cache_cannot_keep() {
    let stats = random_reads(Strips::Careful, 500, 20_000);
    assert!(stats.strip_blocks * 40 < stats.misses, "{stats:?}");
    let paper = random_reads(Strips::Adaptive { cost_test: true, ghosts: true }, 500, 20_000);
    assert!(paper.strip_blocks * 4 > paper.misses, "{paper:?}");
}

#[test]
fn the_careful_policy_reads_strips_that_the_cache_can_keep() {
    let careful = random_reads(Strips::Careful, 110, 4_000);
    let paper = random_reads(Strips::Adaptive { cost_test: true, ghosts: true }, 110, 4_000);
    assert!(careful.misses * 2 < paper.misses * 3, "{careful:?} {paper:?}");
}

/// Reverse reads pay for a strip with its second block.
#[test]
fn the_careful_policy_reads_strips_where_their_blocks_are_read() {
    let mut cache = cache(Strips::Careful);
    for block in (0..40).rev() {
        read(&mut cache, block / 4, block % 4);
    }
    let stats = cache.stats();
    assert!(stats.misses <= 14 && stats.refused_by_cost <= 4, "{stats:?}");
}

/// Section 2.3 leaves strips off once no prefetched block is left; `Careful` tries again.
#[test]
fn the_careful_policy_resumes_after_random_reads() {
    let hits = |rules| {
        let mut cache = cache(rules);
        // More strips than there is room for, and then the remaining ones, oldest first: cache hits move the
        // limit to its floor.
        (0..40).for_each(|strip| drop(read(&mut cache, strip, 2)));
        for _ in 0..5 {
            let left: Vec<u64> = (0..40).filter(|strip| held(&cache, *strip).has(2)).collect();
            left.into_iter().for_each(|strip| drop(read(&mut cache, strip, 2)));
        }
        let (limit, before) = (cache.upstream_limit(), cache.stats().prefetch_hits);
        (0..4000).for_each(|block| drop(read(&mut cache, 50 + block / 4 % 50, 3 - block % 4)));
        (limit, cache.stats().prefetch_hits - before)
    };
    let (paper, careful) = (hits(Strips::Adaptive { cost_test: true, ghosts: true }), hits(Strips::Careful));
    assert_eq!((paper.0, careful.0), (1, 1), "at the floor");
    assert!(paper.1 < 20 && careful.1 > 2000, "{paper:?} {careful:?}");
}
