//! What the published study ran on, as far as the model knows it: each figure with its origin.
//!
//! "QoS Study with mClock and WPQ Schedulers" (Ceph's documentation, `doc/dev/osd_internals/mclock_wpq_cmp_study.rst`):
//! one host, four OSDs, size 3; Intel P3700 of 800 GB, or Seagate ST91000640NS of 1 TB, with or without the log and the
//! metadata on flash.

use device::{DeviceModel, Flash, Media};
use std::collections::BTreeMap;

/// OSDs of the cluster, and copies of each object.
pub(super) const OSDS: u32 = 4;
pub(super) const SIZE: u32 = 3;

/// Disks whose logs and metadata are on flash, as one names them.
pub(super) const HDD_WITH_FLASH: &str = "hdd with log and metadata on flash";

/// Writes a second that the client comes to with a cluster that never keeps it waiting: the published baseline on flash.
pub(super) const CLIENT_IOPS: f64 = 21_500.0;

/// A kind of OSD.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Hardware {
    /// Its name in configurations.
    pub(super) name: &'static str,
    /// Whether options for rotating disks count.
    pub(super) rotational: bool,
    /// 4 KiB writes a second of a client at depth 64 on the whole cluster while nothing is recovered. Published; it is
    /// what the published study gave each OSD as its capacity, too.
    pub(super) baseline_iops: f64,
    /// The store: the drive's data sheet, and for a disk's small writes the baseline.
    pub(super) store: DeviceModel,
    /// `bluestore_throttle_bytes`: published.
    pub(super) throttle_bytes: u64,
    /// `bluestore_throttle_cost_per_io`: v16.2's defaults.
    pub(super) throttle_cost_per_io: u64,
    /// `osd_op_num_shards` times `osd_op_num_threads_per_shard`: v16.2's defaults.
    pub(super) threads: u32,
    /// `osd_op_num_shards`: v16.2's default.
    pub(super) shards: u32,
    /// Objects of 4 MiB that the recovery pool was filled with; three in four had a copy on the OSD that was away.
    pub(super) objects: u32,
    /// The pause between recoveries of an OSD that follows from its devices, outside mClock; an option's name.
    pub(super) sleep_option: &'static str,
}

/// Small writes that one OSD has to do for the cluster to reach the baseline.
fn writes_of_one(baseline_iops: f64) -> f64 {
    baseline_iops * f64::from(SIZE) / f64::from(OSDS)
}

impl Hardware {
    /// The kinds, in the order of the publication.
    pub(super) fn all() -> [Hardware; 3] {
        [
            Hardware::nvme(),
            Hardware::disk(HDD_WITH_FLASH, 340.0, "osd_recovery_sleep_hybrid"),
            Hardware::disk("hdd alone", 315.0, "osd_recovery_sleep_hdd"),
        ]
    }

    /// The P3700's data sheet: 20 us, 2.8 and 1.9 GB/s, 460,000 reads and 90,000 writes a second. That is much more than the
    /// baseline asks of it, which is the client's own limit then (`CLIENT_IOPS`).
    fn nvme() -> Hardware {
        let flash = Flash {
            read_latency_us: 20.0,
            write_latency_us: 20.0,
            read_iops: 460_000.0,
            // 90,000 writes a second, two for each of an OSD's: the data, and its record in the log.
            write_iops: 45_000.0,
            read_bytes_per_s: 2.8e9,
            write_bytes_per_s: 1.9e9,
        };
        Hardware {
            name: "nvme",
            rotational: false,
            baseline_iops: CLIENT_IOPS,
            store: store("nvme", 800_000_000_000, 0.1, flash),
            throttle_bytes: 256 << 10,
            throttle_cost_per_io: 4_000,
            threads: 16,
            shards: 8,
            objects: 100_000,
            sleep_option: "osd_recovery_sleep_ssd",
        }
    }

    /// The ST91000640NS's data sheet: 115 MB/s, 8.5 ms and 4.16 ms to a place on it. Its small writes follow from the baseline.
    fn disk(name: &'static str, baseline_iops: f64, sleep_option: &'static str) -> Hardware {
        let positioning_us = 8_500.0 + 4_160.0;
        let flash = Flash {
            read_latency_us: positioning_us,
            write_latency_us: positioning_us,
            read_iops: 1e6 / positioning_us,
            write_iops: writes_of_one(baseline_iops),
            read_bytes_per_s: 115e6,
            write_bytes_per_s: 115e6,
        };
        Hardware {
            name,
            rotational: true,
            baseline_iops,
            store: store(name, 1_000_000_000_000, 0.1, flash),
            throttle_bytes: 40 << 20,
            throttle_cost_per_io: 670_000,
            threads: 5,
            shards: 5,
            objects: 5_000,
            sleep_option,
        }
    }

    /// The parameters, for the report.
    pub(super) fn parameters(&self) -> BTreeMap<String, String> {
        let Media::Flash(store) = &self.store.media else { unreachable!("the model's stores are servers") };
        let of = |what: &str| format!("{}: {what}", self.name);
        BTreeMap::from([
            (of("client"), format!("{CLIENT_IOPS} writes/s at the most (published baseline on flash)")),
            (of("baseline"), format!("{} IOPS of the cluster (published)", self.baseline_iops)),
            (of("small writes of an OSD"), format!("{}/s ({})", store.write_iops, self.small_writes_from())),
            (of("reads"), format!("{} B/s, {} us (data sheet)", store.read_bytes_per_s, store.read_latency_us)),
            (of("writes"), format!("{} B/s, {} us (data sheet)", store.write_bytes_per_s, store.write_latency_us)),
            (of("throttle"), format!("{} bytes (published)", self.throttle_bytes)),
            (of("throttle, an I/O"), format!("{} bytes (v16.2's default)", self.throttle_cost_per_io)),
            (of("shards and threads"), format!("{} and {} (v16.2's default)", self.shards, self.threads)),
        ])
    }

    fn small_writes_from(&self) -> String {
        if self.rotational { format!("the baseline, times {SIZE}, by {OSDS}") } else { "data sheet, by 2".to_owned() }
    }
}

fn store(name: &str, capacity_bytes: u64, noise: f64, flash: Flash) -> DeviceModel {
    let media = Media::Flash(flash);
    DeviceModel { name: name.to_owned(), capacity_bytes, queue_depth: 4096, flush_us: 0.0, noise, media }
}
