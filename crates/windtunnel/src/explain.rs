//! Looks up what a name or number means: a rule, an entry point, a status, a result, a bug check.

use crate::support::{Row, legal_statuses, support};
use abi::status::NAMES;
use abi::{HRESULT, NTSTATUS, hresult};
use kernel::ddi::{Legal, TABLE};
use verify::bugcheck::{self, BUG_CHECKS, BugCheck, BugCheckCause};
use verify::{Entry, catalogue};

/// The meaning of a text.
pub enum Explanation {
    /// A rule.
    Rule(&'static Entry),
    /// A rule name of Driver Verifier for streaming minidrivers, with the rules it corresponds to.
    Alias(&'static str, Vec<&'static Entry>),
    /// An entry point, a DDI, a callback or an import.
    EntryPoint(EntryPoint),
    /// A status.
    Status(Status),
    /// A user-mode result.
    Result(UserResult),
    /// A bug check, with the requested parameter.
    BugCheck(&'static BugCheck, Option<u32>),
}

/// A status, and where it occurs.
pub struct Status {
    /// The number.
    pub code: NTSTATUS,
    /// Its Windows name.
    pub name: &'static str,
}

/// A user-mode result (`HRESULT`), and where it occurs.
pub struct UserResult {
    /// The number.
    pub code: HRESULT,
    /// Its Windows name.
    pub name: &'static str,
}

/// A row of a support table.
pub struct EntryPoint {
    /// The title of the table.
    pub table: &'static str,
    /// The names of the row's cells.
    pub columns: &'static [&'static str],
    /// The row.
    pub row: Row,
}

/// A text with no known meaning, with the nearest known texts.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownText {
    /// The kind of text: `rule`, `entry point`, `bug check` or `status, result or bug check`.
    pub kind: &'static str,
    /// The nearest known texts.
    pub nearest: Vec<String>,
}

/// Finds what a text means: a rule's id, the name of an entry point, a status or result by name
/// or number, a bug check by name or as `0x119`, `0x119/2` or `bugcheck 0x119 (0x2)`.
pub fn explain(text: &str) -> Result<Explanation, UnknownText> {
    let wanted = text.trim().to_uppercase();
    if let Some(rule) = verify::find(&wanted) {
        return Ok(Explanation::Rule(rule));
    }
    if let Some((name, rules)) = verify::aliased(&wanted) {
        return Ok(Explanation::Alias(name, rules));
    }
    if let Some(stop) = BUG_CHECKS.iter().find(|bug_check| bug_check.name == wanted) {
        return Ok(Explanation::BugCheck(stop, None));
    }
    let short = |text: &str| text == wanted || text.strip_prefix("STATUS_") == Some(&wanted);
    if let Some((code, name)) = NAMES.iter().find(|pair| short(pair.1)) {
        return Ok(Explanation::Status(Status { code: *code, name }));
    }
    if let Some((code, name)) = hresult::NAMES.iter().find(|pair| pair.1 == wanted) {
        return Ok(Explanation::Result(UserResult { code: *code, name }));
    }
    if let Some(point) = EntryPoint::find(&wanted) {
        return Ok(Explanation::EntryPoint(point));
    }
    if let Some(query) = NumberQuery::read(&wanted) {
        return query.find();
    }
    if wanted.contains('_') {
        let results = hresult::NAMES.iter().map(|pair| pair.1);
        let names = NAMES
            .iter()
            .map(|pair| pair.1)
            .chain(BUG_CHECKS.iter().map(|bug_check| bug_check.name));
        return Err(UnknownText {
            kind: CODE_KIND,
            nearest: nearest_names(&wanted, names.chain(results)),
        });
    }
    if ["PFN", "DXGK", "D3DKMT", "AVSTRMINI"].iter().any(|text| wanted.starts_with(text)) {
        let tables = support();
        let names = tables.iter().flat_map(|support_table| &support_table.rows).map(|row| row.name);
        return Err(UnknownText { kind: "entry point", nearest: nearest_names(&wanted, names) });
    }
    let aliases = verify::ALIASES.iter().map(|pair| pair.0).filter(|_| wanted.starts_with("KS"));
    let ids = catalogue().iter().map(|entry| entry.id.as_str()).chain(aliases);
    Err(UnknownText { kind: "rule", nearest: nearest_names(&wanted, ids) })
}

/// The kinds that a name with an underscore can have.
const CODE_KIND: &str = "status, result or bug check";

