//! What describes a device: the figures of its data sheet.

use crate::controller::Controller;
use crate::flash::Flash;
use crate::platter::Platters;

/// A device as its figures describe it.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceModel {
    /// What people call it.
    pub name: String,
    /// Its size in bytes; offsets are taken modulo this.
    pub capacity_bytes: u64,
    /// How many requests it works on at once; later ones wait outside, in their order.
    pub queue_depth: u32,
    /// What a flush adds once everything written before it has ended, in microseconds.
    pub flush_us: f64,
    /// The spread of latencies: their standard deviation as a share of their mean, 0 to 0.3.
    pub noise: f64,
    /// What the bytes lie on.
    pub media: Media,
}

/// The kinds of media.
#[derive(Clone, PartialEq, Debug)]
pub enum Media {
    /// No moving parts.
    Flash(Flash),
    /// Rotating disks, one or an array.
    Platters(Platters),
}

/// A model that no device can be.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("device model: {what} must be {range}, not {found}")]
pub struct BadModel {
    /// The figure.
    pub what: &'static str,
    /// What it may be.
    pub range: &'static str,
    /// What it is.
    pub found: f64,
}

impl DeviceModel {
    /// The models that have a name.
    pub const NAMES: [&'static str; 4] = ["nvme", "ssd", "hdd", "hdd-array"];

    /// The model of that name.
    pub fn named(name: &str) -> Option<DeviceModel> {
        match name {
            "nvme" => Some(DeviceModel::nvme()),
            "ssd" => Some(DeviceModel::ssd()),
            "hdd" => Some(DeviceModel::hdd()),
            "hdd-array" => Some(DeviceModel::hdd_array()),
            _ => None,
        }
    }

    /// An NVMe drive for data centres with power-loss protection: the data sheet's figures of a 1.6 TB drive of 2018
    /// (77 and 18 us, 640,000 and 200,000 I/Os, 3.2 and 2.1 GB/s).
    pub fn nvme() -> DeviceModel {
        DeviceModel {
            name: "nvme".to_owned(),
            capacity_bytes: 1_600_000_000_000,
            queue_depth: 1024,
            flush_us: 10.0,
            noise: 0.1,
            media: Media::Flash(Flash {
                read_latency_us: 77.0,
                write_latency_us: 18.0,
                read_iops: 640_000.0,
                write_iops: 200_000.0,
                read_bytes_per_s: 3.2e9,
                write_bytes_per_s: 2.1e9,
            }),
        }
    }

    /// A SATA flash drive for data centres with power-loss protection (about 100 and 50 us, 98,000 and 30,000 I/Os,
    /// 550 and 520 MB/s, 32 commands at once).
    pub fn ssd() -> DeviceModel {
        DeviceModel {
            name: "ssd".to_owned(),
            capacity_bytes: 960_000_000_000,
            queue_depth: 32,
            flush_us: 100.0,
            noise: 0.15,
            media: Media::Flash(Flash {
                read_latency_us: 100.0,
                write_latency_us: 50.0,
                read_iops: 98_000.0,
                write_iops: 30_000.0,
                read_bytes_per_s: 5.5e8,
                write_bytes_per_s: 5.2e8,
            }),
        }
    }

    /// A disk of 4 TB with 7,200 rotations a minute, its write cache off, 32 commands at once.
    pub fn hdd() -> DeviceModel {
        DeviceModel {
            name: "hdd".to_owned(),
            capacity_bytes: 4_000_000_000_000,
            queue_depth: 32,
            flush_us: 0.0,
            noise: 0.0,
            media: Media::Platters(Platters {
                spindles: 1,
                stripe_bytes: 64 << 10,
                parity: false,
                rotations_per_minute: 7_200.0,
                track_seek_ms: 1.0,
                full_seek_ms: 16.0,
                command_us: 100.0,
                bytes_per_s: 1.8e8,
                controller: None,
            }),
        }
    }

    /// Twelve such disks behind a controller as RAID 5, in stripes of 64 KiB. The link is Fibre Channel of 4 Gb/s
    /// (4.25 Gbaud, 8b/10b, 2,112 bytes of each frame of 2,148 and 24 between frames: 413 MB/s), a command takes what one
    /// that the cache of such an array answered took (1/4 ms), and it reads 4 MiB ahead of up to 128 streams: a cache of
    /// 512 MiB. Rates hardly change from 3.5 MiB on; with less, disks spend their time on the way between streams.
    pub fn hdd_array() -> DeviceModel {
        let DeviceModel { capacity_bytes, media: Media::Platters(one), .. } = DeviceModel::hdd() else {
            unreachable!("a disk has platters")
        };
        let controller = Controller {
            controller_us: 250.0,
            link_bytes_per_s: 4.13e8,
            read_ahead_bytes: 4 << 20,
            read_ahead_streams: 128,
        };
        DeviceModel {
            name: "hdd-array".to_owned(),
            capacity_bytes: capacity_bytes * 11,
            queue_depth: 12 * 32,
            flush_us: 0.0,
            noise: 0.0,
            media: Media::Platters(Platters { spindles: 12, parity: true, controller: Some(controller), ..one }),
        }
    }

    /// Refuses figures that no device has.
    pub fn check(&self) -> Result<(), BadModel> {
        let within =
            |what, range, found: f64, good: bool| if good { Ok(()) } else { Err(BadModel { what, range, found }) };
        let positive = |what, found: f64| within(what, "a positive number", found, found > 0.0 && found.is_finite());
        let not_negative = |what, found: f64| within(what, "0 or more", found, found >= 0.0 && found.is_finite());
        positive("capacity_bytes", self.capacity_bytes as f64)?;
        positive("queue_depth", f64::from(self.queue_depth))?;
        not_negative("flush_us", self.flush_us)?;
        within("noise", "from 0 to 0.3", self.noise, (0.0..=0.3).contains(&self.noise))?;
        match &self.media {
            Media::Flash(flash) => {
                positive("read_iops", flash.read_iops)?;
                positive("write_iops", flash.write_iops)?;
                positive("read_bytes_per_s", flash.read_bytes_per_s)?;
                positive("write_bytes_per_s", flash.write_bytes_per_s)?;
                not_negative("read_latency_us", flash.read_latency_us)?;
                not_negative("write_latency_us", flash.write_latency_us)
            }
            Media::Platters(p) => {
                within("spindles", "from 1 to 1024", f64::from(p.spindles), (1..=1024).contains(&p.spindles))?;
                let enough = !p.parity || p.spindles >= 3;
                within("spindles", "3 or more with parity", f64::from(p.spindles), enough)?;
                positive("stripe_bytes", p.stripe_bytes as f64)?;
                positive("rotations_per_minute", p.rotations_per_minute)?;
                not_negative("track_seek_ms", p.track_seek_ms)?;
                let ordered = p.full_seek_ms >= p.track_seek_ms && p.full_seek_ms.is_finite();
                within("full_seek_ms", "track_seek_ms or more", p.full_seek_ms, ordered)?;
                not_negative("command_us", p.command_us)?;
                positive("bytes_per_s", p.bytes_per_s)?;
                let Some(controller) = &p.controller else { return Ok(()) };
                not_negative("controller_us", controller.controller_us)?;
                positive("link_bytes_per_s", controller.link_bytes_per_s)?;
                let streams = controller.read_ahead_streams;
                within("read_ahead_streams", "from 1 to 65536", f64::from(streams), (1..=65_536).contains(&streams))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_model_is_a_possible_device() {
        for name in DeviceModel::NAMES {
            let model = DeviceModel::named(name).expect("it has a name");
            assert_eq!(model.name, name);
            assert_eq!(model.check(), Ok(()));
        }
        assert_eq!(DeviceModel::named("tape"), None);
    }

    #[test]
    fn an_impossible_figure_is_named() {
        let mut model = DeviceModel::hdd_array();
        let Media::Platters(platters) = &mut model.media else { panic!("an array has platters") };
        platters.spindles = 2;
        let refused = model.check().expect_err("two disks hold no parity");
        assert_eq!(refused.to_string(), "device model: spindles must be 3 or more with parity, not 2");
        let noisy = DeviceModel { noise: f64::NAN, ..DeviceModel::nvme() };
        assert_eq!(noisy.check().map_err(|e| e.what), Err("noise"));
    }
}
