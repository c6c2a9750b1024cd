//! The catalogue, parsed: what every rule demands, its source, and what Windows does when the
//! rule is broken.

use serde::Deserialize;
use std::sync::LazyLock;

/// One rule of the catalogue. A rule is here whether or not something judges it yet.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its id, `FAMILY-SUBJECT-001`.
    pub id: String,
    /// For a live rule: what judges it, `entry` or `history`.
    pub judge: Option<String>,
    /// The layer whose behaviour it constrains.
    pub layer: String,
    /// The component that has to comply: `client`, `driver` or `kernel`.
    pub obligation: String,
    /// The entry point it is about.
    pub function: String,
    /// The rule's text.
    pub rule: String,
    /// How it can be checked.
    pub check: String,
    /// What Windows does when it is broken, in the catalogue's abbreviations.
    pub on_breach: String,
    /// For a live rule: what to change when a finding names it.
    pub help: Option<String>,
    /// The first driver model it holds for.
    pub since: String,
    /// Its basis: `documented`, `inferred`, `observed` or `ours`.
    pub basis: String,
    /// The source.
    pub source: String,
    /// What observation adds to it.
    pub observed: Option<String>,
    /// The versions it was observed on.
    pub profile: Option<String>,
    /// For a rule that is not live: what is missing before it can be judged.
    pub needs: Option<String>,
    /// For an observed rule: how many observations agree, `two or more` or `one`.
    pub confidence: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Windows accepts it, although a page requires something else.
    Note,
    /// One source requires it, or it follows from one.
    Warning,
    /// It is documented, or observations agree.
    Error,
}

impl Severity {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// Rules whose page is contradicted by the observed behaviour of Windows.
///
/// WINDOWS: observed (D-53). The kernel returns the observed status; the page is a note.
///
/// WINDOWS: for UMD-DESTROY-008 the page of `pfnDeallocateCb` allows a list for members of a
/// resource, if a call with its hResource follows (documented): the other page is a note.
///
/// WINDOWS: the page of ALLOC-SHARE-007 speaks of allocations; the rule is worded as observed (a
/// resource is shared), so it is no note.
///
/// WINDOWS: for KS-MUTEX-006 the page promises a deadlock; a public sample acquires the device mutex
/// in its add routine and calls that safe (observed).
const OVERRIDDEN: [&str; 6] = [
    "KS-MUTEX-006",
    "ALLOC-CREATE-006",
    "ALLOC-CREATE-011",
    "ALLOC-DESTROY-003",
    "ALLOC-DESTROY-004",
    "UMD-DESTROY-008",
];

/// Rules whose page requires something only where possible.
///
/// WINDOWS: for UMD-SUBMIT-003 the page means "if possible" in other words (documented): a driver
/// that keeps an allocation locked is slow, and may have to.
///
/// WINDOWS: public samples start although they break the rules on segments (observed).
///
/// WINDOWS: the pages on stalls and DPCs say "should" (documented): nothing fails at once.
const WHERE_POSSIBLE: [&str; 6] =
    ["UMD-SUBMIT-003", "KMD-SEG-006", "KMD-SEG-009", "GATE-SEG-001", "WT-TIME-001", "WT-TIME-002"];

impl Entry {
    /// The severity of a breach.
    pub fn severity(&self) -> Severity {
        let success = self.on_breach.starts_with("success");
        if success || OVERRIDDEN.contains(&self.id.as_str()) {
            return Severity::Note;
        }
        if self.on_breach.starts_with("logged") || WHERE_POSSIBLE.contains(&self.id.as_str()) {
            return Severity::Warning;
        }
        if self.stops_windows() {
            return Severity::Error;
        }
        match (self.basis.as_str(), self.confidence.as_deref()) {
            ("documented" | "ours", _) | ("observed", Some("two or more")) => Severity::Error,
            _ => Severity::Warning,
        }
    }

    /// Whether a breach leads to a documented bug check, also without Driver Verifier and special
    /// pool. One project's observation is not enough.
    pub fn stops_windows(&self) -> bool {
        let certain = |part: &str| {
            part.contains("bugcheck 0x")
                && !part.contains("Driver Verifier")
                && !part.contains("special pool")
        };
        self.basis != "observed" && self.on_breach.split("; ").any(certain)
    }

    /// The statuses that Windows returns for a breach.
    pub fn statuses(&self) -> impl Iterator<Item = &str> {
        let words = self
            .on_breach
            .split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        words.filter(|text| text.starts_with("STATUS_"))
    }

