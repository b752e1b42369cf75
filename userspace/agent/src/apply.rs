// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Carries a plan out, or back.

use crate::kernel::Kernel;
use crate::plan::{Plan, Step};
use std::collections::BTreeSet;
use superp_control::{Action, Object, Outcome};
use superp_netlink::Error;

/// Why a plan was not carried out.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The object that the kernel refused, and why.
    pub(crate) object: Object,
    pub(crate) error: Error,
    /// Whether something remains changed.
    pub(crate) partial: bool,
    /// What became of each object.
    pub(crate) outcomes: Vec<Outcome>,
}

/// Carries out the steps. When one fails before anything was removed, what was done is undone.
pub(crate) fn apply(kernel: &mut dyn Kernel, plan: Plan) -> Result<Vec<Outcome>, Box<Failure>> {
    for (i, step) in plan.steps.iter().enumerate() {
        let Err(error) = carry_out(kernel, step) else {
            continue;
        };
        let done = &plan.steps[..i];
        let undone = done.iter().all(|step| !removes(step)) && undo(kernel, done);
        let outcomes = outcomes(&plan, i, &error, undone);
        return Err(Box::new(Failure {
            object: step.object(),
            error,
            partial: !undone,
            outcomes,
        }));
    }
    Ok(plan.outcomes)
}

fn removes(step: &Step) -> bool {
    matches!(step, Step::DelConn(_) | Step::DelPort { .. })
}

fn carry_out(kernel: &mut dyn Kernel, step: &Step) -> Result<(), Error> {
    match step {
        Step::SetParam { name, new, .. } => kernel.set_param(name, *new),
        Step::SetManager { new, .. } => kernel.set_manager(*new),
        Step::SetRmaSpace { new, .. } => kernel.set_rma_space(*new),
        Step::AddPort { ifindex, encap, .. } => kernel.add_port(*ifindex, *encap),
        Step::DelPort { ifindex, .. } => kernel.del_port(*ifindex),
        Step::AddConn(_, spec) => kernel.add_conn(spec),
        Step::DelConn(cid) => kernel.del_conn(*cid),
    }
}

/// Undoes steps, the last one first. Whether all were undone.
fn undo(kernel: &mut dyn Kernel, done: &[Step]) -> bool {
    let mut undone = true;
    for step in done.iter().rev() {
        let result = match step {
            Step::SetParam { name, old, .. } => kernel.set_param(name, *old),
            Step::SetManager { old, .. } => kernel.set_manager(*old),
            Step::SetRmaSpace { old, .. } => kernel.set_rma_space(*old),
            Step::AddPort { ifindex, .. } => kernel.del_port(*ifindex),
            Step::AddConn(cid, _) => kernel.del_conn(*cid),
            Step::DelPort { .. } | Step::DelConn(_) => Ok(()),
        };
        if let Err(error) = result {
            tracing::error!(object = %step.object(), %error, "cannot be undone");
            undone = false;
        }
    }
    undone
}

/// What became of each object when step `failed` failed.
fn outcomes(plan: &Plan, failed: usize, error: &Error, undone: bool) -> Vec<Outcome> {
    let objects = |steps: &[Step]| -> BTreeSet<Object> { steps.iter().map(Step::object).collect() };
    let (done, rest) = plan.steps.split_at(failed);
    let refused = rest.first().map(Step::object);
    let later = objects(rest.get(1..).unwrap_or_default());
    let done = objects(done);
    let became = |outcome: &Outcome| {
        let object = outcome.object.clone();
        let (action, detail) = if Some(&object) == refused.as_ref() {
            (Action::Failed, Some(error.to_string()))
        } else if done.contains(&object) && later.contains(&object) {
            // Removed, and not created again.
            (Action::Removed, outcome.detail.clone())
        } else if later.contains(&object) {
            (Action::NotTried, outcome.detail.clone())
        } else if done.contains(&object) && undone {
            (Action::Undone, outcome.detail.clone())
        } else {
            (outcome.action, outcome.detail.clone())
        };
        Outcome {
            object,
            action,
            detail,
        }
    };
    plan.outcomes.iter().map(became).collect()
}

#[cfg(test)]
mod tests;