/// The four names nearest to a name in upper case.
fn nearest_names<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut near: Vec<&str> = known.collect();
    near.sort_by_cached_key(|it| {
        let it = it.to_uppercase();
        (!it.contains(wanted), strsim::damerau_levenshtein(&it, wanted))
    });
    near.truncate(4);
    near.into_iter().map(str::to_owned).collect()
}

/// A number to explain.
struct NumberQuery {
    code: u32,
    /// Whether the number can only be a bug check.
    bug_check_only: bool,
    parameter: Option<u32>,
}

impl NumberQuery {
    /// Reads `0x119`, `0x119/2`, `bugcheck 0x119 (0x2)` or a decimal number, in upper case.
    fn read(text: &str) -> Option<Self> {
        let rest = ["BUGCHECK", "BUG CHECK"].iter().find_map(|name| text.strip_prefix(name));
        let number = rest.unwrap_or(text).trim();
        let (code, parameter) = match number.split_once(['/', '(']) {
            Some((code, after)) => (code, Some(after.trim_end_matches(')'))),
            None => (number, None),
        };
        let parameter = match parameter {
            Some(it) => Some(read_number(it)?),
            None => None,
        };
        let stop = rest.is_some() || parameter.is_some();
        Some(Self { code: read_number(code)?, bug_check_only: stop, parameter })
    }

    fn find(&self) -> Result<Explanation, UnknownText> {
        let code = self.code.cast_signed();
        if let (false, Some(name)) = (self.bug_check_only, abi::status::name(code)) {
            return Ok(Explanation::Status(Status { code, name }));
        }
        if let (false, Some(name)) = (self.bug_check_only, hresult::name(code)) {
            return Ok(Explanation::Result(UserResult { code, name }));
        }
        if let Some(stop) = bugcheck::find(self.code) {
            return Ok(Explanation::BugCheck(stop, self.parameter));
        }
        let statuses = NAMES.iter().map(|pair| (pair.0.cast_unsigned(), pair.1));
        let results = hresult::NAMES.iter().map(|pair| (pair.0.cast_unsigned(), pair.1));
        let statuses = statuses.chain(results).filter(|_| !self.bug_check_only);
        let stops = BUG_CHECKS.iter().map(|bug_check| (bug_check.code, bug_check.name));
        let mut known: Vec<_> = statuses.chain(stops).collect();
        known.sort_by_key(|pair| pair.0.abs_diff(self.code));
        known.truncate(4);
        let nearest = known.iter().map(|pair| format!("{:#X} {}", pair.0, pair.1));
        let kind = if self.bug_check_only { "bug check" } else { CODE_KIND };
        Err(UnknownText { kind, nearest: nearest.collect() })
    }
}

/// Parses a status number: hexadecimal, decimal, negative, or sign-extended to 64 bits.
fn read_number(text: &str) -> Option<u32> {
    let text = text.trim().replace('_', "");
    if let Some(hex) = text.strip_prefix("0X") {
        let wide = u64::from_str_radix(hex, 16).ok()?;
        let narrow = if wide >> 32 == 0xFFFF_FFFF { wide & 0xFFFF_FFFF } else { wide };
        return narrow.try_into().ok();
    }
    let wide: i64 = text.parse().ok()?;
    u32::try_from(wide).ok().or_else(|| i32::try_from(wide).ok().map(i32::cast_unsigned))
}

