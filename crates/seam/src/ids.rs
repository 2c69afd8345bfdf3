//! Names of what events and commands are about.

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident($raw:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $raw);
    )*};
}

id! {
    /// A file, block device or remote object: what page numbers count within.
    ObjectId(u64);
    /// One opener's way through one object: an open file description.
    StreamId(u64);
    /// A read that waits for an answer.
    RequestId(u64);
    /// A fetch that the engine asked for.
    FetchId(u64);
    /// A question about residency.
    QueryId(u64);
    /// A page-sized buffer; the engine owns the number, the driver the memory.
    FrameId(u32);
    /// A reader: its process id, where the driver can see that.
    ProcessId(u32);
    /// A version of an object's contents. It rises with each change that overtakes fetches.
    Epoch(u32);
}
