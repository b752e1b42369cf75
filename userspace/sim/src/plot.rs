// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Plots of scenarios.

use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

const SIZE: (u32, u32) = (860, 480);

/// Points of a curve: more would not be seen.
const POINTS: usize = 160;

const COLORS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(255, 127, 14),
    RGBColor(80, 80, 80),
];

/// A named curve.
pub type Curve = (String, Vec<(f64, f64)>);

/// The share of requests, in per cent, that took no longer than so many us.
pub fn distribution(name: &str, sorted_ns: &[u64]) -> Curve {
    let count = sorted_ns.len();
    let point = |index: usize| {
        let share = 100.0 * (index + 1) as f64 / count as f64;
        (sorted_ns[index] as f64 / 1e3, share)
    };
    let step = count.div_ceil(POINTS).max(1);
    let mut points: Vec<_> = (0..count).step_by(step).map(point).collect();
    points.extend(count.checked_sub(1).map(point));
    (name.to_owned(), points)
}

/// Gbit/s over the time in ms, of completions in order of time.
pub fn rate(name: &str, deliveries: &[(u64, u64)]) -> Curve {
    let end = deliveries.last().map_or(0, |delivery| delivery.0);
    let width = end / POINTS as u64 + 1;
    let mut bytes = vec![0u64; POINTS];
    for (at, count) in deliveries {
        bytes[(at / width) as usize] += count;
    }
    let points = bytes
        .into_iter()
        .zip(0..)
        .map(|(bytes, index): (u64, u64)| {
            let middle = (index * width + width / 2) as f64 / 1e6;
            (middle, (bytes * 8) as f64 / width as f64)
        });
    (name.to_owned(), points.collect())
}

/// Draws curves of `distribution`, on a logarithmic axis of time.
pub fn latency(file: &Path, title: &str, curves: &[Curve]) -> Result<(), Box<dyn Error>> {
    let times = || {
        curves
            .iter()
            .flat_map(|curve| &curve.1)
            .map(|point| point.0)
    };
    let low = times().fold(f64::MAX, f64::min).max(0.1);
    let high = times().fold(low * 2.0, f64::max);
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d((low..high * 1.2).log_scale(), 0.0..100.0)?;
    chart
        .configure_mesh()
        .x_desc("time from submission to completion, us")
        .y_desc("writes completed, %")
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (index, (name, points)) in curves.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        chart
            .draw_series(LineSeries::new(
                points.iter().copied(),
                color.stroke_width(2),
            ))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

/// Draws a curve of `rate`.
pub fn goodput(file: &Path, title: &str, curves: &[Curve]) -> Result<(), Box<dyn Error>> {
    let points = || curves.iter().flat_map(|curve| &curve.1);
    let end = points().map(|point| point.0).fold(0.001, f64::max);
    let top = points().map(|point| point.1).fold(1.0, f64::max);
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..end, 0.0..top * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("time, ms")
        .y_desc("bytes of completed writes, Gbit/s")
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (index, (name, points)) in curves.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        chart
            .draw_series(LineSeries::new(
                points.iter().copied(),
                color.stroke_width(2),
            ))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}
