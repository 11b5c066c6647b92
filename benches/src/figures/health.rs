//! `health_*`.
use crate::figure::Figure;
use crate::measure::Plan;
pub(crate) fn figures(_plan: Plan) -> Vec<Figure> {
    vec![Figure::missing("health_admit", "", "the health machine is not there yet")]
}
