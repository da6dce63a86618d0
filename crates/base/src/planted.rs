//! Known bugs that can be put back, so that the simulator can show that it would find them.
//!
//! Owns the list of them: what each breaks, and where it comes from. Where the code does what keeps a bug away it asks
//! whether that bug is planted, in one line. The choice belongs to the thread that drives the engines, and only a
//! simulated run makes one ([`Bug::plant`]): everywhere else the question is a comparison of a byte that is never set,
//! which costs less than can be measured, so that the binary that serves is the one that was simulated.
//!
//! Invariant: a choice is made before the engines that ask are, and stands until they are gone: for them it is a
//! constant.

use core::cell::Cell;

/// A bug as it is listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The bug.
    pub bug: Bug,
    /// What it is called.
    pub name: &'static str,
    /// What goes wrong.
    pub breaks: &'static str,
    /// Where it comes from: this code's history, or that of the protocols and of others' implementations.
    pub origin: &'static str,
}

macro_rules! bugs {
    ($($bug:ident $name:literal, $breaks:literal, from $origin:literal;)*) => {
        /// A bug that can be put back.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Bug {
            $(#[doc = $breaks] $bug,)*
        }

        /// All of them, in the order of the parts that they break.
        pub const BUGS: &[Listed] =
            &[$(Listed { bug: Bug::$bug, name: $name, breaks: $breaks, origin: $origin }),*];
    };
}