impl Status {
    /// The severity, from the two upper bits.
    pub fn severity(&self) -> &'static str {
        match self.code.cast_unsigned() >> 30 {
            0 => "success",
            1 => "informational, which counts as success",
            2 => "warning, which counts as failure",
            _ => "failure",
        }
    }

    /// Whether this is not a failure.
    pub fn succeeds(&self) -> bool {
        self.code >= 0
    }

    /// The entry points that return this status without a driver having returned it.
    pub fn returned_by(&self) -> Vec<&'static str> {
        let returns = |entry_row: &&thunk::EntryRow| {
            self.code == 0 || entry_row.statuses.contains(&self.code)
        };
        thunk::ENTRIES.iter().filter(returns).map(|entry_row| entry_row.name).collect()
    }

    /// The entry points that pass this status on from a driver, each with the DDI that returns it.
    pub fn forwarded_by(&self) -> Vec<(&'static str, &'static str)> {
        let legal = self.legal_for();
        let entries = thunk::ENTRIES.iter();
        let each = entries.flat_map(|entry_row| {
            entry_row.forwards_errors_of.iter().map(|ddi| (entry_row.name, *ddi))
        });
        each.filter(|(_, ddi)| self.code != 0 && legal.contains(ddi)).collect()
    }

    /// The DDIs whose closed list of legal statuses contains this one.
    pub fn legal_for(&self) -> Vec<&'static str> {
        let has = |line: &&kernel::ddi::Line| {
            self.code == 0
                || legal_statuses(line.legal).is_some_and(|texts| texts.contains(&self.name))
        };
        TABLE.iter().filter(has).map(|line| line.name).collect()
    }

    /// The DDIs whose list of legal statuses is open, so that this one is not judged there.
    pub fn open_for(&self) -> Vec<&'static str> {
        let open = |line: &&kernel::ddi::Line| self.code != 0 && matches!(line.legal, Legal::Any);
        TABLE.iter().filter(open).map(|line| line.name).collect()
    }

    /// The rules that name it as what Windows returns when they are broken.
    pub fn rules(&self) -> Vec<&'static Entry> {
        catalogue().iter().filter(|entry| entry.mentions_status(self.name)).collect()
    }
}

impl UserResult {
    /// Whether this is not a failure.
    pub fn succeeds(&self) -> bool {
        hresult::succeeded(self.code)
    }

    /// The kernel statuses that a callback of a user-mode driver converts to this result.
    pub fn source_statuses(&self) -> Vec<&'static str> {
        let becomes = |pair: &&(NTSTATUS, &str)| {
            let informs = self.code == 0 && pair.0 != 0; // Too many to list.
            !informs && runtime::result_of(pair.0) == self.code
        };
        NAMES.iter().filter(becomes).map(|pair| pair.1).collect()
    }

    /// The rules that name it as what Windows returns when they are broken.
    pub fn rules(&self) -> Vec<&'static Entry> {
        catalogue().iter().filter(|entry| entry.mentions_result(self.name)).collect()
    }
}

impl EntryPoint {
    /// Finds the row of a name in upper case.
    fn find(wanted: &str) -> Option<Self> {
        support().into_iter().find_map(|support_table| {
            let row =
                support_table.rows.into_iter().find(|row| row.name.eq_ignore_ascii_case(wanted))?;
            Some(Self { table: support_table.title, columns: support_table.columns, row })
        })
    }

    /// The rules that apply to the entry point.
    pub fn rules(&self) -> Vec<&'static Entry> {
        let place = self.columns.iter().position(|text| *text == "rules");
        let judged = place.map_or(Vec::new(), |index| self.row.cells[index].values());
        let of =
            |entry: &&Entry| entry.is_about(self.row.name) || judged.contains(&entry.id.as_str());
        catalogue().iter().filter(of).collect()
    }
}

