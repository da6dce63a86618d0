//! The runtime: sockets, disks, threads and the real clock, driving the engines.
