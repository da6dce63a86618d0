//! The command line: verbs, flags and their help.

use crate::sim::SimArgs;
use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// A storage cluster in one binary, for stock Ceph clients.
#[derive(Debug, Parser)]
#[command(name = "loligo", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start a cluster in DIR, making it where there is none, and return or wait once it is HEALTH_OK
    Up(Up),
    /// Stop the cluster in DIR cleanly
    Down(Dir),
    /// Show what runs in DIR and how it is
    Status(Status),
    /// Run the monitor of the cluster in DIR
    Mon(Dir),
    /// Run one OSD of the cluster in DIR
    Osd(OsdArgs),
    /// Look through the extent stores of stopped OSDs for damage
    Fsck(FsckArgs),
    /// Look into the extent store of a stopped OSD
    #[command(subcommand)]
    Store(StoreVerb),
    /// Run whole clusters in virtual time, with faults and checks
    Sim(SimArgs),
    /// Promise tenants their share of service
    #[command(subcommand)]
    Qos(QosVerb),
    /// Show what each tenant gets now
    Top(TopArgs),
    /// Run a benchmark study, with a table, JSON and an HTML report
    Study(StudyArgs),
    /// Run a whole embedded cluster that somebody else watches over
    #[command(hide = true)]
    Serve(Dir),
}

/// Where the objects are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// In memory; a clean stop saves them, a crash loses them
    Memory,
    /// On disk, one file or block device per OSD; what is acknowledged survives a crash
    Extent,
}

impl Store {
    /// Its name, as the option `osd_objectstore` has it.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Store::Memory => "memory",
            Store::Extent => "extent",
        }
    }
}

/// `loligo up`.
#[derive(Debug, Parser)]
pub(crate) struct Up {
    /// The cluster's directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// How many OSDs a new cluster gets [default: 3], or how many one that is there is to have, if more than it has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) osds: Option<u16>,
    /// Where the objects of a new cluster are kept [default: extent]
    #[arg(long, value_enum)]
    pub(crate) store: Option<Store>,
    /// Keeps the logs of a new cluster's OSDs on faster media: a file or block device for one OSD, a directory or a path
    /// with $id for several
    #[arg(long, value_name = "PATH")]
    pub(crate) log_device: Option<String>,
    /// The same for the metadata
    #[arg(long, value_name = "PATH")]
    pub(crate) meta_device: Option<String>,
    /// Makes every OSD's disk behave like another: nvme, ssd, hdd, hdd-array, or a file of figures; of a new cluster
    /// with the extent store
    #[arg(long, value_name = "MODEL")]
    pub(crate) device_model: Option<String>,
    /// The monitor's port in a new cluster [default: 3300]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// One process per daemon instead of one thread per daemon
    #[arg(long)]
    pub(crate) processes: bool,
    /// Return once the cluster is HEALTH_OK and leave it running
    #[arg(long)]
    pub(crate) detach: bool,
    /// An option for a new cluster's ceph.conf, as KEY=VALUE; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// A cluster's directory.
#[derive(Debug, Parser)]
pub(crate) struct Dir {
    /// The cluster's directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// `loligo status`.
#[derive(Debug, Parser)]
pub(crate) struct Status {
    /// The cluster's directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Plain)]
    pub(crate) format: Format,
}

/// How to print an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Plain,
    /// For programs
    Json,
}

/// `loligo osd`.
#[derive(Debug, Parser)]
pub(crate) struct OsdArgs {
    /// The OSD's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..), required_unless_present = "join")]
    pub(crate) id: Option<i32>,
    /// Add a new OSD to the running cluster that DIR's ceph.conf names, with the next free number, and run it; DIR needs
    /// that file and ceph.client.admin.keyring
    #[arg(long, conflicts_with = "id")]
    pub(crate) join: bool,
    /// The cluster's directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Where an OSD that is new keeps its log, if not with its data: a file or block device
    #[arg(long, value_name = "PATH")]
    pub(crate) log_device: Option<PathBuf>,
    /// The same for its metadata
    #[arg(long, value_name = "PATH")]
    pub(crate) meta_device: Option<PathBuf>,
}

/// The studies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StudyName {
    /// Groups of readers share a device by weight, in time mode and in IOPS mode
    Fairness,
    /// A thousand tenants, some of them hogs: what each gets of its promise
    Tenants,
    /// A client's random 4 KiB writes alone
    Baseline,
    /// The same while an OSD that was away is filled, under five configurations of scheduler and limits
    Recovery,
}