    /// Whether Windows returns that status for a breach.
    pub fn mentions_status(&self, name: &str) -> bool {
        self.statuses().any(|text| text == name)
    }

    /// Whether a breach returns that user-mode result.
    pub fn mentions_result(&self, name: &str) -> bool {
        let words = self
            .on_breach
            .split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        words.into_iter().any(|text| text == name)
    }

    /// Whether it is about that function; a slot's `pfn` prefix is optional.
    pub fn is_about(&self, name: &str) -> bool {
        let bare = name.strip_prefix("pfn").unwrap_or(name);
        let words = self.function.split(|character: char| !character.is_ascii_alphanumeric());
        words.into_iter().any(|text| text == name || text == bare)
    }

    /// The address of the public page that states the rule, or on which it rests.
    pub fn link(&self) -> Option<String> {
        self.source.split("; ").find_map(page_address)
    }

    /// Where the rule comes from, if no public page is behind it.
    pub fn origin(&self) -> Option<String> {
        if self.link().is_some() {
            return None;
        }
        let facts = |name| Some(format!("{}; see docs/facts/{name}", self.source));
        match self.source.split([' ', ';']).next() {
            Some("ours") => Some("a rule of Windtunnel without a Microsoft page".to_owned()),
            Some("windows-behaviour") => facts("windows-behaviour.md"),
            Some("observed-gates") => facts("observed-gates.md"),
            Some("failures") => facts("failures.toml"),
            _ => None,
        }
    }

    /// What Windows would have done, as text.
    pub fn windows(&self) -> String {
        let known = self.on_breach.replace(" / verifier error", "");
        let parts: Vec<String> = known.split("; ").filter_map(expand_sentence).collect();
        match (parts.is_empty(), self.obligation.as_str()) {
            (false, _) => parts.join("; "),
            // The rule itself is what Windows does: no driver and no client can break it there.
            (true, "kernel") => "keeps this rule itself: it binds the kernel".into(),
            (true, _) => NOT_KNOWN.into(),
        }
    }

    /// Whether it is not known what Windows does when the rule is broken.
    pub fn windows_is_unknown(&self) -> bool {
        self.windows() == NOT_KNOWN
    }
}

/// The text for a rule for which no source says what Windows does.
pub(crate) const NOT_KNOWN: &str = "not known";

/// Microsoft's driver documentation.
const PAGES: &str = "https://learn.microsoft.com/windows-hardware/drivers";

/// The pages of the compiler, which say what a function keeps for its caller.
const COMPILER_PAGES: &str = "https://learn.microsoft.com/cpp";

/// The folders of the reference pages of headers, below `ddi`.
const HEADERS: [&str; 8] =
    ["d3d10umddi", "d3dkmddi", "d3dkmthk", "d3dukmdt", "d3dumddi", "dispmprt", "ks", "wdm"];

/// The folders of other pages.
const GUIDES: [&str; 5] = ["debugger", "devtest", "display", "kernel", "stream"];

/// The address of one page of a source; `None` if it is not a page.
fn page_address(page: &str) -> Option<String> {
    let (folder, file) = page.split_once('/')?;
    if HEADERS.contains(&folder) {
        return Some(format!("{PAGES}/ddi/{folder}/{file}"));
    }
    if folder == "cpp" {
        return Some(format!("{COMPILER_PAGES}/{file}"));
    }
    GUIDES.contains(&folder).then(|| format!("{PAGES}/{folder}/{file}"))
}

/// One part of `on_breach` as text; `None` where it is not about Windows.
fn expand_sentence(part: &str) -> Option<String> {
    const CODES: [&str; 5] = ["STATUS_", "E_", "D3DERR_", "D3DDDIERR_", "DXGI_DDI_ERR_"];
    if ["verifier error", "verifier note", "not known"].iter().any(|text| part.ends_with(text)) {
        return None;
    }
    if part.starts_with("undocumented error") {
        return Some("returns an error, which one is not known".into());
    }
    if part == "success" {
        return Some("succeeds".into());
    }
    if part == "NULL" || CODES.iter().any(|text| part.starts_with(text)) {
        return Some(format!("returns {part}"));
    }
    if let Some(code) = part.strip_prefix("bugcheck 0x") {
        return Some(format!("stops with bug check 0x{code}"));
    }
    if let Some(more) = part.strip_prefix("system bugcheck") {
        return Some(format!("stops with a bug check{more}"));
    }
    Some(part.replace("bugcheck", "bug check"))
}

/// The whole catalogue, in its own order.
pub fn catalogue() -> &'static [Entry] {
    &BY_ORDER
}