/// The rules that lead to a bug check, filtered by `parameter` if given, and the known parameters.
pub fn bug_check_rules(stop: &BugCheck, parameter: Option<u32>) -> (Vec<BugCheckCause>, Vec<u32>) {
    let all = bugcheck::causes(stop.code);
    let mut known: Vec<u32> =
        all.iter().filter_map(|bug_check_cause| bug_check_cause.parameter).collect();
    known.dedup();
    let wanted = |bug_check_cause: &BugCheckCause| {
        parameter.is_none() || bug_check_cause.parameter == parameter
    };
    (all.into_iter().filter(wanted).collect(), known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> Option<&'static str> {
        match explain(text) {
            Ok(Explanation::Status(it)) => Some(it.name),
            _ => None,
        }
    }

    fn bug_check(text: &str) -> Option<(u32, Option<u32>)> {
        match explain(text) {
            Ok(Explanation::BugCheck(it, parameter)) => Some((it.code, parameter)),
            _ => None,
        }
    }

    #[test]
    fn a_status_is_found_as_people_write_it() {
        for text in [
            "0xC000000D",
            "0xc000000d",
            "3221225485",
            "-1073741811",
            "0xFFFFFFFFC000000D",
            "STATUS_INVALID_PARAMETER",
            "invalid_parameter",
        ] {
            assert_eq!(status(text), Some("STATUS_INVALID_PARAMETER"), "{text}");
        }
        assert_eq!(status("0"), Some("STATUS_SUCCESS"));
    }

    #[test]
    fn a_bug_check_is_found_as_people_write_it() {
        for text in ["0x119/2", "bugcheck 0x119 (0x2)", "bug check 281(2)", "0x119/0x2"] {
            assert_eq!(bug_check(text), Some((0x119, Some(2))), "{text}");
        }
        assert_eq!(bug_check("0x119"), Some((0x119, None)));
        assert_eq!(bug_check("video_tdr_failure"), Some((0x116, None)));
        assert_eq!(bug_check("0x10E/0xB"), Some((0x10E, Some(0xB))));
    }

    #[test]
    fn a_number_is_a_status_or_a_bug_check_and_never_both() {
        for it in BUG_CHECKS {
            assert_eq!(abi::status::name(it.code.cast_signed()), None, "{}", it.name);
        }
    }

    #[test]
    fn results_and_entry_points_are_found() {
        let result = |text| match explain(text) {
            Ok(Explanation::Result(it)) => it,
            _ => panic!("{text} is a result"),
        };
        for text in ["E_INVALIDARG", "e_invalidarg", "0x80070057", "-2147024809"] {
            assert_eq!(result(text).name, "E_INVALIDARG", "{text}");
        }
        let it = result("E_INVALIDARG");
        assert_eq!(it.source_statuses(), ["STATUS_INVALID_HANDLE", "STATUS_INVALID_PARAMETER"]);
        assert!(it.rules().iter().any(|entry| entry.id == "UMD-DESTROY-008"));
        let point = |text| match explain(text) {
            Ok(Explanation::EntryPoint(it)) => it,
            _ => panic!("{text} is an entry point"),
        };
        for (text, rule) in [
            ("pfnDeallocateCb", "UMD-DESTROY-001"),
            ("pfndestroyresource", "UMD-DESTROY-004"),
            ("D3DKMTDestroyAllocation2", "ALLOC-DESTROY-005"),
            ("DxgkDdiDestroyAllocation", "KMD-DESTROY-002"),
            ("AVStrMiniDeleteAllocator", "KS-ALLOC-015"),
            ("KsStreamPointerDelete", "KS-PTR-003"),
        ] {
            assert!(point(text).rules().iter().any(|entry| entry.id == rule), "{text}: {rule}");
        }
        let why = explain("pfnDealocateCb").err().unwrap();
        assert_eq!((why.kind, why.nearest[0].as_str()), ("entry point", "pfnDeallocateCb"));
    }

    #[test]
    fn what_is_not_known_is_answered_with_the_nearest() {
        let why = |text| explain(text).err().unwrap();
        assert_eq!(why("0xC000000E").kind, CODE_KIND);
        assert_eq!(why("0xC000000E").nearest[0], "0xC000000D STATUS_INVALID_PARAMETER");
        assert_eq!(why("0x118/2").kind, "bug check");
        assert!(
            why("0x118").nearest[0].starts_with("0x119 ")
                || why("0x118").nearest[0].starts_with("0x117 ")
        );
        assert_eq!(why("STATUS_INVALID_PARAMETR").nearest[0], "STATUS_INVALID_PARAMETER");
        assert_eq!(why("KMD-DESTROY-02").nearest[0], "KMD-DESTROY-002");
        assert_eq!(why("0x119/x").kind, "rule");
    }

    #[test]
    fn every_status_of_the_catalogue_has_a_number() {
        for entry in catalogue() {
            for name in entry.statuses() {
                assert!(NAMES.iter().any(|pair| pair.1 == name), "{}: {name}", entry.id);
            }
        }
    }

    #[test]
    fn a_status_lists_where_it_occurs() {
        let Ok(Explanation::Status(it)) = explain("STATUS_NO_MEMORY") else { panic!("a status") };
        assert!(it.returned_by().contains(&"D3DKMTCreateDevice"));
        assert!(it.forwarded_by().contains(&("D3DKMTCreateDevice", "DxgkDdiCreateDevice")));
        assert!(it.legal_for().contains(&"DxgkDdiCreateDevice"));
        assert!(!it.legal_for().contains(&"DxgkDdiSubmitCommandVirtual"));
        assert!(it.open_for().contains(&"DxgkDdiStartDevice"));
        assert!(!it.rules().is_empty());
    }

    #[test]
    fn a_parameter_narrows_the_ways() {
        let stop = bugcheck::find(0x119).unwrap();
        let (some, known) = bug_check_rules(stop, Some(3));
        assert!(!some.is_empty() && some.len() < bug_check_rules(stop, None).0.len());
        assert_eq!(known, [1, 2, 3, 9, 0xA]);
        assert!(bug_check_rules(stop, Some(0x77)).0.is_empty());
    }
}
