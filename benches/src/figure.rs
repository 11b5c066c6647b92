//! A figure: the measured value, the peer, and the goal.

use serde::Serialize;

use crate::measure::{MAX_STRAYS, Series, median, quantile};

/// Direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// Goal of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// Ours divided by the peer's, at most this.
    Ratio(f64),
    /// Ours divided by the peer's, at least this.
    RatioAtLeast(f64),
    /// Ours itself, at most this.
    Own(f64),
    /// Ours itself, at least this.
    AtLeast(f64),
    /// No goal; more is better.
    ShownHigher,
    /// No goal; less is better.
    Shown,
}

impl Goal {
    fn better(self) -> Better {
        match self {
            Self::Ratio(_) | Self::Own(_) | Self::Shown => Better::Lower,
            Self::RatioAtLeast(_) | Self::AtLeast(_) | Self::ShownHigher => Better::Higher,
        }
    }

    /// Returns this direction without a goal.
    fn only_shown(self) -> Self {
        match self.better() {
            Better::Lower => Self::Shown,
            Better::Higher => Self::ShownHigher,
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) ours: Option<f64>,
    pub(crate) peer_name: Option<String>,
    pub(crate) peer: Option<f64>,
    pub(crate) ratio: Option<f64>,
    /// Distance between the quartiles of the ratio (of ours without a peer).
    pub(crate) spread: Option<f64>,
    pub(crate) goal: Option<f64>,
    pub(crate) better: Better,
    pub(crate) ok: bool,
    /// Text for people: the reason for a void or missing figure.
    #[serde(skip)]
    pub(crate) note: String,
}

impl Figure {
    /// Returns ours and one peer, both measured in the same rounds.
    pub(crate) fn against(name: &str, goal: Goal, ours: &Series, peer: &Series) -> Self {
        let ratios: Vec<f64> = ours.nanos.iter().zip(&peer.nanos).map(|(a, b)| a / b).collect();
        let ratio = median(&ratios);
        let mut figure = Self {
            peer_name: Some(peer.name.to_owned()),
            peer: finite(median(&peer.nanos)),
            ratio: finite(ratio),
            spread: finite(quartiles_apart(&ratios)),
            ..Self::alone(name, goal, &ours.nanos)
        };
        figure.ok = figure.reaches(goal);
        for series in [ours, peer] {
            figure.void_if_astray(series);
        }
        figure
    }

    /// Returns ours alone, compared with a number; without a measurement, a row that reports it.
    pub(crate) fn alone(name: &str, goal: Goal, ours: &[f64]) -> Self {
        let mut figure = Self {
            name: name.to_owned(),
            ours: finite(median(ours)),
            peer_name: None,
            peer: None,
            ratio: None,
            spread: finite(quartiles_apart(ours)),
            goal: match goal {
                Goal::Ratio(bound) | Goal::RatioAtLeast(bound) | Goal::Own(bound) | Goal::AtLeast(bound) => Some(bound),
                Goal::Shown | Goal::ShownHigher => None,
            },
            better: goal.better(),
            ok: false,
            note: if ours.is_empty() {
                "missing: ours did not run".to_owned()
            } else {
                String::new()
            },
        };
        figure.ok = figure.reaches(goal);
        figure
    }

    /// Returns ours compared with a number, and the peers of the same measurement without a goal.
    pub(crate) fn with_peers(name: &str, goal: Goal, ours: &[f64], peers: &[(&str, &[f64])]) -> Vec<Self> {
        let shown = peers.iter().map(|(peer_name, theirs)| {
            let ratios: Vec<f64> = ours.iter().zip(*theirs).map(|(a, b)| a / b).collect();
            Self {
                peer_name: Some((*peer_name).to_owned()),
                peer: finite(median(theirs)),
                ratio: finite(median(&ratios)),
                spread: finite(quartiles_apart(&ratios)),
                note: String::new(),
                ..Self::alone(name, goal.only_shown(), ours)
            }
        });
        std::iter::once(Self::alone(name, goal, ours)).chain(shown).collect()
    }

    /// Reports that something could not be measured.
    pub(crate) fn missing(name: &str, peer: &str, why: &str) -> Self {
        Self {
            peer_name: (!peer.is_empty()).then(|| peer.to_owned()),
            ours: None,
            spread: None,
            ok: false,
            note: why.to_owned(),
            ..Self::alone(name, Goal::Shown, &[])
        }
    }

    fn reaches(&self, goal: Goal) -> bool {
        match goal {
            Goal::Ratio(most) => self.ratio.is_some_and(|ratio| ratio <= most),
            Goal::RatioAtLeast(least) => self.ratio.is_some_and(|ratio| ratio >= least),
            Goal::Own(most) => self.ours.is_some_and(|ours| ours <= most),
            Goal::AtLeast(least) => self.ours.is_some_and(|ours| ours >= least),
            Goal::Shown | Goal::ShownHigher => true,
        }
    }

    /// Makes a figure void, with the reason.
    pub(crate) fn void(&mut self, why: &str) {
        self.ok = false;
        self.note = format!("void: {why}");
    }

    fn void_if_astray(&mut self, series: &Series) {
        if series.strays > MAX_STRAYS {
            self.void(&format!(
                "{:.1} % of the answers of {} are not the measured ones",
                series.strays * 100.0,
                series.name
            ));
        }
    }
}

/// Returns the table for people.
pub(crate) fn table(figures: &[Figure]) -> String {
    let longest = figures.iter().map(|figure| figure.name.len()).max();
    let width = longest.unwrap_or(0);
    let mut lines = vec![format!(
        "{:<width$} {:>9}  {:<34} {:>9} {:>6} {:>6} {:>5}  reached",
        "figure", "ours", "peer", "peer's", "ratio", "spread", "goal"
    )];
    lines.extend(figures.iter().map(|figure| line(figure, width)));
    lines.join("\n")
}

fn line(figure: &Figure, width: usize) -> String {
    let reached = match (figure.goal, figure.ok) {
        (None, true) => "-",
        (_, true) => "yes",
        (_, false) => "NO",
    };
    let line = format!(
        "{:<width$} {:>9}  {:<34} {:>9} {:>6} {:>6} {:>5}  {:<3}  {}",
        figure.name,
        number(figure.ours),
        figure.peer_name.as_deref().unwrap_or("-"),
        number(figure.peer),
        number(figure.ratio),
        number(figure.spread),
        number(figure.goal),
        reached,
        figure.note
    );
    line.trim_end().to_owned()
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// Returns the ratio; NaN if the divisor is zero.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn quartiles_apart(values: &[f64]) -> f64 {
    quantile(values, 0.75) - quantile(values, 0.25)
}
