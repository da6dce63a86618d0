//! Mean and spread over runs.

/// The mean of some values and how far they lie apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation of the sample; 0 for a single value.
    pub deviation: f64,
    /// How many values.
    pub count: usize,
}

impl Spread {
    /// That of `values`; none for no values.
    pub fn of(values: &[f64]) -> Option<Spread> {
        if values.is_empty() {
            return None;
        }
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        Some(Spread { mean, deviation, count })
    }

    /// How far the mean is from `published`, as a share of that: 0.15 for 15% more.
    pub fn off(&self, published: f64) -> f64 {
        self.mean / published - 1.0
    }
}

/// A number for people: so many decimals, thousands set apart.
pub(crate) fn shown(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = plain.split_once('.').map_or((&plain[..], String::new()), |(w, r)| (w, format!(".{r}")));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    format!("{sign}{out}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_those_of_a_sample() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[7.0]), Some(Spread { mean: 7.0, deviation: 0.0, count: 1 }));
        let three = Spread::of(&[2.0, 4.0, 9.0]).expect("values");
        assert_eq!((three.mean, three.count), (5.0, 3));
        assert!((three.deviation - 13f64.sqrt()).abs() < 1e-12, "{three:?}");
        assert!((three.off(4.0) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn numbers_are_set_for_people() {
        let all = [(0.0, 0, "0"), (999.4, 0, "999"), (1234567.891, 2, "1,234,567.89"), (-1000.0, 0, "-1,000")];
        for (value, decimals, expected) in all {
            assert_eq!(shown(value, decimals), expected);
        }
    }
}