/// The rule of that id.
pub fn find(id: &str) -> Option<&'static Entry> {
    let at = BY_ID.binary_search_by(|entry| entry.id.as_str().cmp(id)).ok()?;
    Some(BY_ID[at])
}

#[derive(Deserialize)]
struct File {
    rule: Vec<Entry>,
}

static BY_ORDER: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    // The text is part of the program, and a test parses it.
    let file: File = toml::from_str(flight::CATALOGUE).expect("the catalogue is TOML");
    file.rule
});

static BY_ID: LazyLock<Vec<&'static Entry>> = LazyLock::new(|| {
    let mut sorted: Vec<_> = BY_ORDER.iter().collect();
    sorted.sort_by(|a, b| a.id.cmp(&b.id));
    sorted
});

#[cfg(test)]
mod tests {
    use super::*;
    use flight::RuleId;
    use std::collections::BTreeSet;

    #[test]
    fn every_id_is_there_once() {
        let ids: BTreeSet<_> = catalogue().iter().map(|entry| &entry.id).collect();
        assert_eq!(ids.len(), catalogue().len());
    }

    #[test]
    fn its_head_counts_right() {
        let table: toml::Table = flight::CATALOGUE.parse().unwrap();
        let message = |name| table["catalogue"][name].as_integer().unwrap();
        let count = |basis| catalogue().iter().filter(|entry| entry.basis == basis).count();
        assert_eq!(message("rules"), i64::try_from(catalogue().len()).unwrap());
        for basis in ["documented", "inferred", "observed", "ours"] {
            assert_eq!(message(basis), i64::try_from(count(basis)).unwrap(), "{basis}");
        }
    }

    #[test]
    fn the_generated_ids_are_the_rows_with_a_judge() {
        let judged: Vec<_> = catalogue().iter().filter(|row| row.judge.is_some()).collect();
        assert_eq!(judged.len(), RuleId::LIVE.len());
        for row in judged {
            let rule = RuleId::find(&row.id);
            let history = rule.is_some_and(|rule| RuleId::HISTORY.contains(&rule));
            assert_eq!(rule.map(RuleId::name), Some(row.id.as_str()));
            assert_eq!(history, row.judge.as_deref() == Some("history"), "{}", row.id);
        }
        assert!(find("NO-SUCH-001").is_none());
    }

    #[test]
    fn live_rules_are_sorted_by_id() {
        assert!(RuleId::LIVE.is_sorted_by_key(|rule| rule.name()), "their numbers follow the ids");
    }

    #[test]
    fn a_live_rule_needs_nothing() {
        for entry in catalogue().iter().filter(|entry| entry.needs.is_some()) {
            assert!(RuleId::find(&entry.id).is_none(), "{} is live", entry.id);
        }
    }

    #[test]
    fn what_windows_does_is_said_in_words() {
        let message = |id| find(id).unwrap().windows();
        assert_eq!(message("ALLOC-CREATE-001"), "returns STATUS_INVALID_PARAMETER");
        assert_eq!(message("KMD-ISR-008"), "stops with bug check 0x119 (0x1)");
        assert_eq!(message("WT-POOL-001"), "stops with bug check 0xC2");
        assert_eq!(message("KMD-DESTROY-009"), "not known");
        let leak = "no bug check: the pool stays allocated until the system restarts; pool left at \
                    unload, under Driver Verifier: bug check 0xC4 (0x62)";
        assert_eq!(message("KMD-DESTROY-002"), leak);
        assert_eq!(message("HANDLE-FORM-001"), "keeps this rule itself: it binds the kernel");
        assert_eq!(
            message("WT-STUCK-001"),
            "deadlock: the waiting threads hang, without a bug check"
        );
        assert_eq!(message("ALLOC-CREATE-011"), "succeeds");
        for entry in catalogue() {
            let message = entry.windows();
            assert!(!message.contains("verifier") && !message.contains("bugcheck"), "{message}");
        }
    }

    #[test]
    fn live_rules_without_an_answer_of_windows_do_not_grow_in_number() {
        let live = catalogue().iter().filter(|entry| entry.judge.is_some());
        let unknown: Vec<&str> =
            live.filter(|row| row.windows_is_unknown()).map(|row| row.id.as_str()).collect();
        assert!(unknown.len() <= 130, "{}: {unknown:?}", unknown.len());
    }

