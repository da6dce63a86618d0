//! What a daemon says of the machine it runs on, for `ceph osd metadata` and `ceph mon metadata`.
//!
//! Owns the reading of the kernel's and the distribution's files, and Ceph's names for what they say (v16.2
//! `src/common/util.cc`, `collect_sys_info`). A file that cannot be read leaves its part out.

use osd::Resident;
use std::collections::BTreeMap;
use std::path::Path;

/// Metadata by Ceph's names.
pub(crate) type Metadata = BTreeMap<String, String>;

/// This machine.
pub(crate) fn metadata(hostname: &str) -> Metadata {
    let file = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let mut found = Metadata::new();
    let mut say = |key: &str, value: &str| {
        if !value.is_empty() {
            found.insert(key.to_owned(), value.to_owned());
        }
    };
    say("hostname", hostname);
    say("arch", std::env::consts::ARCH);
    say("os", file("/proc/sys/kernel/ostype").trim());
    say("kernel_version", file("/proc/sys/kernel/osrelease").trim());
    say("kernel_description", file("/proc/sys/kernel/version").trim());
    say("cpu", field(&file("/proc/cpuinfo"), ':', "model name"));
    let memory = file("/proc/meminfo");
    say("mem_total_kb", field(&memory, ':', "MemTotal").trim_end_matches(" kB"));
    say("mem_swap_kb", field(&memory, ':', "SwapTotal").trim_end_matches(" kB"));
    let release = file("/etc/os-release");
    say("distro", field(&release, '=', "ID"));
    say("distro_description", field(&release, '=', "PRETTY_NAME"));
    say("distro_version", field(&release, '=', "VERSION_ID"));
    found
}

/// Memory that this process has.
pub(crate) fn resident() -> Option<Resident> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let bytes = |name| Some(field(&status, ':', name).trim_end_matches(" kB").parse::<u64>().ok()? << 10);
    Some(Resident { all: bytes("VmRSS")?, program: bytes("RssFile")? })
}

/// The first value of a key in lines of `KEY SEPARATOR VALUE`, without quotes; empty where there is none.
fn field<'a>(text: &'a str, separator: char, key: &str) -> &'a str {
    let value = text.lines().filter_map(|line| line.split_once(separator)).find(|(name, _)| name.trim() == key);
    value.map_or("", |(_, value)| value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let release = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(field(release, '=', "PRETTY_NAME"), "Debian GNU/Linux 12 (bookworm)");
        assert_eq!((field(release, '=', "ID"), field(release, '=', "NAME")), ("debian", ""));
        assert_eq!(field("model name\t: A CPU\nmodel name\t: A CPU\n", ':', "model name"), "A CPU");
        assert_eq!(field("MemTotal:       24684096 kB\n", ':', "MemTotal"), "24684096 kB");
    }

    #[test]
    fn this_process_has_memory() {
        let resident = resident().expect("Linux says so");
        assert!(resident.program > 1 << 19 && resident.all > resident.program, "{resident:?}");
    }

    #[test]
    fn this_machine_has_a_name_and_memory() {
        let said = metadata("here");
        assert_eq!(said["hostname"], "here");
        assert!(said["mem_total_kb"].parse::<u64>().is_ok_and(|kb| kb > 0));
    }
}
