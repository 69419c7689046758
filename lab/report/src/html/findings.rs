//! The findings of a study: the claim of the original, the result of this study, and its figures
//! with their spread.

use super::figure::{Table, folded};
use super::head::unbroken;
use super::markup::Markup;
use crate::finding::{Finding, Judgement};

const JUDGEMENTS: [Judgement; 4] =
    [Judgement::Confirmed, Judgement::NotConfirmed, Judgement::CannotBeTold, Judgement::NotAsked];

/// Writes all findings, closed, with the number of each judgement.
pub(super) fn write(page: &mut Markup, findings: &[Finding]) {
    folded(page, ("findings", "Findings"), &summary(findings), |page| {
        page.element("div", &[("class", "charts")], |page| {
            findings.iter().for_each(|finding| write_finding(page, finding));
        });
    });
}

/// The number of each judgement.
pub(super) fn summary(findings: &[Finding]) -> String {
    let counted = JUDGEMENTS.iter().filter_map(|judgement| {
        let number = findings.iter().filter(|finding| finding.judgement == *judgement).count();
        (number > 0).then(|| format!("{number} {}", judgement.name()))
    });
    let counted: Vec<String> = counted.collect();
    if counted.is_empty() { "nothing measured".to_owned() } else { counted.join(", ") }
}

fn write_finding(page: &mut Markup, finding: &Finding) {
    page.element("div", &[("class", "card finding")], |page| {
        page.element("p", &[], |page| {
            let class = match finding.judgement {
                Judgement::Confirmed => "verdict told",
                Judgement::NotConfirmed => "verdict denied",
                Judgement::CannotBeTold | Judgement::NotAsked => "verdict",
            };
            page.leaf("span", &[("class", class)], finding.judgement.name());
            page.text(&format!(" {}", unbroken(&finding.sentence)));
        });
        page.leaf("p", &[("class", "muted")], &format!("The original: {}", finding.original));
        let mut table = Table::with_header(["figure", "median", "spread"]);
        table.rows.extend(
            finding
                .figures
                .iter()
                .map(|figure| vec![figure.name.clone(), figure.to_string(), figure.spread()]),
        );
        if !table.rows.is_empty() {
            table.write(page, &format!("Figures of: {}", finding.sentence));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: without findings, the text was a sentence, and the page added another full stop.
    #[test]
    fn judgements_are_counted() {
        let finding = |holds| Finding::new("f", "", "", holds, []);
        let all =
            [finding(Some(true)), finding(None), finding(Some(true)), finding(None).not_asked()];
        assert_eq!(summary(&all), "2 confirmed, 1 cannot be told, 1 not asked there");
        assert_eq!(summary(&[]), "nothing measured");
    }
}
