//! `ceph tell osd.N bench`: how fast the store takes writes.
//!
//! Follows Ceph v16.2 `src/osd/OSD.cc` (`asok_command`, `run_osd_bench_test`) for arguments, limits and the answer's
//! shape. Each piece goes to an object of its own among the OSD's own records, or, where the caller names so many
//! objects of such a size, to the next block of the next of them. A bounded number of writes is under way at a time;
//! the objects are removed at the end. One measurement runs at a time.

use crate::core::CommitFor;
use crate::life::Record;
use crate::limits::BENCH_WRITES_MAX;
use crate::osd::Osd;
use admin::{Answer, Call, Refused, Reply, object, refuse};
use base::{Errno, Instant};
use bytes::Bytes;
use store::{CollectionId, ObjectId, Op, Transaction};
use wire::messages::CommandReply;
use wire::net::{ConnId, Envelope};

/// What to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    count_bytes: u64,
    block_bytes: u64,
    object_bytes: u64,
    objects: u64,
}

impl Plan {
    /// What the caller wants, if the options allow it.
    fn of(osd: &Osd, call: &Call) -> Result<Plan, Refused> {
        let number = |name: &str, default: u64| {
            let given = call.int_opt(name)?;
            given.map_or(Ok(default), |n| u64::try_from(n).or_else(|_| refuse(Errno::EINVAL, "a negative number")))
        };
        let plan = Plan {
            count_bytes: number("count", 1 << 30)?,
            block_bytes: number("size", 4 << 20)?,
            object_bytes: number("object_size", 0)?,
            objects: number("object_num", 0)?,
        };
        let option = |name: &str| osd.core.settings.number(name) as u64;
        plan.check([
            option("osd_bench_duration"),
            option("osd_bench_max_block_size"),
            option("osd_bench_small_size_max_iops"),
            option("osd_bench_large_size_max_throughput"),
        ])?;
        let block_bytes =
            if plan.object_bytes > 0 { plan.block_bytes.min(plan.object_bytes) } else { plan.block_bytes };
        Ok(Plan { block_bytes, ..plan })
    }

    fn check(&self, [duration, max_block, small_iops, large_rate]: [u64; 4]) -> Result<(), Refused> {
        let (block, size) = (self.block_bytes, admin::format::quantity::bytes(self.block_bytes));
        if block > max_block {
            let text = format!(
                "block 'size' values are capped at {}. If you wish to use a higher value, please adjust \
                 'osd_bench_max_block_size'",
                admin::format::quantity::bytes(max_block)
            );
            return refuse(Errno::EINVAL, text);
        }
        let (most, rate, option) = if block < 1 << 20 {
            let rate = format!("{small_iops} IOPS");
            (block.saturating_mul(duration).saturating_mul(small_iops), rate, "osd_bench_small_size_max_iops")
        } else {
            let rate = format!("{}/s", admin::format::quantity::bytes(large_rate));
            (large_rate.saturating_mul(duration), rate, "osd_bench_large_size_max_throughput")
        };
        if self.count_bytes > most || block == 0 {
            let text = format!(
                "'count' values greater than {most} for a block size of {size}, assuming {rate}, for {duration} seconds, \
                 can cause ill effects on osd.  Please adjust '{option}' with a higher value if you wish to use a higher \
                 'count'."
            );
            return refuse(Errno::EINVAL, text);
        }
        Ok(())
    }

    fn writes(&self) -> u64 {
        self.count_bytes.div_ceil(self.block_bytes)
    }

    /// The object of the `n`th write, and where in it.
    fn place(&self, n: u64) -> (u64, u64) {
        if self.objects == 0 || self.object_bytes == 0 {
            return (n, 0);
        }
        let blocks = (self.object_bytes / self.block_bytes).max(1);
        (n % self.objects, (n / self.objects) % blocks * self.block_bytes)
    }

    /// How many objects there are in the end.
    fn objects_used(&self) -> u64 {
        if self.objects == 0 || self.object_bytes == 0 { self.writes() } else { self.objects.min(self.writes()) }
    }
}

/// A measurement under way.
#[derive(Debug)]
pub(crate) struct Bench {
    plan: Plan,
    call: Call,
    reply_to: (ConnId, u64),
    began: Instant,
    begun_writes: u64,
    done_writes: u64,
    block: Bytes,
}

fn object(number: u64) -> ObjectId {
    ObjectId::record(&format!("disk_bw_test_{number}"))
}

/// Over the admin socket an answer cannot wait for the store.
pub(crate) fn on_the_socket(_: &mut Osd, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "bench takes a while: ask for it by `ceph tell`")
}

