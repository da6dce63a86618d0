//! The commands that all daemons have, over a daemon made for these tests.
//!
//! Read next: `super`.

use super::*;
use crate::command::CommandTable;
use crate::settings::Settings;
use base::Instant;

crate::counters! {
    /// What the daemon of these tests counts.
    struct Counted {
        op: Counter ["ops", 10, None] "Requests";
    }
}

#[derive(Default)]
struct Tried {
    settings: Settings,
    counted: Counted,
}

impl Administered for Tried {
    fn entity(&self) -> String {
        "osd.7".to_owned()
    }

    fn layer(&self, layer: Layer, option: &str) -> Option<String> {
        self.settings.layer(layer, option).map(str::to_owned)
    }

    fn set_override(&mut self, option: &str, value: Option<String>) {
        self.settings.set_override(option, value);
    }

    fn visit_counters(&self, see: &mut dyn FnMut(&str, &dyn CounterSet)) {
        see("osd", &self.counted);
    }

    fn reset_counters(&mut self, set: Option<&str>) {
        if set.is_none_or(|set| set == "osd") {
            self.counted.reset();
        }
    }
}

fn ask(daemon: &mut Tried, json: &str) -> Answer {
    let table = CommandTable::of(&[Common::<Tried>::COMMANDS]);
    let call = Call::parse(Instant::ZERO, "admin socket", &[json.to_owned()], Bytes::new())?;
    match (table.answer_of_itself(&call), table.find(&call)) {
        (Some(answer), _) => answer,
        (None, Some(spec)) => (spec.run)(daemon, &call),
        (None, None) => refuse(Errno::EINVAL, "command not known"),
    }
}

fn said(daemon: &mut Tried, json: &str) -> String {
    let text = socket_text(ask(daemon, json));
    String::from_utf8(text.to_vec()).expect("answers are text")
}

#[test]
fn options_are_shown_set_and_refused_in_cephs_words() {
    let mut daemon = Tried::default();
    let set = r#"{"prefix":"config set","var":"osd_max_backfills","val":["3"],"format":"json"}"#;
    assert_eq!(said(&mut daemon, set), r#"{"success":"osd_max_backfills = '3' "}"#);
    let get = r#"{"prefix":"config get","var":"osd_max_backfills","format":"json"}"#;
    assert_eq!(said(&mut daemon, get), r#"{"osd_max_backfills":"3"}"#);
    let show = ask(&mut daemon, r#"{"prefix":"config show","format":"json"}"#).expect("it shows");
    let show: serde_json::Value = serde_json::from_slice(&show.data).expect("JSON");
    assert_eq!((&show["name"], &show["osd_max_backfills"]), (&"osd.7".into(), &"3".into()));
    assert_eq!(said(&mut daemon, r#"{"prefix":"config unset","var":"osd_max_backfills","format":"json"}"#), "{}");
    assert_eq!(said(&mut daemon, get), r#"{"osd_max_backfills":"1"}"#);
    let bad = r#"{"prefix":"config set","var":"osd_max_backfills","val":["x"]}"#;
    let text = "ERROR: (22) Invalid argument\nerror setting 'osd_max_backfills' to 'x': (22) Invalid argument\n";
    assert_eq!(said(&mut daemon, bad), text);
    let none = said(&mut daemon, r#"{"prefix":"config get","var":"nosuch"}"#);
    assert_eq!(none, "ERROR: (2) No such file or directory\nerror getting 'nosuch': (2) No such file or directory\n");
    let injected = ask(&mut daemon, r#"{"prefix":"injectargs","injected_args":["--osd_max_backfills=2"]}"#);
    assert_eq!(injected.map(|r| r.text), Ok("osd_max_backfills = '2' ".to_owned()));
}

#[test]
fn counters_are_dumped_described_and_set_back() {
    let mut daemon = Tried::default();
    daemon.counted.op.add(5);
    assert_eq!(said(&mut daemon, r#"{"prefix":"perf dump","format":"json"}"#), r#"{"osd":{"op":5}}"#);
    let other = r#"{"prefix":"perf dump","logger":"mon","format":"json"}"#;
    assert_eq!(said(&mut daemon, other), "{}");
    assert!(said(&mut daemon, r#"{"prefix":"perf schema","format":"json"}"#).contains(r#""nick":"ops""#));
    let reset = |name: &str| format!(r#"{{"prefix":"perf reset","var":"{name}","format":"json"}}"#);
    assert_eq!(said(&mut daemon, &reset("mon")), r#"{"error":"Not find: mon"}"#);
    assert_eq!(daemon.counted.op.0, 5);
    assert_eq!(said(&mut daemon, &reset("all")), r#"{"success":"perf reset all"}"#);
    assert_eq!(daemon.counted.op.0, 0);
}

#[test]
fn the_table_says_what_there_is() {
    let mut daemon = Tried::default();
    let help = said(&mut daemon, r#"{"prefix":"help","format":"json"}"#);
    assert!(help.contains(r#""perf dump":"show counters""#), "{help}");
    let described = said(&mut daemon, r#"{"prefix":"get_command_descriptions"}"#);
    let described: serde_json::Value = serde_json::from_str(&described).expect("JSON");
    assert_eq!(described.as_object().map(|o| o.len()), Some(Common::<Tried>::COMMANDS.len()));
    assert!(said(&mut daemon, r#"{"prefix":"nosuch"}"#).starts_with("ERROR: (22) Invalid argument\n"));
    assert!(said(&mut daemon, "{").starts_with("ERROR: (22) "));
}
