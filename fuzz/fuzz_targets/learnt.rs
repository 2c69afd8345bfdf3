//! Arbitrary text as what was learnt: loading never panics, what it leaves behind can be saved and loaded
//! again, and depths by it stay within the bound.
#![no_main]

use foreseek_readahead::depth::{Plan, RatioBound};
use foreseek_readahead::learn::{Classes, Retention, SCHEME};
use foreseek_seam::StreamInfo;
use foreseek_units::Pages;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut classes: Classes<()> = Classes::new(SCHEME, Retention::Fading);
    let _ = classes.load(text);
    let saved = classes.save();
    let mut again: Classes<()> = Classes::new(SCHEME, Retention::Fading);
    again.load(&saved).expect("what was saved can be loaded");
    let chain = classes.chain(Pages(1024), true, &StreamInfo::default());
    let ratio_bound = RatioBound::new(3.0, 131.0);
    let plan = Plan::solve(classes.survival(&chain), ratio_bound, Pages(1024), 0.5);
    let (mut at, mut cost) = (0, 0.0);
    for (fetches, depth) in plan.sequence(64, Pages(1024)).iter().enumerate() {
        cost = (fetches + 1) as f64 + (at + depth.get()) as f64 / 131.0;
        // Ending right after what was read before: rho times the optimum and the transfer of a page.
        assert!(cost <= 3.0 * (1.0 + at as f64 / 131.0) + 1.0 / 131.0 + 1e-3, "{text}");
        at += depth.get();
    }
    assert!(cost > 0.0);
});
