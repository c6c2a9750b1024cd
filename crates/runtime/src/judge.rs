//! Rules that are judged here: who broke which, at which argument.

use crate::adapter::Opened;
use crate::device::Inner;
use flight::{RuleId, Who};

impl Inner {
    /// Judges a rule that binds the driver. Answers whether it was kept.
    pub(crate) fn judge(&self, rule: RuleId, place: &'static str, broken: Option<String>) -> bool {
        let kept = broken.is_none();
        self.log().judge(rule, Who::Umd, self.subject, place, broken);
        kept
    }

    /// Judges a rule that binds the application. Answers whether it was kept.
    pub(crate) fn judge_client(
        &self,
        rule: RuleId,
        place: &'static str,
        broken: Option<String>,
    ) -> bool {
        let kept = broken.is_none();
        self.log().judge(rule, Who::Client, self.subject, place, broken);
        kept
    }
}

impl Opened {
    /// Judges a rule. Answers whether it was kept.
    pub(crate) fn judge(
        &self,
        rule: RuleId,
        who: Who,
        place: &'static str,
        broken: Option<String>,
    ) -> bool {
        let kept = broken.is_none();
        self.run.log().judge(rule, who, self.subject, place, broken);
        kept
    }
}
