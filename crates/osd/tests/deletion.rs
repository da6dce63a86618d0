//! Placement groups that go: a few objects at a time, also after a start, and out of the way of what comes back; and
//! holders of whom their primary does not know.

mod harness;

use base::{Duration, PgId};
use harness::{Cluster, POOL, open};
use maps::stats::{PgStat, PgState};
use store::{CollectionId, ListWant, RECORD, ReadRequest, ReadResult, ReadWhat};

/// The objects of a group that lie in an OSD's store; none if its collection is not there.
fn held(c: &Cluster, osd: i32, pg: PgId) -> Option<usize> {
    let what = ReadWhat::List(ListWant { from: None, max: 1000, attr: None });
    match c.store(osd).read(&ReadRequest { collection: CollectionId::Pg(pg), what }) {
        Ok(ReadResult::List { entries, .. }) => Some(entries.iter().filter(|entry| entry.id.snap() != RECORD).count()),
        _ => None,
    }
}

fn fill(c: &mut Cluster, count: u32) {
    for i in 0..count {
        assert_eq!(c.write(&format!("o{i}"), b"data"), 0);
    }
}

fn set(c: &mut Cluster, osd: i32, option: &str, value: &str) {
    c.admin(osd, &format!(r#"{{"prefix":"config set","var":"{option}","val":["{value}"]}}"#));
}

fn removing(c: &mut Cluster, osd: i32) -> u64 {
    c.admin(osd, r#"{"prefix":"perf dump"}"#)["osd"]["numpg_removing"].as_u64().expect("a gauge")
}

fn is_clean(c: &Cluster, pg: PgId) -> bool {
    open::<PgStat>(&c.pg_stats[&pg]).state == PgState::ACTIVE.with(PgState::CLEAN)
}

#[test]
fn a_pools_objects_go_a_few_at_a_time_and_a_start_goes_on_with_it() {
    let mut c = Cluster::new(31, 1, 1, 1, 1);
    let (pg, _, _) = c.locate("o0");
    fill(&mut c, 100);
    set(&mut c, 0, "osd_delete_sleep", "1");
    c.publish(|_, inc| inc.old_pools.extend([POOL]));
    c.settle_for(Duration::from_millis(500));
    assert_eq!(held(&c, 0, pg), Some(70), "one turn, of osd_target_transaction_size objects");
    assert_eq!(removing(&mut c, 0), 1);
    c.settle_for(Duration::from_secs(1));
    assert_eq!(held(&c, 0, pg), Some(40));
    c.kill(0);
    c.start(0);
    set(&mut c, 0, "osd_delete_sleep", "1");
    c.settle_for(Duration::from_millis(500));
    assert_eq!(held(&c, 0, pg), Some(10), "it goes on");
    c.settle_for(Duration::from_secs(3));
    assert_eq!((held(&c, 0, pg), removing(&mut c, 0)), (None, 0), "and comes to its end");
    c.kill(0);
    c.start(0);
    c.settle();
    assert_eq!(held(&c, 0, pg), None);
}

/// A member was away until the group was clean on others, who then knew nothing of it: it kept its copy for ever.
#[test]
fn a_holder_that_is_not_asked_announces_itself_and_is_told_to_go() {
    let mut c = Cluster::new(32, 3, 2, 1, 1);
    let (pg, _, _) = c.locate("o0");
    fill(&mut c, 20);
    let away = c.map.pg_to_up_acting(pg).acting[1].0;
    c.kill(away);
    c.mark_down(away);
    c.mark_out(away);
    c.settle();
    c.settle();
    assert!(is_clean(&c, pg), "{:#?}", c.log);
    c.start(away);
    c.settle();
    c.settle();
    assert_eq!(held(&c, away, pg), None, "{:#?}", c.log);
    for osd in c.map.pg_to_up_acting(pg).acting {
        assert_eq!(held(&c, osd.0, pg), Some(20));
    }
}

/// It comes back here before all of it is gone: the rest makes way at once, and it is filled as one that has nothing.
#[test]
fn a_group_that_comes_back_does_not_wait_for_its_deletion() {
    let mut c = Cluster::new(33, 3, 2, 1, 1);
    let (pg, _, _) = c.locate("o0");
    fill(&mut c, 90);
    let moved = c.map.pg_to_up_acting(pg).acting[1].0;
    set(&mut c, moved, "osd_delete_sleep", "3600");
    c.mark_out(moved);
    c.settle();
    c.settle();
    assert_eq!((held(&c, moved, pg), removing(&mut c, moved)), (Some(60), 1), "{:#?}", c.log);
    assert_eq!(c.write("o1", b"new"), 0);
    c.mark_in(moved);
    c.settle();
    c.settle();
    assert!(is_clean(&c, pg), "{:#?}", c.log);
    assert_eq!((held(&c, moved, pg), removing(&mut c, moved)), (Some(90), 0));
    for osd in (0..3).filter(|osd| *osd != moved) {
        c.kill(osd);
        c.mark_down(osd);
    }
    c.settle();
    assert_eq!(c.read("o1").as_deref(), Ok(&b"new"[..]));
    assert_eq!(c.read("o89").as_deref(), Ok(&b"data"[..]));
}
