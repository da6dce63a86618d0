//! Settings of OSDs' queues that have no effect: values for the profile `custom` while a built-in profile is in force.
//!
//! Ceph v16.2 lets such values win over the profile that was chosen afterwards, silently (tracker 55153). Here they are
//! without effect, and whoever sets them, or asks for the cluster's health, is told so.

use crate::mon::Mon;
use crate::options::find;
use crate::services::config::Target;

/// A setting without effect.
pub(crate) struct Ignored {
    /// For whom, which, and why.
    pub(crate) text: String,
    /// Whether the queue that looks at such settings is in force.
    pub(crate) matters: bool,
}

/// Whether an option is one of the nine values of `custom`.
fn is_custom(name: &str) -> bool {
    let ends = ["_res", "_wgt", "_lim"];
    name.starts_with("osd_mclock_scheduler_") && ends.iter().any(|end| name.ends_with(end))
}

impl Mon {
    /// What the settings of a section come to for one option.
    fn osd_option(&self, section: &str, name: &str) -> String {
        let entity = if section.starts_with("osd.") { section } else { "osd" };
        let default = find(name).map_or("", |option| option.default);
        self.central.value_for(entity, name).unwrap_or(default).to_owned()
    }

    fn judge(&self, target: &Target, name: &str, value: &str) -> Option<Ignored> {
        let section = target.section.as_str();
        if !is_custom(name) || !(section == "global" || section == "osd" || section.starts_with("osd.")) {
            return None;
        }
        let profile = self.osd_option(section, "osd_mclock_profile");
        // A value for many may be meant for the one that has the profile.
        let custom_below = || {
            let mut settings = self.central.settings();
            !section.starts_with("osd.") && settings.any(|(_, name, v)| name == "osd_mclock_profile" && v == "custom")
        };
        if profile == "custom" || custom_below() {
            return None;
        }
        let text = format!("{name} = {value} of {} has no effect under osd_mclock_profile {profile}", target.who());
        Some(Ignored { text, matters: self.osd_option(section, "osd_op_queue") == "mclock_scheduler" })
    }

    /// All settings without effect.
    pub(crate) fn ignored_queue_settings(&self) -> Vec<Ignored> {
        self.central.settings().filter_map(|(target, name, value)| self.judge(target, name, value)).collect()
    }

    /// What to tell somebody who has just set an option, if there is something to tell.
    pub(crate) fn remark_on_setting(&self, target: &Target, name: &str, value: &str) -> String {
        if let Some(ignored) = self.judge(target, name, value) {
            return ignored.text;
        }
        if name != "osd_mclock_profile" {
            return String::new();
        }
        let ignored: Vec<String> = self.ignored_queue_settings().into_iter().map(|ignored| ignored.text).collect();
        ignored.join("\n")
    }
}
