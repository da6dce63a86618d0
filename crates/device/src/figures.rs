//! A model as text: a model that has a name, and the figures in which the device differs.
//!
//! ```text
//! # A drive behind a slow controller
//! like = nvme
//! read_latency_us = 150
//! read_iops = 90000
//! ```

use crate::controller::Controller;
use crate::model::{BadModel, DeviceModel, Media};

/// Text that describes no device.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum BadFigures {
    /// A line that is no `figure = value`.
    #[error("device model: line {0}: expected FIGURE = VALUE")]
    Line(usize),
    /// The first figure is not `like`, or names nothing.
    #[error("device model: begin with 'like = NAME', where NAME is one of {names}", names = DeviceModel::NAMES.join(", "))]
    Like,
    /// A figure that such a device does not have.
    #[error("device model: line {0}: there is no figure '{1}' of such a device")]
    Unknown(usize, String),
    /// A value that cannot be read.
    #[error("device model: line {0}: '{1}' is not a value of {2}")]
    Value(usize, String, String),
    /// Figures that no device has.
    #[error(transparent)]
    Impossible(#[from] BadModel),
}

impl DeviceModel {
    /// The model that `text` describes.
    pub fn from_figures(text: &str) -> Result<DeviceModel, BadFigures> {
        let mut model: Option<DeviceModel> = None;
        for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line)) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (figure, value) = line.split_once('=').ok_or(BadFigures::Line(number))?;
            let (figure, value) = (figure.trim(), value.trim());
            match &mut model {
                None if figure == "like" => model = Some(DeviceModel::named(value).ok_or(BadFigures::Like)?),
                None => return Err(BadFigures::Like),
                Some(model) => match set(model, figure, value) {
                    Some(true) => {}
                    Some(false) => return Err(BadFigures::Value(number, value.to_owned(), figure.to_owned())),
                    None => return Err(BadFigures::Unknown(number, figure.to_owned())),
                },
            }
        }
        let model = model.ok_or(BadFigures::Like)?;
        model.check()?;
        Ok(model)
    }
}

fn put<T: std::str::FromStr>(field: &mut T, value: &str) -> bool {
    value.parse().map(|value| *field = value).is_ok()
}

/// Sets a figure; false where the value is none of its kind, None where there is no such figure.
fn set(model: &mut DeviceModel, figure: &str, value: &str) -> Option<bool> {
    Some(match (figure, &mut model.media) {
        ("name", _) => put(&mut model.name, value),
        ("capacity_bytes", _) => put(&mut model.capacity_bytes, value),
        ("queue_depth", _) => put(&mut model.queue_depth, value),
        ("flush_us", _) => put(&mut model.flush_us, value),
        ("noise", _) => put(&mut model.noise, value),
        ("read_latency_us", Media::Flash(flash)) => put(&mut flash.read_latency_us, value),
        ("write_latency_us", Media::Flash(flash)) => put(&mut flash.write_latency_us, value),
        ("read_iops", Media::Flash(flash)) => put(&mut flash.read_iops, value),
        ("write_iops", Media::Flash(flash)) => put(&mut flash.write_iops, value),
        ("read_bytes_per_s", Media::Flash(flash)) => put(&mut flash.read_bytes_per_s, value),
        ("write_bytes_per_s", Media::Flash(flash)) => put(&mut flash.write_bytes_per_s, value),
        ("spindles", Media::Platters(disks)) => put(&mut disks.spindles, value),
        ("stripe_bytes", Media::Platters(disks)) => put(&mut disks.stripe_bytes, value),
        ("parity", Media::Platters(disks)) => put(&mut disks.parity, value),
        ("rotations_per_minute", Media::Platters(disks)) => put(&mut disks.rotations_per_minute, value),
        ("track_seek_ms", Media::Platters(disks)) => put(&mut disks.track_seek_ms, value),
        ("full_seek_ms", Media::Platters(disks)) => put(&mut disks.full_seek_ms, value),
        ("command_us", Media::Platters(disks)) => put(&mut disks.command_us, value),
        ("bytes_per_s", Media::Platters(disks)) => put(&mut disks.bytes_per_s, value),
        (_, Media::Platters(disks)) => {
            return disks.controller.as_mut().and_then(|it| set_controller(it, figure, value));
        }
        _ => return None,
    })
}

fn set_controller(controller: &mut Controller, figure: &str, value: &str) -> Option<bool> {
    Some(match figure {
        "controller_us" => put(&mut controller.controller_us, value),
        "link_bytes_per_s" => put(&mut controller.link_bytes_per_s, value),
        "read_ahead_bytes" => put(&mut controller.read_ahead_bytes, value),
        "read_ahead_streams" => put(&mut controller.read_ahead_streams, value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_change_a_named_model() {
        let text = "# A slow one\nlike = nvme\n\nname = old\nread_latency_us = 150.5 # measured\nqueue_depth=64\n";
        let model = DeviceModel::from_figures(text).expect("it describes a drive");
        let mut expected = DeviceModel { name: "old".to_owned(), queue_depth: 64, ..DeviceModel::nvme() };
        let Media::Flash(flash) = &mut expected.media else { panic!("a drive is flash") };
        flash.read_latency_us = 150.5;
        assert_eq!(model, expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str| DeviceModel::from_figures(text).expect_err(text).to_string();
        assert_eq!(
            refused(""),
            "device model: begin with 'like = NAME', where NAME is one of nvme, ssd, hdd, hdd-array"
        );
        assert_eq!(refused("like = tape"), refused("noise = 1"));
        assert_eq!(refused("like = hdd\nfaster"), "device model: line 2: expected FIGURE = VALUE");
        assert_eq!(
            refused("like = hdd\nread_iops = 7"),
            "device model: line 2: there is no figure 'read_iops' of such a device"
        );
        assert_eq!(refused("like = hdd\nspindles = many"), "device model: line 2: 'many' is not a value of spindles");
        assert_eq!(refused("like = nvme\nread_iops = -1"), "device model: read_iops must be a positive number, not -1");
    }
}
