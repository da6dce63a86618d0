//! Rules and tunables in the words of `ceph osd crush rule dump`, `rule ls` and `show-tunables`.
//!
//! Follows Ceph v16.2 `CrushWrapper::dump_rule` and `dump_tunables`. Gives values; turning them into JSON or text is the
//! caller's business.

use crate::bucket::Algorithm;
use crate::map::CrushMap;
use crate::rule::{Op, Rule};
use crate::tunables::Profile;

/// A step as dumps show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepDump<'a> {
    /// `op` only: noop and emit.
    Plain {
        /// The operation's name.
        op: &'static str,
    },
    /// `op`, `item`, `item_name`.
    Take {
        /// The item that placement starts from.
        item: i32,
        /// Its name; empty if it has none.
        item_name: &'a str,
    },
    /// `op`, `num`, `type`.
    Choose {
        /// The operation's name.
        op: &'static str,
        /// How many; 0 and below are relative to the pool's size.
        num: i32,
        /// The name of the type chosen.
        kind: &'a str,
    },
    /// `op`, `num`.
    Set {
        /// The operation's name.
        op: &'static str,
        /// The value.
        num: i32,
    },
    /// `opcode`, `arg1`, `arg2`: steps that Ceph's dump has no words for.
    Other {
        /// The operation's number.
        opcode: u32,
        /// Its first argument.
        arg1: i32,
        /// Its second argument.
        arg2: i32,
    },
}

/// What `show-tunables` says besides the tunables themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirements {
    /// The profile, or none when the values are nobody's.
    pub profile: Option<Profile>,
    /// The oldest release whose clients can map with this map.
    pub minimum_required_version: &'static str,
    /// Values of bobtail (tries).
    pub tunables: bool,
    /// chooseleaf_descend_once.
    pub tunables2: bool,
    /// chooseleaf_vary_r.
    pub tunables3: bool,
    /// chooseleaf_stable.
    pub tunables5: bool,
    /// indep or set tries steps.
    pub v2_rules: bool,
    /// vary_r steps.
    pub v3_rules: bool,
    /// straw2 buckets.
    pub v4_buckets: bool,
    /// stable steps.
    pub v5_rules: bool,
}

impl CrushMap {
    /// The steps of a rule in words.
    pub fn dump_steps<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = StepDump<'a>> {
        rule.steps.iter().map(move |step| match (step.op, step.op.name()) {
            (Op::TAKE, _) => {
                StepDump::Take { item: step.arg1, item_name: self.item_name(step.arg1).unwrap_or_default() }
            }
            (Op::NOOP | Op::EMIT, Some(op)) => StepDump::Plain { op },
            (Op::CHOOSE_FIRSTN | Op::CHOOSE_INDEP | Op::CHOOSELEAF_FIRSTN | Op::CHOOSELEAF_INDEP, Some(op)) => {
                StepDump::Choose { op, num: step.arg1, kind: self.type_name(step.arg2).unwrap_or_default() }
            }
            (Op::SET_CHOOSE_TRIES | Op::SET_CHOOSELEAF_TRIES, Some(op)) => StepDump::Set { op, num: step.arg1 },
            _ => StepDump::Other { opcode: step.op.0, arg1: step.arg1, arg2: step.arg2 },
        })
    }

    /// What clients must understand to map with this map.
    pub fn requirements(&self) -> Requirements {
        let uses = |ops: &[Op]| self.rules().any(|(_, rule)| rule.steps.iter().any(|step| ops.contains(&step.op)));
        let (now, legacy) = (self.tunables(), Profile::Argonaut.tunables());
        let tunables = (now.choose_local_tries, now.choose_local_fallback_tries, now.choose_total_tries)
            != (legacy.choose_local_tries, legacy.choose_local_fallback_tries, legacy.choose_total_tries);
        let mut requirements = Requirements {
            profile: now.profile(),
            minimum_required_version: "argonaut",
            tunables,
            tunables2: now.chooseleaf_descend_once != 0,
            tunables3: now.chooseleaf_vary_r != 0,
            tunables5: now.chooseleaf_stable != 0,
            v2_rules: uses(&[Op::CHOOSE_INDEP, Op::CHOOSELEAF_INDEP, Op::SET_CHOOSE_TRIES, Op::SET_CHOOSELEAF_TRIES]),
            v3_rules: uses(&[Op::SET_CHOOSELEAF_VARY_R]),
            v4_buckets: self.buckets().any(|bucket| bucket.algorithm() == Algorithm::Straw2),
            v5_rules: uses(&[Op::SET_CHOOSELEAF_STABLE]),
        };
        requirements.minimum_required_version = if requirements.v5_rules || requirements.tunables5 {
            "jewel"
        } else if requirements.v4_buckets {
            "hammer"
        } else if requirements.tunables3 {
            "firefly"
        } else if requirements.tunables2 || requirements.tunables {
            "bobtail"
        } else {
            "argonaut"
        };
        requirements
    }
}

#[cfg(test)]
mod tests {
    use super::StepDump;
    use crate::CrushMap;

    #[test]
    fn the_default_rule_reads_as_in_ceph() {
        let map = CrushMap::simple("host").expect("host is a type");
        let rule = map.rule(0).expect("the default rule");
        let steps: Vec<StepDump<'_>> = map.dump_steps(rule).collect();
        assert_eq!(
            steps,
            [
                StepDump::Take { item: -1, item_name: "default" },
                StepDump::Choose { op: "chooseleaf_firstn", num: 0, kind: "host" },
                StepDump::Plain { op: "emit" },
            ]
        );
        assert_eq!(map.requirements().minimum_required_version, "jewel");
        assert_eq!(map.requirements().profile.map(|profile| profile.name()), Some("jewel"));
    }
}
