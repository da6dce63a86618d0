//! Return codes and status lines are Ceph's: as captured from the 16.2.15 CLI.

mod cluster;

use cluster::Cluster;

/// Command, return code, status line; in order, on one cluster with the pool `data`.
const CAPTURED: &[(&str, i32, &str)] = &[
    (r#"{"prefix":"osd find","id":99}"#, -2, "osd.99 does not exist"),
    (r#"{"prefix":"osd pool get","pool":"nosuch","var":"size"}"#, -2, "unrecognized pool 'nosuch'"),
    (r#"{"prefix":"osd pool create","pool":"data","pg_num":8}"#, 0, "pool 'data' already exists"),
    (r#"{"prefix":"osd pool create","pool":"x","erasure_code_profile":"abc"}"#, -2, "specified rule abc doesn't exist"),
    (
        r#"{"prefix":"osd pool create","pool":"big","pg_num":100000}"#,
        -34,
        "'pg_num' must be greater than 0 and less than or equal to 65536 (you may adjust 'mon max pool pg num' for higher values)",
    ),
    (
        r#"{"prefix":"osd pool rm","pool":"data","pool2":"data"}"#,
        -1,
        "WARNING: this will *PERMANENTLY DESTROY* all data stored in pool data.  If you are *ABSOLUTELY CERTAIN* that is what you want, pass the pool name *twice*, followed by --yes-i-really-really-mean-it.",
    ),
    (r#"{"prefix":"osd pool set","pool":"data","var":"size","val":"0"}"#, -22, "pool size must be between 1 and 10"),
    (
        r#"{"prefix":"osd pool set","pool":"data","var":"size","val":"abc"}"#,
        -22,
        "error parsing integer value 'abc': Expected option value to be integer, got 'abc'",
    ),
    (
        r#"{"prefix":"osd pg-upmap-items","pgid":"1.0","id":[0,0]}"#,
        -22,
        "from osd.0 == to osd.0, no valid upmap items(pairs) is specified",
    ),
    (
        r#"{"prefix":"osd pg-upmap-items","pgid":"1.0","id":[0]}"#,
        -22,
        "you must specify pairs of osd ids to be remapped",
    ),
    (r#"{"prefix":"osd pg-upmap-items","pgid":"1.0","id":[0,99]}"#, -2, "osd.99 does not exist"),
    (r#"{"prefix":"osd pg-upmap","pgid":"1.0","id":[0]}"#, -22, "num of osds (1) < pool min size (2)"),
    (r#"{"prefix":"osd pg-upmap","pgid":"1.0","id":[0,1,2,0]}"#, -22, "num of osds (4) > pool size (3)"),
    (r#"{"prefix":"osd out","ids":["99"]}"#, 0, "osd.99 does not exist. "),
    (r#"{"prefix":"osd in","ids":["0"]}"#, 0, "osd.0 is already in. "),
    (r#"{"prefix":"auth get","entity":"client.nosuch"}"#, -2, "failed to find client.nosuch in keyring"),
    (r#"{"prefix":"auth get-or-create","entity":"nodot"}"#, -22, "bad entity name"),
    (
        r#"{"prefix":"auth get-or-create","entity":"client.bad","caps":["mon"]}"#,
        -22,
        "bad capabilities request; odd number of arguments",
    ),
    (
        r#"{"prefix":"auth get-or-create","entity":"client.bad","caps":["mon","garbage caps"]}"#,
        -22,
        "mon capability parse failed, stopped at 'garbage caps' of 'garbage caps'",
    ),
    (
        r#"{"prefix":"auth caps","entity":"client.nosuch","caps":["mon","allow r"]}"#,
        -2,
        "couldn't find entry client.nosuch",
    ),
    (r#"{"prefix":"auth rm","entity":"client.nosuch"}"#, 0, "entity client.nosuch does not exist"),
    (
        r#"{"prefix":"config set","who":"osd","name":"nosuch_option","value":"1"}"#,
        -22,
        "unrecognized config option 'nosuch_option'",
    ),
    (
        r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"abc"}"#,
        -22,
        "error parsing value: strict_si_cast: unit prefix not recognized",
    ),
    (
        r#"{"prefix":"config set","who":"nosuch.x","name":"debug_osd","value":"1"}"#,
        -22,
        "unrecognized config target 'nosuch.x'",
    ),
    (
        r#"{"prefix":"config set","who":"osd","name":"mon_host","value":"10.0.0.1"}"#,
        -22,
        "mon_host is special and cannot be stored by the mon",
    ),
    (r#"{"prefix":"pg ls-by-osd","osd":"osd.9"}"#, -11, "osd 9 is not up"),
    (r#"{"prefix":"config show","who":"osd.99"}"#, -2, "no config state for daemon osd.99"),
    (r#"{"prefix":"osd pool create","pool":"new1","pg_num":8}"#, 0, "pool 'new1' created"),
    (r#"{"prefix":"osd pool set","pool":"new1","var":"size","val":"2"}"#, 0, "set pool 2 size to 2"),
    (r#"{"prefix":"osd pool set","pool":"new1","var":"nodelete","val":"1"}"#, 0, "set pool 2 nodelete to 1"),
    (
        r#"{"prefix":"osd pool rm","pool":"new1","pool2":"new1","yes_i_really_really_mean_it":true}"#,
        -1,
        "pool deletion is disabled; you must unset nodelete flag for the pool first",
    ),
    (r#"{"prefix":"osd pool set","pool":"new1","var":"nodelete","val":"0"}"#, 0, "set pool 2 nodelete to 0"),
    (
        r#"{"prefix":"osd pool set-quota","pool":"new1","field":"max_objects","val":"10"}"#,
        0,
        "set-quota max_objects = 10 for pool new1",
    ),
    (
        r#"{"prefix":"osd pool application enable","pool":"new1","app":"myapp"}"#,
        0,
        "enabled application 'myapp' on pool 'new1'",
    ),
    (
        r#"{"prefix":"osd pool application enable","pool":"new1","app":"other"}"#,
        -1,
        "Are you SURE? Pool 'new1' already has an enabled application; pass --yes-i-really-mean-it to proceed anyway",
    ),
    (r#"{"prefix":"osd pool rename","srcpool":"new1","destpool":"new2"}"#, 0, "pool 'new1' renamed to 'new2'"),
    (
        r#"{"prefix":"osd pool delete","pool":"new2","pool2":"new2","yes_i_really_really_mean_it":true}"#,
        0,
        "pool 'new2' removed",
    ),
    (r#"{"prefix":"osd set","key":"pause"}"#, 0, "pauserd,pausewr is set"),
    (r#"{"prefix":"osd unset","key":"pause"}"#, 0, "pauserd,pausewr is unset"),
    (r#"{"prefix":"osd reweight","id":1,"weight":0.9}"#, 0, "reweighted osd.1 to 0.9 (e666)"),
    (r#"{"prefix":"osd reweight","id":1,"weight":1.0}"#, 0, "reweighted osd.1 to 1 (10000)"),
    (
        r#"{"prefix":"osd crush reweight","name":"osd.1","weight":0.5}"#,
        0,
        "reweighted item id 1 name 'osd.1' to 0.5 in crush map",
    ),
    (r#"{"prefix":"osd crush add-bucket","name":"r1","type":"rack"}"#, 0, "added bucket r1 type rack to crush map"),
    (r#"{"prefix":"osd down","ids":["2"]}"#, 0, "marked down osd.2. "),
    (r#"{"prefix":"osd out","ids":["2"]}"#, 0, "marked out osd.2. "),
    (r#"{"prefix":"config-key set","key":"a/b","val":"v"}"#, 0, "set a/b"),
    (r#"{"prefix":"config-key exists","key":"a/b"}"#, 0, "key 'a/b' exists"),
    (r#"{"prefix":"config-key rm","key":"a/b"}"#, 0, "key deleted"),
    (r#"{"prefix":"nosuch"}"#, -22, "unrecognized command"),
];

#[test]
fn codes_and_lines_are_cephs() {
    let (mut c, admin) = Cluster::with_osds(3);
    c.ok(admin, r#"{"prefix":"osd pool create","pool":"data","pg_num":8}"#);
    for (command, code, line) in CAPTURED {
        let (result, status, _) = c.command(admin, command);
        assert_eq!((result, status.as_str()), (*code, *line), "{command}");
    }
}

#[test]
fn erasure_coded_pools_are_refused_with_a_clear_line() {
    let (mut c, admin) = Cluster::with_osds(1);
    let (result, status, _) = c.command(admin, r#"{"prefix":"osd pool create","pool":"e","pool_type":"erasure"}"#);
    assert_eq!((result, status.contains("not supported")), (-95, true), "{status}");
}
