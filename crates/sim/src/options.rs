//! What a run is made of. Everything else follows from the seed.

use base::{Duration, Rng};

/// A fault of the simulator's own making that every run must be able to find: what is planted here and not found
/// would not be found in an engine either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Disks report transactions durable that a crash may still take away.
    ForgetfulDisks,
    /// Clients are told that some of their writes are done although they were never sent.
    LostWrites,
    /// Some appends are sent twice, as two requests.
    DoubleAppends,
    /// Clients see some answers of reads late, after they have seen newer ones.
    StaleReads,
}

/// Parameters of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How many OSDs.
    pub osds: u32,
    /// How many clients.
    pub clients: u32,
    /// How many objects they share.
    pub objects: u32,
    /// Requests that each client has under way at once.
    pub depth: u32,
    /// The mean pause between a client's requests, per request under way.
    pub think: Duration,
    /// Copies of each object.
    pub pool_size: u32,
    /// Placement groups.
    pub pg_num: u32,
    /// How long the clients work while faults strike.
    pub duration: Duration,
    /// Whether faults strike at all.
    pub faults: bool,
    /// The mean time between two faults.
    pub fault_every: Duration,
    /// Log entries that a placement group keeps (`osd_max_pg_log_entries`): with few, members that come back are filled.
    pub log_entries: u32,
    /// The pause between two recoveries of an OSD (`osd_recovery_sleep`): with some, faults strike amid recovery.
    pub recovery_sleep: Duration,
    /// Whether sessions are encrypted.
    pub secure: bool,
    /// What is wrong on purpose.
    pub planted: Option<Planted>,
}

impl Options {
    /// A small cluster that has a hard time. What concerns recovery is drawn from the seed.
    pub fn new(seed: u64) -> Options {
        let mut draw = Rng::new(seed);
        let mut one_of = |choices: [u32; 3]| choices[draw.below(3) as usize];
        let log_entries = one_of([10, 40, 2000]);
        let recovery_sleep = Duration::from_millis(u64::from(one_of([0, 20, 300])));
        Options {
            seed,
            osds: 4,
            clients: 3,
            objects: 12,
            depth: 2,
            think: Duration::from_millis(200),
            pool_size: 3,
            pg_num: 8,
            duration: Duration::from_secs(60),
            faults: true,
            fault_every: Duration::from_secs(3),
            log_entries,
            recovery_sleep,
            secure: false,
            planted: None,
        }
    }

    /// What to type to see the same run again.
    pub fn command(&self) -> String {
        let mut command = format!("loligo sim --seed {}", self.seed);
        let usual = Options::new(self.seed);
        let mut add = |name: &str, value: String, differs: bool| {
            if differs {
                command.push_str(&format!(" --{name} {value}"));
            }
        };
        add("osds", self.osds.to_string(), self.osds != usual.osds);
        add("clients", self.clients.to_string(), self.clients != usual.clients);
        add("objects", self.objects.to_string(), self.objects != usual.objects);
        add("depth", self.depth.to_string(), self.depth != usual.depth);
        add("think-ms", self.think.as_millis().to_string(), self.think != usual.think);
        add("pool-size", self.pool_size.to_string(), self.pool_size != usual.pool_size);
        add("pg-num", self.pg_num.to_string(), self.pg_num != usual.pg_num);
        add("seconds", self.duration.as_secs().to_string(), self.duration != usual.duration);
        add("fault-every-ms", self.fault_every.as_millis().to_string(), self.fault_every != usual.fault_every);
        let sleep_ms = self.recovery_sleep.as_millis();
        add("log-entries", self.log_entries.to_string(), self.log_entries != usual.log_entries);
        add("recovery-sleep-ms", sleep_ms.to_string(), self.recovery_sleep != usual.recovery_sleep);
        if !self.faults {
            command.push_str(" --no-faults");
        }
        if self.secure {
            command.push_str(" --secure");
        }
        command
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
    /// What was wrong; empty if all is well.
    pub failures: Vec<String>,
    /// What to type to see the same run again.
    pub command: String,
}
