//! The flags of `loligo sim`, and the options that they make.

use crate::cli::Format;
use ::sim::{Faults, Options};
use anyhow::{Context, bail};
use base::Bug;
use base::planted::BUGS;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use std::str::FromStr;
use std::time::Duration;

/// `loligo sim`.
#[derive(Clone, Debug, Parser)]
pub(crate) struct SimArgs {
    /// The number that decides everything in the run
    #[arg(long, value_name = "S", required_unless_present_any = ["seeds", "planted", "worker"])]
    pub(crate) seed: Option<u64>,
    /// One run after the other with each of these numbers: FIRST-LAST, or as many as N from 1 on
    #[arg(long, value_name = "RANGE", conflicts_with = "seed")]
    pub(crate) seeds: Option<Seeds>,
    /// Runs at once, where there are several [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) jobs: Option<u32>,
    /// Puts a known bug back, which the runs have to find (1000 seeds if none are given): its name, `all` for each in
    /// turn, `list` for what there is
    #[arg(long, value_name = "NAME", value_parser = names_of_bugs())]
    pub(crate) planted: Option<String>,
    /// Makes the failing run of one seed simpler, as far as it goes on to fail
    #[arg(long, requires = "seed")]
    pub(crate) shrink: bool,
    /// Prints to standard error what daemons log and which faults strike, as it happens in the run of one seed
    #[arg(long, requires = "seed")]
    pub(crate) log: bool,
    /// How many OSDs [default, here and below: drawn from the seed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    osds: Option<u32>,
    /// How many clients
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: Option<u32>,
    /// How many of the clients only read
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    readers: Option<u32>,
    /// How many objects they share
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10000))]
    objects: Option<u32>,
    /// Requests that each client has under way
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    depth: Option<u32>,
    /// The mean pause between a client's requests
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60000))]
    think_ms: Option<u64>,
    /// Copies of each object
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10))]
    pool_size: Option<u32>,
    /// Copies without which nobody serves
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10))]
    min_size: Option<u32>,
    /// Placement groups at the beginning
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pg_num: Option<u32>,
    /// How long faults strike, in virtual time
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86400))]
    seconds: Option<u64>,
    /// Which faults strike: `all`, `none`, or names with commas between them
    #[arg(long, value_name = "NAMES")]
    faults: Option<Faults>,
    /// The mean time between two faults
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3600000))]
    fault_every_ms: Option<u64>,
    /// Whether faults come in bursts
    #[arg(long, value_name = "BOOL")]
    bursts: Option<bool>,
    /// Whether power goes at telling moments, such as when a machine has spoken and its disk is not done
    #[arg(long, value_name = "BOOL")]
    ambushes: Option<bool>,
    /// Whether disks hang, and their machines then lose power, when others come back
    #[arg(long, value_name = "BOOL")]
    ailing_disks: Option<bool>,
    /// Whether OSDs that are marked down, and clients with them, hear nobody who could tell them
    #[arg(long, value_name = "BOOL")]
    exiles: Option<bool>,
    /// Whether a disk is lost for good, once, where at least two members have what was acknowledged
    #[arg(long, value_name = "BOOL")]
    disk_loss: Option<bool>,
    /// How long an OSD keeps a session whose peer is away
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    standby_ms: Option<u64>,
    /// After how long an OSD that does not answer others has failed
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1000..=300_000))]
    grace_ms: Option<u64>,
    /// Log entries that a placement group keeps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10000))]
    log_entries: Option<u32>,
    /// Objects that an OSD may lack and still serve a placement group, or lead it
    #[arg(long, value_name = "N")]
    lacking_max: Option<u32>,
    /// The pause between two recoveries of an OSD
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60000))]
    recovery_sleep_ms: Option<u64>,
    /// The OSDs' scheduler
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(::sim::QUEUES))]
    queue: Option<String>,
    /// What a server's processor takes for each input
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=100000))]
    input_cost_us: Option<u64>,
    /// What OSDs keep objects in
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(::sim::STORES))]
    store: Option<String>,
    /// How often longer than a fast drive a disk takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10000))]
    disk_slowness: Option<u32>,
    /// Whether each disk is as slow as chance will have it
    #[arg(long, value_name = "BOOL")]
    uneven_disks: Option<bool>,
    /// How many millionths clocks gain or lose, and milliseconds they are set apart, at the most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10000))]
    drift_ppm: Option<u32>,
    /// Whether something sent is lost now and then, and sent again
    #[arg(long, value_name = "BOOL")]
    lossy: Option<bool>,
    /// Whether sessions are encrypted
    #[arg(long, value_name = "BOOL")]
    secure: Option<bool>,
    /// Whether disks keep no order but that of each collection
    #[arg(long, value_name = "BOOL")]
    loose_disks: Option<bool>,
    /// After how long an OSD that is down is out
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(0..=86400))]
    down_out_s: Option<u64>,
    /// How long a machine that loses power is away at the most
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(3..=3600000))]
    outage_ms: Option<u64>,
    /// Whether clients but the first ask the monitor for maps when they need one, once at a time, as librados does
    #[arg(long, value_name = "BOOL")]
    ask_once: Option<bool>,
    /// How long a client rests at the most, now and then
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=3600000))]
    rest_ms: Option<u64>,
    /// After how many writes others of the objects are written, while some are left alone; 0 is all of them, always
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    spell: Option<u32>,
    /// Whether clients hurry for a while when an OSD has come back
    #[arg(long, value_name = "BOOL")]
    rushes: Option<bool>,
    /// Whether sessions end between OSDs that both live while an object is on its way from one to the other
    #[arg(long, value_name = "BOOL")]
    rifts: Option<bool>,
    /// Whether, where disks ail, all machines may lose their power at once
    #[arg(long, value_name = "BOOL")]
    racks: Option<bool>,
    /// How many kilobytes each machine's link carries a second; 0 is any number at once
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    link_kb_s: Option<u32>,
    /// Whether disks fill up for a while, because something else takes their room
    #[arg(long, value_name = "BOOL")]
    full_disks: Option<bool>,
    /// Whether some reads are reads at a snapshot of the pool
    #[arg(long, value_name = "BOOL")]
    snap_reads: Option<bool>,
    /// Whether the number of groups changes again and again, and machines die amid that
    #[arg(long, value_name = "BOOL")]
    regroups: Option<bool>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Plain)]
    pub(crate) format: Format,
    /// Carries out command lines from standard input, and prints what they came to
    #[arg(long, hide = true)]
    pub(crate) worker: bool,
}