bugs! {
    // What the simulator's own parts do wrong.
    ForgetfulDisks "forgetful-disks", "Disks report transactions durable that a crash may still take away.",
        from "the simulator: what cheap drives do";
    DisorderlyDisks "disorderly-disks", "A crash keeps some of the last transactions, and not those before them.",
        from "the simulator: a store without barriers";
    LostWrites "lost-writes", "Clients are told that some of their writes are done although they were never sent.",
        from "the simulator";
    DoubleAppends "double-appends", "Some appends are sent twice, as two requests.", from "the simulator";
    StaleReads "stale-reads", "Clients see some answers of reads late, after they have seen newer ones.",
        from "the simulator";
    // Sessions.
    RepeatsDelivered "repeats-delivered", "A message that is sent again over a new stream is delivered again.",
        from "Ceph's messenger: duplicates by in_seq";
    UnackedForgotten "unacked-forgotten", "A lossless session does not send again what a broken stream has lost.",
        from "Ceph's messenger: discarded out queues";
    // Clients' requests.
    ResendsAppliedAgain "resends-applied-again", "A resent request is executed once more.",
        from "the log's requests by their names, the first rule of Ceph's PG log";
    ResendsAnsweredEarly "resends-answered-early", "A resent request is answered while the first is not durable.",
        from "Ceph: resent requests wait for repop in flight";
    RequestsForgotten "requests-forgotten", "A request is not recognised once the log is trimmed behind it.",
        from "b646255; Ceph's dup entries (osd_pg_log_dups_tracked)";
    BackoffsForgotten "backoffs-forgotten", "Clients that were asked to hold requests are never told to go on.",
        from "c618be9, 2ecbf21";
    ReadsBesideWrites "reads-beside-writes", "The primary answers reads with writes that not all members have.",
        from "Ceph's rw_manager";
    BalancedReadsUnchecked "balanced-reads-unchecked", "A replica answers reads with what not all members have.",
        from "3269d9c; Ceph's can_serve_replica_read";
    // Leases.
    LeaseIgnored "lease-ignored", "An OSD answers clients when others may have gone on without it.",
        from "Ceph before readable_until; the first failure detection here";
    PromiseToTheDead "promise-to-the-dead", "An OSD promises not to go on without one that its map shows as down.",
        from "the first leases: a partition that healed for a moment";
    PromisesBroken "promises-broken", "An OSD goes on without one to whom it has promised not to yet.",
        from "Ceph's prior_readable_until_ub and the state WAIT";
    // Replication.
    AckBeforeReplicas "ack-before-replicas", "A write is acknowledged when the first member has it.",
        from "replication with write-behind";
    ConfirmedBeforeDurable "confirmed-before-durable", "Replicas confirm what they have received and not stored.",
        from "Ceph's ack before ondisk, gone with FileStore";
    UnconfirmedNotResent "unconfirmed-not-resent", "A primary does not send again what a lost session took along.",
        from "the first replication over sessions that may end";
    // Peering.
    AuthorityByLengthAlone "authority-by-length-alone", "The longest log wins, whoever was active last.",
        from "Ceph's find_best_info before last_epoch_started";
    AuthorityWithGaps "authority-with-gaps", "A log decides whose holder is still being filled.",
        from "b646255; Ceph's find_best_info and incomplete peers";
    PastIgnored "past-ignored", "Peering waits for nobody of past intervals.", from "Ceph's build_prior";
    BornTooEarly "born-too-early", "Who comes with an empty disk speaks for intervals of which only its old disk knew.",
        from "c53787e; Ceph's same_interval_since of a new PG";
    UpThruIgnored "up-thru-ignored", "A primary serves before the monitor has recorded that it lives.",
        from "Ceph's WaitUpThru";
    MinSizeIgnored "min-size-ignored", "Fewer members than min_size serve.", from "Ceph's min_size";
    SaidBeforeDurable "said-before-durable", "A holder tells a primary what a power cut may still take away.",
        from "b646255";
    SpreadBeforeDurable "spread-before-durable",
        "A primary gives others a log whose end a power cut may still take from itself.",
        from "seed 9723 of the simulator; Ceph's interval flush (PeeringState::messages_pending_flush)";
    DivergentKept "divergent-kept", "Writes that only an outlived log knew of stay in its holder's objects.",
        from "Ceph's divergent entries";
    GapsTakenForLogs "gaps-taken-for-logs", "A member whose log does not reach counts as complete.",
        from "Ceph's log continuity checks (calc_acting)";
    MissingNotKept "missing-not-kept", "What is missing is known in memory only, and forgotten by a restart.",
        from "b646255; Ceph before missing sets were stored";
    PastNotKept "past-not-kept", "Past intervals are forgotten by a restart.", from "Ceph's past_intervals";
    PgTempKept "pg-temp-kept", "Who stands in for others is never asked to give way.", from "b646255; Ceph's pg_temp";
    // Recovery.
    FillMissesWrites "fill-misses-writes", "Writes that come while a part is filled are not counted as missing.",
        from "Ceph's backfill: updates between scan and push";
    FillKeepsRemoved "fill-keeps-removed", "A member that is filled keeps what was removed meanwhile.",
        from "Ceph's recover_backfill: objects only at the peer";
    ClonesNotRecovered "clones-not-recovered", "Of a missing object only the head is copied.",
        from "Ceph's recovery of snapsets";
    SnapIndexNotRecovered "snap-index-not-recovered", "Clones are copied without their part of the index.",
        from "b646255; Ceph's SnapMapper";
    DegradedWritten "degraded-written", "Writes go on to objects that a member lacks and can only log.", from "b646255";
    RecoveryOverWrites "recovery-over-writes", "Members fetch an object that is being written.",
        from "Ceph's recovery read locks";
    HoldIgnored "hold-ignored", "A fetch that is begun twice may put an object in place when it is written to again.",
        from "seeds 801 and 9802 of the simulator";
    PullsNotResumed "pulls-not-resumed", "A fetch whose session was lost is not begun again.",
        from "Ceph: recovery hung by a reset connection";
    // Snapshots, scrubs, splits.
    TrimmingNotResumed "trimming-not-resumed", "A turn of trimming outlives its interval and blocks the next.",
        from "11ec74a; Ceph's snap trimmer stuck after a reset";
    PurgedByOne "purged-by-one", "A removed snapshot is done with as soon as one group says so.",
        from "Ceph's purged_snaps";
    ScrubAmidWrites "scrub-amid-writes", "Copies are compared while they are written to.",
        from "07aafa4; Ceph's chunky scrub";
    DeepScrubShallow "deep-scrub-shallow", "A deep scrub does not read data.", from "07aafa4";
    RepairByPrimary "repair-by-primary", "A repair takes the primary's copy for right.",
        from "Ceph's pg repair before checksums";
    SplitForgetsRequests "split-forgets-requests", "The new group's log does not know the requests of the old one.",
        from "84b1a1e; Ceph's split of dup entries";
    SplitForgetsMissing "split-forgets-missing", "What is missing of a new group's objects is forgotten.",
        from "84b1a1e";
    MergeOfUnequals "merge-of-unequals", "Holders join two groups at whatever versions they have them.",
        from "f72e326; Ceph's ready_to_merge versions";
    MapBeforeSplit "map-before-split", "A map is stored before what it asks of groups.", from "84b1a1e";
    // The monitor.
    MonitorSpeaksEarly "monitor-speaks-early", "Maps leave the monitor before they are on disk.",
        from "the rule of Paxos: learn after accept";
    LongHistoryCutOff "long-history-cut-off", "Who was sent a part of a long history of maps counts as having all of it.",
        from "0daf7a4";
    // Clients.
    UnsentForgotten "unsent-forgotten", "A client does not send again what a lost connection took along.",
        from "Ceph's Objecter: kick_requests";
    // The extent store.
    AckBeforeFlush "ack-before-flush", "The store confirms what its device may still forget.",
        from "stores that trust a drive's cache";
    TornRecordsTaken "torn-records-taken", "A record of the log counts although not all of it is there.",
        from "logs without checksums over their body";
    CheckpointUnflushed "checkpoint-unflushed", "A checkpoint counts before the pages that it consists of are durable.",
        from "copy-on-write trees: a root that is written too soon";
    // Schedulers. No simulated run looks at shares; the checks of `qos` (`tests/planted.rs`) find these.
    IdleKeepCredit "idle-keep-credit", "Who comes back is served for all the time that it had nothing to do.",
        from "virtual clocks that only service moves on; mClock's idle clients (OSDI 2010, section 3.2)";
    WeightUsesReservation "weight-uses-reservation", "What is served by weight is held against the reservation.",
        from "mClock (OSDI 2010, section 3.2): reservation tags of who was served by weight";
    WeightBeforeReservation "weight-before-reservation", "A reservation that is due waits for its turn by weight.",
        from "proportional shares taken for guarantees";
    ShardsUnheard "shards-unheard", "Each shard keeps a limit as if it had the device for itself.",
        from "Ceph's mClock with several shards of an OSD";
    BytesFree "bytes-free", "Limits count requests, and not the bytes that they move.",
        from "Ceph's mClock before costs in bytes";
    OthersUnsettled "others-unsettled", "A server takes no note of what others have served of a tenant.",
        from "dmClock without delta and rho";
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

impl Bug {
    /// Whether engines driven by this thread are to have it.
    #[inline]
    pub fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }

    /// Plants a bug for whatever this thread drives, or none, until the guard goes.
    pub fn plant(bug: Option<Bug>) -> Planting {
        Planting { before: PLANTED.replace(bug) }
    }

    /// Whether simulated runs have to find it. The others are for the checks of the part that they break.
    pub fn is_simulated(self) -> bool {
        self < Bug::IdleKeepCredit
    }

    /// What is listed of it.
    pub fn listed(self) -> &'static Listed {
        &BUGS[self as usize]
    }

    /// The bug of that name.
    pub fn named(name: &str) -> Option<Bug> {
        BUGS.iter().find(|listed| listed.name == name).map(|listed| listed.bug)
    }
}

/// As long as it is kept, a bug is planted.
#[derive(Debug)]
pub struct Planting {
    before: Option<Bug>,
}

impl Drop for Planting {
    fn drop(&mut self) {
        PLANTED.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_list_is_in_order_and_names_are_unique() {
        assert!(BUGS.iter().enumerate().all(|(at, listed)| listed.bug as usize == at));
        let names: BTreeSet<&str> = BUGS.iter().map(|listed| listed.name).collect();
        assert_eq!(names.len(), BUGS.len());
        assert!(BUGS.iter().all(|listed| Bug::named(listed.name) == Some(listed.bug)));
        assert!(BUGS.iter().all(|listed| listed.bug.listed() == listed));
    }

    #[test]
    fn a_choice_ends_with_its_guard() {
        assert!(!Bug::LostWrites.is_planted());
        {
            let _planting = Bug::plant(Some(Bug::LostWrites));
            assert!(Bug::LostWrites.is_planted() && !Bug::StaleReads.is_planted());
        }
        assert!(!Bug::LostWrites.is_planted());
    }
}
