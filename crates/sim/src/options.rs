//! What a run is made of. Everything else follows from the seed.

use crate::faults::Faults;
use crate::themes::Theme;
use base::{Bug, Duration, Rng};

/// Parameters of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How many OSDs.
    pub osds: u32,
    /// How many clients.
    pub clients: u32,
    /// How many of them only read: where writes wait, they go on, and see what there is.
    pub readers: u32,
    /// How many objects they share.
    pub objects: u32,
    /// Requests that each client has under way at once.
    pub depth: u32,
    /// The mean pause between a client's requests, per request under way.
    pub think: Duration,
    /// Copies of each object.
    pub pool_size: u32,
    /// Copies without which nobody serves.
    pub min_size: u32,
    /// Placement groups at the beginning.
    pub pg_num: u32,
    /// How long the clients work while faults strike.
    pub duration: Duration,
    /// Which faults strike.
    pub faults: Faults,
    /// The mean time between two faults.
    pub fault_every: Duration,
    /// Whether faults come in bursts: what has just broken is where another fault hurts.
    pub bursts: bool,
    /// Whether power goes at telling moments, such as when a machine has spoken and its disk is not done.
    pub ambushes: bool,
    /// Whether disks hang, and their machines then lose power, when others come back.
    pub ailing_disks: bool,
    /// Whether OSDs that are marked down, and clients with them, hear nobody who could tell them.
    pub exiles: bool,
    /// Whether a disk is lost for good, once, where at least two members have what was acknowledged.
    pub disk_loss: bool,
    /// How long an OSD keeps a session whose peer is away: with little, sessions end between OSDs that both live.
    pub standby: Duration,
    /// After how long an OSD that does not answer others has failed (`osd_heartbeat_grace`): with little, those who live
    /// but are not heard are gone on without.
    pub grace: Duration,
    /// Log entries that a placement group keeps (`osd_max_pg_log_entries`): with few, members that come back are filled.
    pub log_entries: u32,
    /// The pause between two recoveries of an OSD (`osd_recovery_sleep`): with some, faults strike amid recovery.
    pub recovery_sleep: Duration,
    /// Objects that a member, or a primary, may lack and serve (`osd_async_recovery_min_cost`,
    /// `osd_force_auth_primary_missing_objects`): with few, members recover beside those who serve.
    pub lacking_max: u32,
    /// The OSDs' scheduler (`osd_op_queue`).
    pub queue: &'static str,
    /// What a node's processor takes for each input: with much, work queues up before it.
    pub input_cost: Duration,
    /// What an OSD keeps objects in: `memory`, or `extent` on a drive that power cuts tear.
    pub store: &'static str,
    /// How often longer than a fast drive a disk takes.
    pub disk_slowness: u32,
    /// Whether each disk is as slow as chance will have it, one a thousand times slower than another.
    pub uneven_disks: bool,
    /// How many millionths clocks gain or lose, and milliseconds they are set apart, at the most.
    pub drift_ppm: u32,
    /// Whether what is sent is lost now and then, and comes a retransmission later.
    pub lossy: bool,
    /// Whether sessions are encrypted.
    pub secure: bool,
    /// Whether disks keep the order of what concerns one collection, and no other: no more than stores promise.
    pub loose_disks: bool,
    /// After how long an OSD that is down is out, so that its groups move (`mon_osd_down_out_interval`).
    pub down_out: Duration,
    /// How long a machine that loses power is away at the most; where all do, or the monitor's does, a third of it.
    pub outage: Duration,
    /// Whether clients but the first ask the monitor for maps when they need one, once at a time, as librados does.
    pub ask_once: bool,
    /// How long a client rests at the most, now and then: with some, it comes back with a map of long ago.
    pub rest: Duration,
    /// After how many writes others of the objects are written, while some are left alone; 0 is all of them, always.
    pub spell: u32,
    /// Whether clients hurry for a while when an OSD has come back.
    pub rushes: bool,
    /// Whether sessions end between OSDs that both live while an object is on its way from one to the other.
    pub rifts: bool,
    /// Whether, where disks ail, all machines may lose their power at once.
    pub racks: bool,
    /// How many kilobytes each machine's link carries a second, one after the other; 0 is any number at once.
    pub link_kb_s: u32,
    /// Whether disks fill up for a while, because something else takes their room. Those of the extent store do not.
    pub full_disks: bool,
    /// Whether some reads are reads at a snapshot of the pool.
    pub snap_reads: bool,
    /// Whether the number of groups changes again and again, and machines die amid that.
    pub regroups: bool,
    /// What is wrong on purpose.
    pub planted: Option<Bug>,
}