/// `loligo study`.
#[derive(Debug, Parser)]
pub(crate) struct StudyArgs {
    /// Which
    #[arg(value_name = "NAME", value_enum)]
    pub(crate) name: StudyName,
    /// Where: in virtual time (sim), on what the study starts on this machine (live), or on the cluster of a ceph.conf
    #[arg(long, value_name = "sim|live|CEPH_CONF", default_value = "sim")]
    pub(crate) on: String,
    /// The directory of its files; a study that was interrupted goes on there [default: study-NAME-ON]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Runs of each configuration
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// Only configurations whose names contain TEXT
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// The number that decides everything random
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The device to model: nvme, ssd, hdd, hdd-array, or a file of figures; several on sim. For recovery also "hdd with
    /// log and metadata on flash"
    #[arg(long, value_name = "MODEL")]
    pub(crate) device_model: Vec<String>,
    /// Seconds of each run that are measured
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub(crate) seconds: Option<u32>,
    /// fairness: readers of a group, a configuration each [default: 1,2,4,8]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub(crate) readers: Vec<u32>,
    /// fairness on sim: what is read ahead for a reader at a time, in KiB (128 is Linux's)
    #[arg(long, value_name = "KIB", default_value_t = 128)]
    pub(crate) read_ahead_kib: u32,
    /// recovery: objects of 4 MiB in the recovery pool [default: as published on sim (100,000 on nvme), 128 live]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) objects: Option<u32>,
    /// baseline and recovery on a cluster: the client's writes under way
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) depth: u32,
    /// baseline and recovery on a cluster: the size of the client's image
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) image_mib: u32,
    /// baseline and recovery on a cluster: placement groups of each pool
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=32768))]
    pub(crate) pgs: u32,
    /// recovery on a cluster: 4 KiB writes a second that mClock is told an OSD does [default: as the OSD measures]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) capacity_iops: Option<u32>,
    /// recovery on a cluster: a shell command that restarts all OSDs, where they change their scheduler only so
    #[arg(long, value_name = "COMMAND")]
    pub(crate) restart: Option<String>,
    /// baseline and recovery on live: the monitor's port [default: any that is free]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// recovery on sim: shards that keep an OSD's promises together, as Loligo's one does [default: those of Ceph v16.2, each
    /// with its part of the promises]; tenants: a configuration each [default: 1,4,16]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub(crate) shards: Vec<u32>,
    /// tenants: how many there are
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) tenants: u32,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Plain)]
    pub(crate) format: Format,
}

/// A running cluster.
#[derive(Debug, Parser)]
pub(crate) struct At {
    /// The cluster's directory [default: the cluster of CEPH_CONF]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// `loligo qos`. A tenant is an entity (client.NAME), a pool (pool:POOL), a namespace (namespace:POOL/NAMESPACE) or an RBD
/// image by its name or id (image:POOL/[NAMESPACE/]IMAGE); a promise is the image's, whatever name it has later.
#[derive(Debug, Subcommand)]
pub(crate) enum QosVerb {
    /// Promise a tenant a share of service; what is not named stays as it is, 0 takes it back
    Set {
        #[command(flatten)]
        at: At,
        /// client.NAME, pool:POOL, namespace:POOL/NAMESPACE or image:POOL/[NAMESPACE/]IMAGE
        #[arg(value_name = "TENANT")]
        tenant: String,
        /// At least so many operations a second, of up to 64 KiB each, from the whole cluster
        #[arg(long, value_name = "IOPS")]
        reservation: Option<String>,
        /// At least so many bytes a second
        #[arg(long, value_name = "BYTES")]
        reservation_bytes: Option<String>,
        /// Parts of what is left, from 1 to 1000
        #[arg(long, value_name = "PARTS")]
        weight: Option<String>,
        /// At most so many operations a second
        #[arg(long, value_name = "IOPS")]
        limit: Option<String>,
        /// At most so many bytes a second
        #[arg(long, value_name = "BYTES")]
        limit_bytes: Option<String>,
    },
    /// Take back all that a tenant is promised
    Rm {
        #[command(flatten)]
        at: At,
        /// Which
        #[arg(value_name = "TENANT")]
        tenant: String,
    },
    /// List the tenants
    Ls {
        #[command(flatten)]
        at: At,
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Plain)]
        format: Format,
    },
    /// Show what a tenant is promised
    Show {
        #[command(flatten)]
        at: At,
        /// Which
        #[arg(value_name = "TENANT")]
        tenant: String,
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Plain)]
        format: Format,
    },
}

