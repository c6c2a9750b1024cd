//! Judges rules: records which component broke which rule, at which argument.

use crate::adapter::AdapterState;
use crate::device::DeviceState;
use flight::{Component, RuleId};

impl DeviceState {
    /// Judges a rule that binds the driver. Returns whether the rule holds.
    pub(crate) fn judge(&self, rule: RuleId, place: &'static str, broken: Option<String>) -> bool {
        let kept = broken.is_none();
        self.log().judge(rule, Component::Umd, self.subject, place, broken);
        kept
    }

    /// Judges a rule that binds the application. Returns whether the rule holds.
    pub(crate) fn judge_client(
        &self,
        rule: RuleId,
        place: &'static str,
        broken: Option<String>,
    ) -> bool {
        let kept = broken.is_none();
        self.log().judge(rule, Component::Client, self.subject, place, broken);
        kept
    }
}

impl AdapterState {
    /// Judges a rule. Returns whether the rule holds.
    pub(crate) fn judge(
        &self,
        rule: RuleId,
        who: Component,
        place: &'static str,
        broken: Option<String>,
    ) -> bool {
        let kept = broken.is_none();
        self.run.log().judge(rule, who, self.subject, place, broken);
        kept
    }
}
