//! CRUSH: from a seed and a map of buckets and rules to devices.
#![forbid(unsafe_code)]
