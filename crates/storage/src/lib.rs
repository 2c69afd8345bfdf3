//! Real I/O: fadvise, residency, physical layout, memory limits, loop devices.