fn names_of_bugs() -> PossibleValuesParser {
    let names =
        BUGS.iter().filter(|listed| listed.bug.is_simulated()).map(|listed| listed.name).chain(["all", "list", "none"]);
    PossibleValuesParser::new(names)
}

/// Numbers that runs begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl FromStr for Seeds {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Seeds> {
        let (first, last) = text.split_once('-').unwrap_or(("1", text));
        let number = |text: &str| text.parse().with_context(|| format!("'{text}' is no number"));
        let seeds = Seeds { first: number(first)?, last: number(last)? };
        if seeds.first > seeds.last || seeds.last - seeds.first >= 1 << 32 {
            bail!("a range of seeds is FIRST-LAST, or as many as N from 1 on");
        }
        Ok(seeds)
    }
}

impl SimArgs {
    /// The bug that is planted, if it is one.
    pub(crate) fn bug(&self) -> Option<Bug> {
        self.planted.as_deref().and_then(Bug::named)
    }

    /// What a run with this seed is made of.
    pub(crate) fn options(&self, seed: u64) -> anyhow::Result<Options> {
        let usual = Options::new(seed);
        let queue = |name: &String| ::sim::QUEUES.into_iter().find(|queue| queue == name);
        let store = |name: &String| ::sim::STORES.into_iter().find(|store| store == name);
        let (osds, pool_size) = (self.osds.unwrap_or(usual.osds), self.pool_size.unwrap_or(usual.pool_size));
        let options = Options {
            // What is drawn gives way to what is told.
            osds: if self.osds.is_none() { osds.max(pool_size) } else { osds },
            clients: self.clients.unwrap_or(usual.clients),
            readers: self.readers.unwrap_or(usual.readers),
            objects: self.objects.unwrap_or(usual.objects),
            depth: self.depth.unwrap_or(usual.depth),
            think: self.think_ms.map_or(usual.think, Duration::from_millis),
            pool_size: if self.pool_size.is_none() { pool_size.min(osds) } else { pool_size },
            min_size: self.min_size.unwrap_or(usual.min_size.min(pool_size).min(osds)),
            pg_num: self.pg_num.unwrap_or(usual.pg_num),
            duration: self.seconds.map_or(usual.duration, Duration::from_secs),
            faults: self.faults.unwrap_or(usual.faults),
            fault_every: self.fault_every_ms.map_or(usual.fault_every, Duration::from_millis),
            bursts: self.bursts.unwrap_or(usual.bursts),
            ambushes: self.ambushes.unwrap_or(usual.ambushes),
            ailing_disks: self.ailing_disks.unwrap_or(usual.ailing_disks),
            exiles: self.exiles.unwrap_or(usual.exiles),
            disk_loss: self.disk_loss.unwrap_or(usual.disk_loss),
            standby: self.standby_ms.map_or(usual.standby, Duration::from_millis),
            grace: self.grace_ms.map_or(usual.grace, Duration::from_millis),
            log_entries: self.log_entries.unwrap_or(usual.log_entries),
            lacking_max: self.lacking_max.unwrap_or(usual.lacking_max),
            recovery_sleep: self.recovery_sleep_ms.map_or(usual.recovery_sleep, Duration::from_millis),
            queue: self.queue.as_ref().and_then(queue).unwrap_or(usual.queue),
            input_cost: self.input_cost_us.map_or(usual.input_cost, Duration::from_micros),
            store: self.store.as_ref().and_then(store).unwrap_or(usual.store),
            disk_slowness: self.disk_slowness.unwrap_or(usual.disk_slowness),
            uneven_disks: self.uneven_disks.unwrap_or(usual.uneven_disks),
            drift_ppm: self.drift_ppm.unwrap_or(usual.drift_ppm),
            lossy: self.lossy.unwrap_or(usual.lossy),
            secure: self.secure.unwrap_or(usual.secure),
            loose_disks: self.loose_disks.unwrap_or(usual.loose_disks),
            down_out: self.down_out_s.map_or(usual.down_out, Duration::from_secs),
            outage: self.outage_ms.map_or(usual.outage, Duration::from_millis),
            ask_once: self.ask_once.unwrap_or(usual.ask_once),
            rest: self.rest_ms.map_or(usual.rest, Duration::from_millis),
            spell: self.spell.unwrap_or(usual.spell),
            rushes: self.rushes.unwrap_or(usual.rushes),
            rifts: self.rifts.unwrap_or(usual.rifts),
            racks: self.racks.unwrap_or(usual.racks),
            link_kb_s: self.link_kb_s.unwrap_or(usual.link_kb_s),
            full_disks: self.full_disks.unwrap_or(usual.full_disks),
            snap_reads: self.snap_reads.unwrap_or(usual.snap_reads),
            regroups: self.regroups.unwrap_or(usual.regroups),
            planted: self.bug(),
            ..usual
        };
        if options.pool_size > options.osds {
            bail!("--pool-size {} needs as many OSDs, there are {}", options.pool_size, options.osds);
        }
        if let Some(readers) = self.readers.filter(|readers| *readers > options.clients) {
            bail!("--readers {readers}: there are {} clients", options.clients);
        }
        if options.min_size > options.pool_size {
            bail!("--min-size {} is more than the pool's {} copies", options.min_size, options.pool_size);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_makes_the_same_run() {
        for seed in 0..50 {
            let drawn = Options::new(seed + 1);
            let options = Options { seed, planted: Some(Bug::StaleReads), ..drawn };
            let words = options.command();
            let args = SimArgs::try_parse_from(words.split_whitespace().skip(1)).expect("our own words");
            assert_eq!(args.options(seed).expect("they fit"), options, "{words}");
        }
    }

    #[test]
    fn ranges_of_seeds_are_read() {
        assert_eq!("7".parse::<Seeds>().ok(), Some(Seeds { first: 1, last: 7 }));
        assert_eq!("5-7".parse::<Seeds>().ok(), Some(Seeds { first: 5, last: 7 }));
        assert!("7-5".parse::<Seeds>().is_err() && "x".parse::<Seeds>().is_err() && "0".parse::<Seeds>().is_err());
    }
}
