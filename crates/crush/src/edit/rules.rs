//! Making and removing rules: `osd crush rule create-replicated`, `create-simple`, `rm`, `rename`.
//!
//! Follows Ceph v16.2 `CrushWrapper::add_simple_rule_at` and `remove_rule`.

use super::{EditError, Result, check_name};
use crate::map::CrushMap;
use crate::rule::{Op, REPLICATED, Rule, Step};

/// How a rule fills a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Replicas: those after a failed one move up.
    Firstn,
    /// Shards: a failed one leaves a gap.
    Indep,
}

/// A rule that spreads over one type of bucket below one root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimpleRule<'a> {
    /// The new rule's name.
    pub name: &'a str,
    /// The bucket to start from.
    pub root: &'a str,
    /// The type of which each replica gets one; empty or the devices' type: any device.
    pub failure_domain: &'a str,
    /// Only devices of this class, if not empty.
    pub class: &'a str,
    /// For replicas or shards.
    pub mode: Mode,
    /// [`REPLICATED`] or [`crate::rule::ERASURE`].
    pub kind: u8,
}

impl<'a> SimpleRule<'a> {
    /// The rule for replicated pools that `osd crush rule create-replicated` makes.
    pub fn replicated(name: &'a str, root: &'a str, failure_domain: &'a str) -> SimpleRule<'a> {
        SimpleRule { name, root, failure_domain, class: "", mode: Mode::Firstn, kind: REPLICATED }
    }
}

impl CrushMap {
    /// Makes a rule; gives its id, the lowest free one.
    pub fn add_simple_rule(&mut self, rule: &SimpleRule<'_>) -> Result<i32> {
        check_name(rule.name)?;
        if self.rule_id(rule.name).is_some() {
            return Err(EditError::NameTaken(rule.name.to_owned()));
        }
        let start = self.rule_start(rule.root, rule.class)?;
        let kind = match rule.failure_domain {
            "" => 0,
            name => self.type_id(name).ok_or_else(|| EditError::NoSuchType(name.to_owned()))?,
        };
        let choose = match (rule.mode, kind) {
            (Mode::Firstn, 0) => Op::CHOOSE_FIRSTN,
            (Mode::Firstn, _) => Op::CHOOSELEAF_FIRSTN,
            (Mode::Indep, 0) => Op::CHOOSE_INDEP,
            (Mode::Indep, _) => Op::CHOOSELEAF_INDEP,
        };
        let mut steps = Vec::new();
        if rule.mode == Mode::Indep {
            steps.push(Step::new(Op::SET_CHOOSELEAF_TRIES, 5, 0));
            steps.push(Step::new(Op::SET_CHOOSE_TRIES, 100, 0));
        }
        steps.push(Step::new(Op::TAKE, start, 0));
        steps.push(Step::new(choose, 0, kind));
        steps.push(Step::new(Op::EMIT, 0, 0));
        let (min_size, max_size) = if rule.mode == Mode::Firstn { (1, 10) } else { (3, 20) };
        self.add_rule(rule.name, |id| Rule { ruleset: id, kind: rule.kind, min_size, max_size, steps })
    }

    /// Puts a rule into the lowest free slot.
    fn add_rule(&mut self, name: &str, make: impl FnOnce(u8) -> Rule) -> Result<i32> {
        let at = self.rules.iter().position(Option::is_none).unwrap_or(self.rules.len());
        // The number is also encoded as the one byte of the rule set.
        let Ok(ruleset) = u8::try_from(at) else { return Err(EditError::TooLarge) };
        if at == self.rules.len() {
            self.rules.push(None);
        }
        self.rules[at] = Some(make(ruleset));
        self.rule_names.insert(i32::from(ruleset), name.to_owned());
        Ok(i32::from(ruleset))
    }

    /// The bucket that a rule for `root` and `class` takes.
    fn rule_start(&self, root: &str, class: &str) -> Result<i32> {
        let id = self.require_item(root)?;
        if class.is_empty() {
            return Ok(id);
        }
        let class_id = self.class_id(class).ok_or_else(|| EditError::NoSuchClass(class.to_owned()))?;
        let none = || EditError::NoShadow { root: root.to_owned(), class: class.to_owned() };
        self.shadow(id, class_id).ok_or_else(none)
    }

    /// Removes a rule. Whether pools use it is for the caller to know.
    pub fn remove_rule(&mut self, id: i32) -> Result<()> {
        if self.rule(id).is_none() {
            return Err(EditError::NoSuchRule(id.to_string()));
        }
        self.edit(|map| {
            map.rules[id as usize] = None;
            map.rule_names.remove(&id);
            map.rebuild_shadows()
        })
    }

    /// Renames a rule.
    pub fn rename_rule(&mut self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        let id = self.rule_id(from).ok_or_else(|| EditError::NoSuchRule(from.to_owned()))?;
        if self.rule_id(to).is_some() {
            return Err(EditError::NameTaken(to.to_owned()));
        }
        self.rule_names.insert(id, to.to_owned());
        Ok(())
    }
}
