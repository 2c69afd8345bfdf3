//! Arbitrary text as an experiment: parsing never panics, and what parses can be checked again.
#![no_main]

use foreseek_device::Profile;
use foreseek_simulate::experiment::Experiment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let device = |name: &str| Profile::builtin(name).ok_or_else(|| format!("there is no '{name}'"));
    let Ok(experiment) = Experiment::parse("fuzz.toml", text, &device) else { return };
    experiment.check().expect("what was parsed has been checked");
});