impl Osd {
    /// Begins a measurement; it answers when it is done.
    pub(crate) fn begin_bench(&mut self, conn: ConnId, tid: u64, call: Call) -> Result<(), Refused> {
        let plan = Plan::of(self, &call)?;
        if self.bench.is_some() {
            return refuse(Errno::EBUSY, "a measurement is under way");
        }
        if self.life.record == Record::None {
            return refuse(Errno::EAGAIN, "this OSD has no map yet");
        }
        let block = Bytes::from(vec![0x5a; plan.block_bytes as usize]);
        let (began, reply_to) = (self.core.now, (conn, tid));
        self.bench = Some(Bench { plan, call, reply_to, began, begun_writes: 0, done_writes: 0, block });
        self.go_on_with_bench();
        Ok(())
    }

    /// A write of the measurement is durable, or its objects are gone.
    pub(crate) fn bench_committed(&mut self) {
        if let Some(bench) = &mut self.bench {
            bench.done_writes += 1;
            self.go_on_with_bench();
        }
    }

    fn go_on_with_bench(&mut self) {
        let Some(bench) = &mut self.bench else { return };
        let all = bench.plan.writes();
        while bench.begun_writes < all && bench.begun_writes - bench.done_writes < BENCH_WRITES_MAX {
            let (number, offset) = bench.plan.place(bench.begun_writes);
            let mut transaction = Transaction::new(CollectionId::Meta);
            let at = transaction.object(&object(number));
            let left = bench.plan.count_bytes - bench.begun_writes * bench.plan.block_bytes;
            let piece = bench.block.slice(..left.min(bench.plan.block_bytes) as usize);
            transaction.ops.push((at, Op::Write(offset, piece)));
            bench.begun_writes += 1;
            self.core.commit(CommitFor::Bench, transaction);
        }
        if bench.done_writes >= all
            && let Some(bench) = self.bench.take()
        {
            self.end_bench(&bench);
        }
    }

    fn end_bench(&mut self, bench: &Bench) {
        let elapsed = self.core.now.since(bench.began).as_secs_f64();
        let bytes = bench.plan.count_bytes;
        // What was over within one look at the clock has no rate.
        let rate = if elapsed > 0.0 { bytes as f64 / elapsed } else { 0.0 };
        let value = object! {
            "bytes_written" => bytes,
            "blocksize" => bench.plan.block_bytes,
            "elapsed_sec" => elapsed,
            "bytes_per_sec" => rate,
            "iops" => rate / bench.plan.block_bytes as f64,
        };
        let reply = Reply::value(&bench.call, &value);
        let (conn, tid) = bench.reply_to;
        let reply = CommandReply { result: 0, status: reply.text, output: reply.data };
        self.core.send(conn, Envelope::with_tid(tid, reply));
        // A transaction names few objects at a time.
        let numbers: Vec<u64> = (0..bench.plan.objects_used()).collect();
        for some in numbers.chunks(256) {
            let mut transaction = Transaction::new(CollectionId::Meta);
            for number in some {
                let at = transaction.object(&object(*number));
                transaction.ops.push((at, Op::Remove));
            }
            self.core.commit(CommitFor::Own, transaction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: [u64; 4] = [30, 64 << 20, 100, 100 << 20];

    fn plan(count_bytes: u64, block_bytes: u64) -> Plan {
        Plan { count_bytes, block_bytes, object_bytes: 0, objects: 0 }
    }

    /// Bounds and sentences as Ceph 16.2.15 answers them.
    #[test]
    fn what_would_take_too_long_is_refused() {
        assert_eq!(plan(12_288_000, 4096).check(LIMITS), Ok(()));
        let text = |p: Plan| p.check(LIMITS).expect_err("too much").text;
        assert!(text(plan(1000, 100_000_000)).starts_with("block 'size' values are capped at 64 MiB. If you wish"));
        let small = "'count' values greater than 12288000 for a block size of 4 KiB, assuming 100 IOPS, for 30 seconds, \
                     can cause ill effects on osd.  Please adjust 'osd_bench_small_size_max_iops' with a higher value \
                     if you wish to use a higher 'count'.";
        assert_eq!(text(plan(12_288_001, 4096)), small);
        let large = "'count' values greater than 3145728000 for a block size of 4 MiB, assuming 100 MiB/s, for 30";
        assert!(text(plan(10 << 30, 4 << 20)).starts_with(large));
        assert!(text(plan(4096, 0)).contains("for a block size of 0 B"));
    }

    #[test]
    fn writes_go_round_the_objects_and_their_blocks() {
        let round = Plan { count_bytes: 10 << 16, block_bytes: 1 << 16, object_bytes: 1 << 17, objects: 3 };
        let places: Vec<_> = (0..8).map(|n| round.place(n)).collect();
        let second = 1 << 16;
        let expected = [(0, 0), (1, 0), (2, 0), (0, second), (1, second), (2, second), (0, 0), (1, 0)];
        assert_eq!(places, expected);
        assert_eq!((round.writes(), round.objects_used(), plan(100, 30).writes()), (10, 3, 4));
        assert_eq!(plan(100, 30).place(3), (3, 0));
    }
}
