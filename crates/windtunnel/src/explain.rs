//! Looks up what a name or number means: a rule or a family of rules, an entry point, a status, a
//! result, a bug check, a driver, a scenario, a decision, a failure.

use crate::driver::Driver;
use crate::facts::{Decision, Failure, all_decisions, all_failures};
use crate::scenario::{ALL as SCENARIOS, Scenario};
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
    /// The rules whose ids begin alike, with that beginning.
    Family(String, Vec<&'static Entry>),
    /// A built-in driver.
    Driver(Driver),
    /// A scenario.
    Scenario(&'static Scenario),
    /// A decision between sources.
    Decision(&'static Decision),
    /// A failure of a public project.
    Failure(&'static Failure),
    /// Code 43 of the Device Manager.
    Code43,
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

/// Finds what a text means: a rule's id or its beginning, the name of an entry point, a status or
/// result by name or number, a bug check by name or as `0x119`, `0x119/2` or
/// `bugcheck 0x119 (0x2)`, the name of a driver, a scenario, a decision or a failure, `code 43`.
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
    // A family and a scenario can have one name: rules are written in upper case.
    let upper = text.trim() == wanted;
    let family = || find_family(&wanted);
    let found = family().filter(|_| upper).or_else(|| find_named(&wanted)).or_else(family);
    if let Some(found) = found {
        return Ok(found);
    }
    if let Some(query) = NumberQuery::read(&wanted) {
        return query.find();
    }
    Err(unknown(&wanted))
}

/// A driver, a scenario, a decision, a failure or code 43, by a name in upper case.
fn find_named(wanted: &str) -> Option<Explanation> {
    let named = |name: &str| name.eq_ignore_ascii_case(wanted);
    if let Some(driver) = Driver::all().find(|driver| named(driver.name())) {
        return Some(Explanation::Driver(driver));
    }
    let mut scenarios = SCENARIOS.iter().copied().flatten();
    if let Some(scenario) = scenarios.find(|scenario| named(scenario.name)) {
        return Some(Explanation::Scenario(scenario));
    }
    if let Some(decision) = all_decisions().iter().find(|decision| named(&decision.id)) {
        return Some(Explanation::Decision(decision));
    }
    if let Some(failure) = all_failures().iter().find(|failure| named(&failure.id)) {
        return Some(Explanation::Failure(failure));
    }
    CODE_43.contains(&wanted).then_some(Explanation::Code43)
}

/// The rules whose ids begin with a text in upper case.
fn find_family(wanted: &str) -> Option<Explanation> {
    let family = wanted.trim_end_matches(['*', '.', '…', '-']);
    let belongs =
        |entry: &&Entry| entry.id.strip_prefix(family).is_some_and(|rest| rest.starts_with('-'));
    let rules: Vec<_> = catalogue().iter().filter(belongs).collect();
    (!rules.is_empty()).then(|| Explanation::Family(family.to_owned(), rules))
}

/// How people write code 43, in upper case.
const CODE_43: [&str; 5] = ["43", "CODE 43", "CODE43", "(CODE 43)", "CM_PROB_FAILED_POST_START"];

/// The rules for which Windows does not start the adapter: the Device Manager shows code 43.
pub fn code_43_rules() -> Vec<&'static Entry> {
    const ENDS: [&str; 3] = ["start refused", "initialisation fails", "display does not"];
    let leads = |entry: &&Entry| ENDS.iter().any(|text| entry.on_breach.contains(text));
    catalogue().iter().filter(leads).collect()
}

/// The error for a text that nothing has as its name.
fn unknown(wanted: &str) -> UnknownText {
    let points = || {
        let tables = support().into_iter();
        tables.flat_map(|support_table| support_table.rows).map(|row| row.name)
    };
    let codes = || {
        let stops = BUG_CHECKS.iter().map(|bug_check| bug_check.name);
        let results = hresult::NAMES.iter().map(|pair| pair.1);
        NAMES.iter().map(|pair| pair.1).chain(stops).chain(results)
    };
    let ids = || {
        let ids = catalogue().iter().map(|entry| entry.id.as_str());
        ids.chain(verify::ALIASES.iter().map(|pair| pair.0))
    };
    if ["PFN", "DXGK", "D3DKMT", "AVSTRMINI"].iter().any(|text| wanted.starts_with(text)) {
        return UnknownText { kind: "entry point", nearest: nearest_names(wanted, points()) };
    }
    if wanted.contains('_') {
        return UnknownText { kind: CODE_KIND, nearest: nearest_names(wanted, codes()) };
    }
    let mut families = catalogue().iter().filter_map(|entry| entry.id.split('-').next());
    let first = wanted.split('-').next().unwrap_or_default();
    if wanted.contains('-') && families.any(|family| family == first) {
        return UnknownText { kind: "rule", nearest: nearest_names(wanted, ids()) };
    }
    let scenarios = SCENARIOS.iter().copied().flatten().map(|scenario| scenario.name);
    let facts = all_decisions().iter().map(|decision| decision.id.as_str());
    let facts = facts.chain(all_failures().iter().map(|failure| failure.id.as_str()));
    let all = ids().chain(Driver::all().map(Driver::name)).chain(scenarios).chain(facts);
    let bare = points().map(|name| name.strip_prefix("pfn").unwrap_or(name));
    let nearest = nearest_names(wanted, all.chain(codes()).chain(bare));
    UnknownText { kind: ANY_KIND, nearest }
}

/// The kinds that a name can have.
const ANY_KIND: &str = "rule, entry point, code, driver, scenario, decision or failure";

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
        let wanted = spelling(wanted);
        support().into_iter().find_map(|support_table| {
            let row = support_table.rows.into_iter().find(|row| spelling(row.name) == wanted)?;
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

/// A function's name without what differs between its spellings: the member of a table
/// (`pfnDestroyResource`), the function (`DestroyResource`) and its type
/// (`PFND3DDDI_DESTROYRESOURCE`, `DXGKDDI_DESTROYALLOCATION`).
fn spelling(name: &str) -> String {
    let name = name.to_uppercase().replace('_', "");
    let bare = name.strip_prefix("PFND3DDDI").or_else(|| name.strip_prefix("PFN"));
    bare.unwrap_or(&name).to_owned()
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
        assert_eq!(why("0x119/x").kind, ANY_KIND);
        assert_eq!(why("softgpu-gpumu").nearest[0], "softgpu-gpummu");
        assert_eq!(why("DestroyResorce").nearest[0], "DestroyResource");
        assert_eq!(why("destroy-defered").nearest[0], "destroy-deferred");
        assert_eq!(why("KMD-DESTROY-02").kind, "rule");
    }

    #[test]
    fn a_function_is_found_by_each_of_its_spellings() {
        let name = |text: &str| match explain(text) {
            Ok(Explanation::EntryPoint(point)) => Some(point.row.name),
            _ => None,
        };
        for text in ["DestroyResource", "pfnDestroyResource", "PFND3DDDI_DESTROYRESOURCE"] {
            assert_eq!(name(text), Some("pfnDestroyResource"), "{text}");
        }
        assert_eq!(name("DXGKDDI_DESTROYALLOCATION"), Some("DxgkDdiDestroyAllocation"));
        assert_eq!(name("PFND3DKMT_DESTROYALLOCATION2"), Some("D3DKMTDestroyAllocation2"));
        let mut spellings = std::collections::BTreeMap::new();
        for row in support().into_iter().flat_map(|table| table.rows) {
            let other = spellings.insert(spelling(row.name), row.name);
            assert_eq!(other, None, "{} is spelled like another", row.name);
            if verify::aliased(&row.name.to_uppercase()).is_some() {
                continue; // A rule of Driver Verifier has the name of the function.
            }
            let bare = row.name.strip_prefix("pfn").unwrap_or(row.name);
            assert_eq!((name(row.name), name(bare)), (Some(row.name), Some(row.name)));
        }
    }

    #[test]
    fn every_driver_scenario_family_decision_and_failure_is_found() {
        for driver in Driver::all() {
            let found = explain(driver.name());
            assert!(matches!(found, Ok(Explanation::Driver(it)) if it.name() == driver.name()));
        }
        for scenario in SCENARIOS.iter().copied().flatten() {
            let found = explain(scenario.name);
            assert!(matches!(found, Ok(Explanation::Scenario(it)) if it.name == scenario.name));
        }
        for entry in catalogue() {
            let (family, _) = entry.id.rsplit_once('-').unwrap();
            for text in [family.to_owned(), format!("{family}-*"), format!("{family}…")] {
                let Ok(Explanation::Family(_, rules)) = explain(&text) else { panic!("{text}") };
                assert!(rules.iter().any(|rule| rule.id == entry.id), "{text}");
            }
        }
        for text in ["D-53", "d-1"] {
            assert!(matches!(explain(text), Ok(Explanation::Decision(_))), "{text}");
        }
        assert!(matches!(explain("F-028"), Ok(Explanation::Failure(_))));
        for text in ["43", "code 43", "Code 43"] {
            assert!(matches!(explain(text), Ok(Explanation::Code43)), "{text}");
        }
        assert!(code_43_rules().len() > 10);
        for bug_check in BUG_CHECKS {
            for text in [bug_check.name.to_owned(), format!("{:#x}", bug_check.code)] {
                let found = explain(&text);
                assert!(matches!(found, Ok(Explanation::BugCheck(it, None)) if it == bug_check));
            }
        }
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