/// The schedulers to draw from: Ceph's first one most often.
pub const QUEUES: [&str; 4] = ["wpq", "mclock_scheduler", "fifo", "cfq"];

/// What OSDs keep objects in.
pub const STORES: [&str; 2] = ["memory", "extent"];

impl Options {
    /// A small cluster that has a hard time; what kind of one is drawn from the seed.
    pub fn new(seed: u64) -> Options {
        let mut options = Options::drawn(seed);
        if let Some(theme) = Theme::draw(seed) {
            theme.set(&mut options);
        }
        options
    }

    /// The same where each option is drawn by itself: without the theme of the seed's run.
    pub fn drawn(seed: u64) -> Options {
        // Not the run's own generator: what a run is made of may be told, and the rest stays as it is.
        let mut rng = Rng::new(seed ^ 0x006F_7074_696F_6E73);
        let mut one_of = |choices: &[u32]| choices[rng.below(choices.len() as u64) as usize];
        let osds = one_of(&[3, 4, 4, 4, 5, 6]);
        let pool_size = one_of(&[1, 2, 2, 3, 3, 3, 3, 3]).min(osds);
        let clients = one_of(&[2, 3, 4]);
        // What was added later: a stream of its own, so that the rest is drawn as before.
        let mut later = Rng::new(seed ^ 0x0000_6C61_7465_7221);
        Options {
            seed,
            osds,
            clients,
            objects: one_of(&[3, 6, 12, 24]),
            depth: one_of(&[1, 2, 4]),
            think: Duration::from_millis(u64::from(one_of(&[50, 100, 200, 200]))),
            pool_size,
            // Of two copies Ceph does with one unless it is told otherwise.
            min_size: one_of(if pool_size == 2 { &[1, 1, 1, 2] } else { &[1, 2, 2, 2] }).min(pool_size),
            pg_num: one_of(&[1, 2, 4, 8]),
            duration: Duration::from_secs(u64::from(one_of(&[20, 40, 60]))),
            fault_every: Duration::from_millis(u64::from(one_of(&[300, 1000, 3000, 3000]))),
            log_entries: one_of(&[10, 40, 2000]),
            recovery_sleep: Duration::from_millis(u64::from(one_of(&[0, 20, 300]))),
            queue: QUEUES[one_of(&[0, 0, 1, 1, 2, 3]) as usize],
            input_cost: Duration::from_micros(u64::from(one_of(&[0, 0, 20, 300]))),
            store: STORES[one_of(&[0, 0, 0, 1]) as usize],
            disk_slowness: one_of(&[1, 1, 10, 100]),
            drift_ppm: one_of(&[0, 10, 500]),
            lossy: one_of(&[0, 0, 1]) == 1,
            secure: one_of(&[0, 0, 0, 0, 0, 1]) == 1,
            faults: Faults::draw(&mut rng),
            bursts: rng.chance(1, 2),
            standby: Duration::from_millis(if rng.chance(1, 2) { 500 } else { 900_000 }),
            lacking_max: [0, 2, 100, 100][rng.below(4) as usize],
            ambushes: rng.chance(1, 2),
            loose_disks: rng.chance(1, 2),
            uneven_disks: rng.chance(1, 2),
            outage: Duration::from_millis([600, 3000, 15_000, 15_000][rng.below(4) as usize]),
            down_out: Duration::from_secs([1, 600, 600][rng.below(3) as usize]),
            grace: Duration::from_secs([2, 4, 20][rng.below(3) as usize]),
            readers: [0, 0, 1, 2][rng.below(4) as usize].min(clients - 1),
            ailing_disks: rng.chance(1, 2),
            exiles: rng.chance(1, 2),
            ask_once: later.chance(1, 2),
            rest: Duration::from_millis([0, 0, 5000, 40_000][later.below(4) as usize]),
            link_kb_s: [0, 0, 1000, 150][later.below(4) as usize],
            full_disks: later.chance(1, 4),
            snap_reads: later.chance(1, 2),
            regroups: later.chance(1, 3),
            disk_loss: later.chance(1, 2),
            spell: [0, 0, 30, 150][later.below(4) as usize],
            rushes: later.chance(1, 3),
            rifts: later.chance(1, 3),
            racks: later.chance(1, 2),
            planted: None,
        }
    }

