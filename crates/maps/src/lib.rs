//! The cluster's maps: OSD map and incrementals, monitor map, pools, placement of groups on OSDs.
#![forbid(unsafe_code)]
