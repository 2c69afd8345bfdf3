//! A block device out of a server: a FUSE file under a direct-I/O loop device.