    /// What to type to see the same run again.
    pub fn command(&self) -> String {
        let mut command = format!("loligo sim --seed {}", self.seed);
        let usual = Options::new(self.seed).values();
        for ((name, value), (_, usual)) in self.values().into_iter().zip(usual) {
            if value != usual {
                command.push_str(&format!(" --{name} {value}"));
            }
        }
        command
    }

    /// The options by their names on the command line.
    fn values(&self) -> [(&'static str, String); 44] {
        let ms = |duration: Duration| duration.as_millis().to_string();
        [
            ("osds", self.osds.to_string()),
            ("clients", self.clients.to_string()),
            ("readers", self.readers.to_string()),
            ("objects", self.objects.to_string()),
            ("depth", self.depth.to_string()),
            ("think-ms", ms(self.think)),
            ("pool-size", self.pool_size.to_string()),
            ("min-size", self.min_size.to_string()),
            ("pg-num", self.pg_num.to_string()),
            ("seconds", self.duration.as_secs().to_string()),
            ("faults", self.faults.to_string()),
            ("fault-every-ms", ms(self.fault_every)),
            ("bursts", self.bursts.to_string()),
            ("ambushes", self.ambushes.to_string()),
            ("ailing-disks", self.ailing_disks.to_string()),
            ("exiles", self.exiles.to_string()),
            ("disk-loss", self.disk_loss.to_string()),
            ("standby-ms", ms(self.standby)),
            ("grace-ms", ms(self.grace)),
            ("log-entries", self.log_entries.to_string()),
            ("recovery-sleep-ms", ms(self.recovery_sleep)),
            ("lacking-max", self.lacking_max.to_string()),
            ("queue", self.queue.to_owned()),
            ("input-cost-us", self.input_cost.as_micros().to_string()),
            ("store", self.store.to_owned()),
            ("disk-slowness", self.disk_slowness.to_string()),
            ("uneven-disks", self.uneven_disks.to_string()),
            ("drift-ppm", self.drift_ppm.to_string()),
            ("lossy", self.lossy.to_string()),
            ("secure", self.secure.to_string()),
            ("loose-disks", self.loose_disks.to_string()),
            ("down-out-s", self.down_out.as_secs().to_string()),
            ("outage-ms", ms(self.outage)),
            ("ask-once", self.ask_once.to_string()),
            ("rest-ms", ms(self.rest)),
            ("spell", self.spell.to_string()),
            ("rushes", self.rushes.to_string()),
            ("rifts", self.rifts.to_string()),
            ("racks", self.racks.to_string()),
            ("link-kb-s", self.link_kb_s.to_string()),
            ("full-disks", self.full_disks.to_string()),
            ("snap-reads", self.snap_reads.to_string()),
            ("regroups", self.regroups.to_string()),
            ("planted", self.planted.map_or("none", |bug| bug.listed().name).to_owned()),
        ]
    }

    /// Simpler runs, each in one respect: where one of them fails, too, it says more of what is wrong.
    pub fn simpler(&self) -> Vec<Options> {
        let mut simpler = Vec::new();
        let mut add = |change: &dyn Fn(&mut Options)| {
            let mut options = self.clone();
            change(&mut options);
            if options != *self {
                simpler.push(options);
            }
        };
        add(&|o| o.duration = Duration::from_secs(o.duration.as_secs().div_ceil(2)));
        add(&|o| o.duration = Duration::from_secs((o.duration.as_secs() * 4).div_ceil(5)));
        for kind in self.faults.kinds() {
            add(&|o| o.faults = o.faults.without(kind));
        }
        add(&|o| (o.clients, o.readers) = (1, 0));
        add(&|o| o.clients = o.clients.div_ceil(2).max(o.readers + 1));
        add(&|o| o.readers = 0);
        add(&|o| o.objects = 1);
        add(&|o| o.objects = o.objects.div_ceil(2));
        add(&|o| o.depth = 1);
        add(&|o| o.pg_num = 1);
        add(&|o| o.osds = (o.osds - 1).max(o.pool_size));
        add(&|o| o.fault_every = (o.fault_every * 2).min(o.duration));
        add(&|o| (o.pool_size, o.min_size) = (o.pool_size.min(2), o.min_size.min(2)));
        add(&|o| o.bursts = false);
        add(&|o| o.ambushes = false);
        add(&|o| o.ailing_disks = false);
        add(&|o| o.exiles = false);
        add(&|o| o.disk_loss = false);
        add(&|o| o.loose_disks = false);
        add(&|o| o.outage = Duration::from_secs(15));
        add(&|o| o.uneven_disks = false);
        add(&|o| o.down_out = Duration::from_secs(600));
        add(&|o| o.standby = Duration::from_secs(900));
        add(&|o| o.grace = Duration::from_secs(20));
        add(&|o| (o.lossy, o.secure) = (false, false));
        add(&|o| o.queue = "fifo");
        add(&|o| o.input_cost = Duration::ZERO);
        add(&|o| o.drift_ppm = 0);
        add(&|o| o.disk_slowness = 1);
        add(&|o| o.store = "memory");
        add(&|o| o.recovery_sleep = Duration::ZERO);
        add(&|o| o.log_entries = 2000);
        add(&|o| o.lacking_max = 100);
        add(&|o| o.ask_once = false);
        add(&|o| o.rest = Duration::ZERO);
        add(&|o| o.spell = 0);
        add(&|o| o.rushes = false);
        add(&|o| o.rifts = false);
        add(&|o| o.racks = false);
        add(&|o| o.link_kb_s = 0);
        add(&|o| o.full_disks = false);
        add(&|o| o.snap_reads = false);
        add(&|o| o.regroups = false);
        simpler
    }
}

/// Makes a failing run simpler, one respect after the other, as long as it goes on to fail; `fails` says whether a run
/// does, and is asked at most `attempts` times.
pub fn shrink(options: &Options, attempts: usize, mut fails: impl FnMut(&Options) -> bool) -> Options {
    let (mut smallest, mut left) = (options.clone(), attempts);
    loop {
        let before = left;
        let found = smallest.simpler().into_iter().take(before).find(|simpler| {
            left -= 1;
            fails(simpler)
        });
        match found {
            Some(simpler) => smallest = simpler,
            None => return smallest,
        }
    }
}

/// What a run came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// From the options.
    pub seed: u64,
    /// Stands for everything that happened: the same options give the same hash.
    pub trace_hash: u64,
    /// Events that happened.
    pub events: u64,
    /// Virtual time that passed.
    pub simulated: Duration,
    /// Requests that clients made.
    pub operations: u64,
    /// Those of them whose outcome is unknown.
    pub unknown: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Snapshots of the pool that were taken and removed: the highest number given out.
    pub snapshots: u64,
    /// Whether a disk was lost for good.
    pub disk_lost: bool,
    /// What was wrong; empty if all is well.
    pub failures: Vec<String>,
    /// What to type to see the same run again.
    pub command: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinking_ends_with_what_still_fails() {
        let options = Options { faults: Faults::all(), osds: 6, pool_size: 3, ..Options::new(1) };
        let needs = crate::Fault::Cut;
        let mut asked = 0;
        let small = shrink(&options, 500, |o| {
            asked += 1;
            o.faults.has(needs) && o.clients >= 2.min(options.clients)
        });
        assert_eq!(small.faults, Faults::none().with(needs));
        assert_eq!((small.objects, small.depth, small.duration.as_secs()), (1, 1, 1));
        assert!(asked < 500);
        assert_eq!(shrink(&options, 3, |_| false), options);
    }

    #[test]
    fn the_command_names_what_is_not_drawn() {
        let options = Options { clients: 9, faults: Faults::none(), ..Options::new(7) };
        assert_eq!(options.command(), "loligo sim --seed 7 --clients 9 --faults none");
    }
}
