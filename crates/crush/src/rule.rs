//! Rules: the little programs that turn a seed into devices.
//!
//! Follows Ceph v16.2 `src/crush/crush.h` (opcodes, `crush_rule`, `crush_rule_mask`). Owns their shape and names;
//! refuses to run them (see `mapper`).

use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

/// What a step does. Unknown opcodes are kept and do nothing, as in Ceph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(pub u32);

macro_rules! ops {
    ($($name:ident = $value:literal, $text:literal, $doc:literal;)*) => {
        impl Op {
            $(#[doc = $doc] pub const $name: Op = Op($value);)*

            /// The name in `ceph osd crush rule dump`, where Ceph has one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some($text),)* _ => None }
            }
        }
    };
}

ops! {
    NOOP = 0, "noop", "Does nothing.";
    TAKE = 1, "take", "Starts from the item `arg1`.";
    CHOOSE_FIRSTN = 2, "choose_firstn", "Picks `arg1` items of type `arg2` below each item held; failures leave no gap.";
    CHOOSE_INDEP = 3, "choose_indep", "The same, position by position: failures leave a gap.";
    EMIT = 4, "emit", "Appends the items held to the result.";
    CHOOSELEAF_FIRSTN = 6, "chooseleaf_firstn", "Picks items of type `arg2` and one device below each; no gaps.";
    CHOOSELEAF_INDEP = 7, "chooseleaf_indep", "The same with gaps.";
    SET_CHOOSE_TRIES = 8, "set_choose_tries", "Overrides `choose_total_tries` (as tries, not retries) when positive.";
    SET_CHOOSELEAF_TRIES = 9, "set_chooseleaf_tries", "Sets the tries of the inner descent when positive.";
    SET_CHOOSE_LOCAL_TRIES = 10, "set_choose_local_tries", "Overrides `choose_local_tries`.";
    SET_CHOOSE_LOCAL_FALLBACK_TRIES = 11, "set_choose_local_fallback_tries", "Overrides `choose_local_fallback_tries`.";
    SET_CHOOSELEAF_VARY_R = 12, "set_chooseleaf_vary_r", "Overrides `chooseleaf_vary_r`.";
    SET_CHOOSELEAF_STABLE = 13, "set_chooseleaf_stable", "Overrides `chooseleaf_stable`.";
}

impl core::fmt::Debug for Op {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "op {}", self.0),
        }
    }
}

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What to do.
    pub op: Op,
    /// An item, or a count (0: as many as the pool wants; negative: that many fewer), or a value to set.
    pub arg1: i32,
    /// A type, for the steps that choose.
    pub arg2: i32,
}

impl Step {
    /// A step.
    pub fn new(op: Op, arg1: i32, arg2: i32) -> Step {
        Step { op, arg1, arg2 }
    }
}

impl Encode for Step {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.op.0);
        e.i32(self.arg1);
        e.i32(self.arg2);
    }
}

impl Decode for Step {
    const MIN_BYTES: usize = 12;
    fn decode(d: &mut Decoder<'_>) -> Result<Step, Malformed> {
        Ok(Step { op: Op(d.u32()?), arg1: d.i32()?, arg2: d.i32()? })
    }
}

/// What a rule is for: the values of pool types.
pub const REPLICATED: u8 = 1;
/// Rules for erasure-coded pools.
pub const ERASURE: u8 = 3;

/// A rule: a mask that says for which pools it is meant, and its steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// A number from older releases; equal to the rule's id since Luminous.
    pub ruleset: u8,
    /// [`REPLICATED`] or [`ERASURE`].
    pub kind: u8,
    /// The smallest pool size that the rule is meant for. Nothing enforces it since Quincy.
    pub min_size: u8,
    /// The largest pool size that the rule is meant for.
    pub max_size: u8,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Encode for Rule {
    fn encode(&self, e: &mut Encoder) {
        e.len(self.steps.len());
        e.raw(&[self.ruleset, self.kind, self.min_size, self.max_size]);
        self.steps.iter().for_each(|step| e.put(step));
    }
}

impl Decode for Rule {
    const MIN_BYTES: usize = 8;
    fn decode(d: &mut Decoder<'_>) -> Result<Rule, Malformed> {
        // The mask's four bytes stand between the count and what it counts; they only make the bound a little lax.
        let len = d.len(Step::MIN_BYTES)?;
        let [ruleset, kind, min_size, max_size] = d.array()?;
        let steps = (0..len).map(|_| d.get()).collect::<Result<_, _>>()?;
        Ok(Rule { ruleset, kind, min_size, max_size, steps })
    }
}