/// `loligo top`.
#[derive(Debug, Parser)]
pub(crate) struct TopArgs {
    /// Which cluster; all of its OSDs are asked
    #[command(flatten)]
    pub(crate) at: At,
    /// Seconds between two looks
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Once, then end
    #[arg(long)]
    pub(crate) once: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Plain)]
    pub(crate) format: Format,
}

/// The time between two looks. OSDs need a moment to answer, and whoever looks less than once an hour looks `--once`.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "seconds are wanted, from 0.1 to 3600".to_owned())
}

impl StudyArgs {
    /// The shards of the configurations of the study of tenants.
    pub(crate) fn tenants_shards(&self) -> Vec<u32> {
        if self.shards.is_empty() { vec![1, 4, 16] } else { self.shards.clone() }
    }
}

/// `loligo fsck`.
#[derive(Debug, Parser)]
pub(crate) struct FsckArgs {
    /// The cluster's directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// One OSD only [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) id: Option<i32>,
    /// Read all data, too
    #[arg(long)]
    pub(crate) deep: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Plain)]
    pub(crate) format: Format,
}

/// `loligo store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreVerb {
    /// Whose store it is and how full
    Stats(StoreArgs),
    /// The collections, or the objects of one
    List {
        #[command(flatten)]
        at: StoreArgs,
        /// `meta` or a placement group, such as 1.a
        #[arg(long, value_name = "PG")]
        collection: Option<String>,
    },
    /// Everything of one object
    Dump {
        #[command(flatten)]
        at: StoreArgs,
        /// `meta` or a placement group, such as 1.a
        #[arg(long, value_name = "PG")]
        collection: String,
        /// The object, as `list` names it
        #[arg(long, value_name = "NAME")]
        object: String,
        /// Its data instead, as it is
        #[arg(long)]
        data: bool,
    },
    /// Write a placement group to a file, for `import`
    Export {
        #[command(flatten)]
        at: StoreArgs,
        /// The placement group, such as 1.a
        #[arg(long, value_name = "PG")]
        pg: String,
        /// The file, which must not exist
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Take a placement group from a file that `export` has written; the OSD must not have it
    Import {
        #[command(flatten)]
        at: StoreArgs,
        /// The file
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Describe the format, byte by byte
    Format,
}

/// Which store.
#[derive(Debug, Parser)]
pub(crate) struct StoreArgs {
    /// The cluster's directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The OSD
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) id: i32,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Plain)]
    pub(crate) format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--interval nan` ended in a panic, as no time is so long.
    #[test]
    fn an_interval_is_a_time() {
        let parsed = |text: &str| Cli::try_parse_from(["loligo", "top", "--interval", text]);
        for text in ["nan", "inf", "1e300", "0", "0.09", "3600.1", "", "soon"] {
            let refused = parsed(text).expect_err(text).to_string();
            assert!(refused.contains("from 0.1 to 3600"), "{text}: {refused}");
        }
        for text in ["0.1", "2", "3600"] {
            assert!(parsed(text).is_ok(), "{text}");
        }
    }
}
