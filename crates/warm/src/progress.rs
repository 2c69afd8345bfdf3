//! What a user sees of long work.

/// A part of the work, which takes its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Directories are listed.
    Listing,
    /// Addresses are looked up.
    Addresses,
    /// Files are fetched.
    Reading,
}

/// The progress of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress<'a> {
    /// A step goes on.
    At {
        /// The step.
        step: Step,
        /// Its finished share; 0 if that is not known.
        share: f64,
        /// What is done, for a person.
        what: &'a str,
    },
    /// A program starts to which the terminal belongs from here on: nothing that follows is shown.
    Over,
}
