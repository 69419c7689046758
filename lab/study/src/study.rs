//! The framework of all studies: the trait of a study, and the code that runs it.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pellucid_clock::WallTime;
use pellucid_report::{
    ANSWER_LINES_MAX, CompletedStep, Finding, Judgement, Machine, STUDY_SCHEMA, StudyReport,
};

use crate::error::StudyError;

/// The size of a study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// A study that is done within a minute or two.
    Quick,
    /// A study of a few minutes.
    #[default]
    Default,
    /// A study of the size of the original.
    Full,
}

impl Scale {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scale::Quick => "quick",
            Scale::Default => "default",
            Scale::Full => "full",
        }
    }
}

/// The names, the question and the size of a study.
#[derive(Clone, Copy, Debug)]
pub struct StudyDescription {
    /// The name on the command line and of the files, such as `merge-tree`.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
    /// The question, in a sentence or two.
    pub question: &'static str,
    /// The size.
    pub scale: Scale,
}

/// A study; its options implement this trait.
pub trait Study {
    /// The names, the question and the size.
    fn about(&self) -> StudyDescription;
    /// Runs the steps ([`Context::step`]) and returns the findings and charts. [`conduct`] adds the
    /// names, the steps, and the machine to the report.
    ///
    /// # Errors
    /// If a step fails; the text tells what to do.
    fn run(&self, context: &mut Context<'_>) -> Result<StudyReport, StudyError>;
}

/// The answer to a study's question: the sentences of the findings with these names. A sentence is
/// marked if the runs do not decide the claim.
pub(crate) fn answer(findings: &[Finding], names: &[&str]) -> Vec<String> {
    let named = names.iter().filter_map(|name| findings.iter().find(|of| of.name == *name));
    let told = named.map(|finding| match finding.judgement {
        Judgement::CannotBeTold => {
            format!("{} ({})", finding.sentence, finding.judgement.name())
        }
        _ => finding.sentence.clone(),
    });
    told.collect()
}

/// Converts settings to the form of the report.
pub(crate) fn named<const N: usize>(settings: [(&str, String); N]) -> Vec<(String, String)> {
    settings.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The surroundings of a study while it runs.
pub struct Context<'a> {
    /// The command that starts a child process: the path of the program, then its arguments.
    pub child: Vec<OsString>,
    say: &'a mut dyn FnMut(&str),
    steps: Vec<CompletedStep>,
    /// True once the study is interrupted, and its child processes are killed.
    pub(crate) stop: Arc<AtomicBool>,
}

impl Context<'_> {
    /// The path of the program, which is also the load generator.
    pub(crate) fn binary(&self) -> Result<OsString, StudyError> {
        let binary = self.child.first().cloned();
        binary.ok_or_else(|| StudyError::step("it is not known how to start the load"))
    }

    /// Runs a step. Its name is printed, and its duration is added to the report.
    ///
    /// # Errors
    /// Those of the step, or if the study was interrupted meanwhile.
    pub fn step<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut dyn FnMut(&str)) -> Result<T, StudyError>,
    ) -> Result<T, StudyError> {
        (self.say)(&format!("{name} …"));
        let begun = Instant::now();
        let outcome = work(self.say);
        let seconds = begun.elapsed().as_secs_f64();
        self.steps.push(CompletedStep { name: name.to_owned(), seconds });
        if self.stop.load(Ordering::Relaxed) {
            return Err(StudyError::Step("the study was interrupted".to_owned()));
        }
        outcome
    }
}

/// The inputs of [`conduct`] beside the study.
pub struct StudyRun<'a> {
    /// The command line that repeats the study.
    pub command: String,
    /// The command that starts a child process ([`Context::child`]).
    pub child: Vec<OsString>,
    /// The version of the program.
    pub version: &'a str,
    /// The function that prints a line of progress.
    pub say: &'a mut dyn FnMut(&str),
    /// True once the study is interrupted: it ends with its current step.
    pub stop: Arc<AtomicBool>,
}

/// Runs a study and makes its report.
///
/// # Errors
/// If a step fails, or the study is interrupted.
pub fn conduct(study: &dyn Study, run: StudyRun<'_>) -> Result<StudyReport, StudyError> {
    let StudyRun { command, child, version, say, stop } = run;
    let StudyDescription { name, title, question, scale } = study.about();
    let mut context = Context { child, say, steps: Vec::new(), stop };
    let outcome = study.run(&mut context)?;
    Ok(StudyReport {
        schema: STUDY_SCHEMA.to_owned(),
        name: name.to_owned(),
        title: title.to_owned(),
        question: question.to_owned(),
        answer: outcome.answer.into_iter().take(ANSWER_LINES_MAX).collect(),
        scale: scale.name().to_owned(),
        command,
        generated_unix_ms: WallTime::now().unix_ms(),
        machine: Machine::of_this_machine(version),
        steps: context.steps,
        ..outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct CountingStudy;

    impl Study for CountingStudy {
        fn about(&self) -> StudyDescription {
            let scale = Scale::Quick;
            StudyDescription { name: "counting", title: "Counting", question: "How far?", scale }
        }
        fn run(&self, context: &mut Context<'_>) -> Result<StudyReport, StudyError> {
            let counted = context.step("Counting", |say| {
                say("one");
                Ok(1)
            })?;
            let refused = context.step("Refusing", |_| -> Result<(), StudyError> {
                Err(StudyError::Step("no".to_owned()))
            });
            let note = format!("{counted}, {}", refused.unwrap_err());
            Ok(StudyReport { notes: vec![note], ..StudyReport::default() })
        }
    }

    #[test]
    fn an_answer_marks_undecided_findings() {
        let finding = |name: &str, holds| Finding::new(name, "", format!("{name}."), holds, []);
        let all = [finding("a", None), finding("b", Some(false)), finding("c", None)];
        assert_eq!(answer(&all, &["b", "a", "x"]), ["b.", "a. (cannot be told)"]);
    }

    #[test]
    fn steps_are_printed_and_timed() {
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let run = StudyRun {
            command: "count".to_owned(),
            child: Vec::new(),
            version: "1",
            say: &mut say,
            stop: Arc::default(),
        };
        let report = conduct(&CountingStudy, run).unwrap();
        assert_eq!(said, ["Counting …", "one", "Refusing …"]);
        assert_eq!(report.steps.len(), 2);
        assert_eq!((report.notes[0].as_str(), report.scale.as_str()), ("1, no", "quick"));
        assert_eq!((report.name.as_str(), report.question.as_str()), ("counting", "How far?"));
    }
}
