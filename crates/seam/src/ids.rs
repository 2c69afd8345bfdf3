//! Identifiers in events and commands.

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident($raw:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $raw);
    )*};
}

id! {
    /// A file, block device or remote object: the scope of page numbers.
    ObjectId(u64);
    /// One opening of one object: an open file description.
    StreamId(u64);
    /// A read that waits for an answer.
    RequestId(u64);
    /// A fetch that the engine requested.
    FetchId(u64);
    /// A query of residency.
    QueryId(u64);
    /// A page-sized buffer; the engine owns the number, the driver the memory.
    FrameId(u32);
    /// A reading process: its id, if the driver can see that.
    ProcessId(u32);
    /// A version of an object's contents. It rises with each change that overtakes fetches.
    Epoch(u32);
}