    #[test]
    fn a_source_leads_to_its_page() {
        let link = |id| find(id).unwrap().link();
        let drivers = "https://learn.microsoft.com/windows-hardware/drivers";
        let page = "ddi/d3dkmthk/ns-d3dkmthk-_d3dkmt_createallocationflags";
        assert_eq!(link("ALLOC-CREATE-001"), Some(format!("{drivers}/{page}")));
        let guide = page_address("display/tdr-changes-in-windows-8");
        assert_eq!(guide, Some(format!("{drivers}/display/tdr-changes-in-windows-8")));
        assert_eq!((link("WT-POOL-001"), link("GATE-SEG-001")), (None, None));
        let origin = find("GATE-SEG-001").unwrap().origin().unwrap();
        assert_eq!(origin, "observed-gates §3; failures F-036; see docs/facts/observed-gates.md");
    }

    #[test]
    fn a_live_rule_has_help_and_a_page_or_an_origin() {
        for entry in catalogue().iter().filter(|entry| entry.judge.is_some()) {
            assert!(entry.help.as_ref().is_some_and(|text| text.len() > 20), "{}", entry.id);
            assert!(entry.link().is_some() != entry.origin().is_some(), "{}", entry.id);
        }
        for part in catalogue().iter().flat_map(|entry| entry.source.split("; ")) {
            assert_eq!(part.contains('/'), page_address(part).is_some(), "{part}");
        }
    }

    #[test]
    fn what_stops_windows_is_an_error() {
        let stops = catalogue().iter().filter(|entry| entry.stops_windows());
        let others: Vec<&str> = stops
            .clone()
            .filter(|entry| entry.severity() != Severity::Error)
            .map(|entry| entry.id.as_str())
            .collect();
        assert_eq!(others, [""; 0]);
        assert!(stops.count() > 20);
    }

    /// A bug check that is documented for the act makes an error of the rule.
    #[test]
    fn a_warning_says_why_its_bug_check_is_not_certain() {
        let conditions =
            ["under Driver Verifier: ", "with special pool: ", "as one project observed"];
        let warnings = catalogue().iter().filter(|entry| entry.severity() < Severity::Error);
        let parts =
            warnings.flat_map(|entry| entry.on_breach.split("; ").map(move |part| (entry, part)));
        let named = parts.filter(|(_, part)| part.contains("bugcheck"));
        let mut count = 0;
        for (entry, part) in named {
            count += 1;
            assert!(conditions.iter().any(|text| part.contains(text)), "{}: {part}", entry.id);
            if part.ends_with("as one project observed") {
                assert_eq!(entry.confidence.as_deref(), Some("one"), "{}", entry.id);
            }
        }
        assert!(count > 10);
    }

    #[test]
    fn severity_is_how_well_a_rule_is_known() {
        let severity = |id| find(id).unwrap().severity();
        assert_eq!(severity("KMD-DESTROY-002"), Severity::Error, "documented");
        assert_eq!(severity("KMD-ISR-008"), Severity::Error, "seen by two or more");
        assert_eq!(severity("WT-POOL-001"), Severity::Error, "ours");
        assert_eq!(severity("KMD-DESTROY-001"), Severity::Warning, "inferred");
        assert_eq!(severity("GATE-STATUS-001"), Severity::Warning, "Windows only logs");
        assert_eq!(severity("UMD-SUBMIT-003"), Severity::Warning, "where possible");
        assert_eq!(severity("KMD-LEVEL-008"), Severity::Error, "inferred, with a bug check");
        assert_eq!(severity("KS-MUTEX-005"), Severity::Warning, "only under Driver Verifier");
        assert_eq!(severity("KS-PTR-004"), Severity::Warning, "only with special pool");
        assert_eq!(severity("GATE-QAI-006"), Severity::Warning, "a bug check that one has seen");
        assert_eq!(severity("ALLOC-DESTROY-003"), Severity::Note, "Windows accepts it");
        assert_eq!(severity("ALLOC-CREATE-006"), Severity::Note, "overruled");
        assert_eq!(severity("ALLOC-SHARE-007"), Severity::Error, "worded as observed");
        assert!(Severity::Note < Severity::Warning && Severity::Warning < Severity::Error);
    }
}
