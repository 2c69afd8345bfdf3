//! All prefetchers of streams by name: the product's, and the kernels' own read-ahead.

use crate::{Kernel, Settings};
use foreseek_readahead::stream::{self, Prefetcher, UnknownPolicy};
use foreseek_units::DeviceCosts;
use std::sync::Arc;

/// The names of all policies.
pub fn names() -> impl Iterator<Item = &'static str> {
    let kernels = Kernel::ALL.into_iter().map(Kernel::name);
    stream::names().take(1).chain(kernels).chain(stream::names().skip(1))
}

/// One line about a policy, if there is one of this name.
#[must_use]
pub fn about(name: &str) -> Option<&'static str> {
    Kernel::named(name).map(Kernel::about).or_else(|| stream::about(name))
}

/// Makes the prefetcher of this name for a device.
///
/// # Errors
/// There is no policy of this name; the message lists those that there are.
pub fn by_name(
    name: &str,
    settings: &Settings,
    costs: &Arc<dyn DeviceCosts>,
) -> Result<Box<dyn Prefetcher>, UnknownPolicy> {
    let ruled = settings.ruled();
    match Kernel::named(name) {
        Some(kernel) => Ok(stream::stock(kernel.under(settings.congestion), &ruled)),
        None => stream::by_name(name, &ruled, costs)
            .map_err(|_| UnknownPolicy { name: name.to_owned(), known: names().collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_readahead::stream::testing::costs;

    #[test]
    fn every_policy_is_made_by_its_name() {
        for name in names() {
            assert!(by_name(name, &Settings::default(), &costs("exos-18t")).is_ok(), "{name}");
            assert!(about(name).is_some_and(|about| !about.is_empty()), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_are_known() {
        let unknown =
            by_name("linux-2.4", &Settings::default(), &costs("exos-18t")).err().expect("no policy");
        let message = unknown.to_string();
        assert!(
            message.starts_with("no prefetcher is called 'linux-2.4': there are none, linux-2.6.3,"),
            "{message}"
        );
    }
}
