//! The fifth axis of a sweep: any one key of an experiment.
//!
//! Devices, policies, concurrency and seeds have lists of their own. A figure over cache sizes, strides or
//! buffers varies one more thing: a key of the machine, the workload, the block layer or the prefetchers.
//! Each of its values makes a variant of the experiment.

use super::Experiment;

/// A key and its values.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The key, as it is written in a file: `machine.memory`.
    pub key: String,
    /// One for each value, in order.
    pub variants: Vec<Variant>,
}

/// The experiment with one value of the key.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The value, as it is written.
    pub value: String,
    /// The experiment with it; its own axis is ignored.
    pub experiment: Experiment,
}

impl Experiment {
    /// The experiments to be run, each with its value of the fifth axis if there is one.
    pub(super) fn variants(&self) -> Vec<(Option<&str>, &Self)> {
        match &self.axis {
            None => vec![(None, self)],
            Some(axis) => {
                let variants = axis.variants.iter();
                variants.map(|variant| (Some(&*variant.value), &variant.experiment)).collect()
            }
        }
    }

    /// The same, changed in all of its variants.
    #[must_use]
    pub fn each(mut self, change: &impl Fn(&mut Self)) -> Self {
        change(&mut self);
        for variant in self.axis.iter_mut().flat_map(|axis| &mut axis.variants) {
            change(&mut variant.experiment);
        }
        self
    }
}
