//! A hard disk, array or network volume that is a file, with modelled timing in real time.
