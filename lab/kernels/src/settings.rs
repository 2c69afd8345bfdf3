//! The read-ahead settings of the papers' kernels.

use crate::{Congestion, Kernel};
use foreseek_readahead::depth::{Averaging, PageMeasure};
use foreseek_readahead::stream;
use foreseek_units::Pages;

/// Settings of read-ahead in a kernel of the papers.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The settings of the policies; the window machine may be any kernel's.
    pub stream: stream::Settings,
    /// What a congested queue does to the windows of 2.6.3 and 2.6.10.
    pub congestion: Congestion,
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(Kernel::Linux2_6_3)
    }
}

impl Settings {
    /// A kernel as it was, with the rule of congestion of [`Congestion::default`].
    #[must_use]
    pub fn of(kernel: Kernel) -> Self {
        let congestion = Congestion::default();
        let generation = kernel.under(congestion);
        Self { stream: stream::Settings { generation, ..stream::Settings::default() }, congestion }
    }

    /// The kernel of TR-840 and the position paper: Linux 2.6.3 with its anomalies corrected (that of
    /// congestion as Linux 2.6.11 did), an average of the seek distances, and 256 pages for aggressive
    /// prefetching.
    #[must_use]
    pub fn tr840() -> Self {
        let mut settings = Self::of(Kernel::Linux2_6_3);
        settings.stream.averaging = Averaging::Distances;
        settings.stream.page_measure = PageMeasure::Paper;
        settings
    }

    /// The kernel of EuroSys'07: an unmodified Linux 2.6.10 (its section 5: "we have not modified other aspects
    /// of the prefetching algorithm"), an average of the seek times, and 800 KB (200 pages) for aggressive
    /// prefetching.
    #[must_use]
    pub fn eurosys() -> Self {
        let mut settings = Self::of(Kernel::Linux2_6_10);
        settings.congestion = Congestion::Stock;
        settings.stream.aggressive = Pages(200);
        settings.stream.averaging = Averaging::Times;
        settings.stream.page_measure = PageMeasure::Paper;
        settings
    }

    /// The guest kernel of EuroSys'07 section 6.3: Linux 2.6.16, whose read-ahead is that of 2.6.18.
    #[must_use]
    pub fn eurosys_guest() -> Self {
        let mut settings = Self::eurosys();
        settings.stream.generation = Kernel::Linux2_6_18.under(settings.congestion);
        settings
    }

    /// The settings of the policies, under the rule of congestion.
    pub(crate) fn ruled(&self) -> stream::Settings {
        let generation = match Kernel::named(self.stream.generation.name()) {
            Some(kernel) => kernel.under(self.congestion),
            None => self.stream.generation,
        };
        stream::Settings { generation, ..self.stream.clone() }
    }
}
