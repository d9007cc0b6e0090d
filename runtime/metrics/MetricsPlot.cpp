#include "runtime/metrics/MetricsPlot.h"

#include "runtime/io/File.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace meshc;
using namespace meshc::runtime;

static constexpr std::chrono::minutes writeInterval{1};

// In pixels.
static constexpr double width = 860, left = 76, right = 24, panelHeight = 200,
                        top = 44, gap = 48, bottom = 40;

/// Okabe and Ito's blue on white and their sky blue on black, which people who
/// see fewer colours can tell from the warning's vermilion, too.
/// Source: Color Universal Design, jfly.uni-koeln.de/color.
static constexpr const char *style = R"(
  svg { background: #fff; font: 13px system-ui, sans-serif; }
  text { fill: #333; } .name { font-weight: 600; } .quiet { fill: #767676; }
  .grid { stroke: #e4e4e4; } .axis { stroke: #999; }
  .mean { fill: none; stroke: #0072b2; stroke-width: 1.5; }
  .range { fill: #0072b2; fill-opacity: 0.18; }
  .broken { stroke: #d55e00; stroke-dasharray: 4 3; } .warning { fill: #b94a00; }
  @media (prefers-color-scheme: dark) {
    svg { background: #111; } text { fill: #ddd; } .quiet { fill: #999; }
    .grid { stroke: #2c2c2c; } .axis { stroke: #777; }
    .mean { stroke: #56b4e9; } .range { fill: #56b4e9; }
    .warning { fill: #ff8c42; }
  }
)";

static std::string escape(std::string_view text) {
  std::string escaped;
  for (char c : text)
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    default:
      // Other control characters are none of XML's.
      escaped += uint8_t(c) < 0x20 ? ' ' : c;
    }
  return escaped;
}

std::vector<double> runtime::getTicks(double least, double most, int count) {
  const double rough = (most - least) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= rough)
      break;
  }
  std::vector<double> ticks;
  const double first = std::ceil(least / step) + 0.0; // -0 is shown as 0
  for (double i = first; i * step <= most; ++i) {
    if (i * step >= least) // not so by rounding alone
      ticks.push_back(i * step);
    // Where numbers are so large that a step is lost in them.
    if (i + 1 == i)
      break;
  }
  return ticks;
}

namespace {
/// From a range of numbers to one of pixels.
struct Scale {
  double least, most, from, to;

  double operator()(double value) const {
    return from + (value - least) / (most - least) * (to - from);
  }
};

/// One curve with its axes.
class Panel {
public:
  Panel(std::string_view name, const Series &series, double y)
      : name(name), series(series), y(y) {}

  std::string render() const;

private:
  static std::string line(double x1, double y1, double x2, double y2,
                          std::string_view of) {
    return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" "
                       "x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                       of, x1, y1, x2, y2);
  }
  static std::string label(double x, double y, std::string_view anchor,
                           std::string_view of, std::string_view text) {
    return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" "
                       "text-anchor=\"{}\">{}</text>\n",
                       of, x, y, anchor, escape(text));
  }
  Scale getSteps() const;
  Scale getValues() const;
  std::string renderAxes(const Scale &steps, const Scale &values) const;
  std::string renderCurve(const Scale &steps, const Scale &values) const;

  std::string_view name;
  const Series &series;
  double y; ///< of its upper edge
};
} // namespace

Scale Panel::getSteps() const {
  const auto first = double(series.getBins().front().firstStep);
  const auto last = double(series.getBins().back().lastStep);
  return {first, std::max(last, first + 1), left, width - right};
}

/// A tenth of the range stays free above and below.
Scale Panel::getValues() const {
  double least = INFINITY, most = -INFINITY;
  for (const Series::Bin &bin : series.getBins())
    if (bin.count > 0) {
      least = std::min(least, bin.least);
      most = std::max(most, bin.most);
    }
  if (!(least <= most))
    least = most = 0; // none is finite
  double spare = (most - least) / 10;
  if (spare == 0)
    spare = most == 0 ? 1 : std::abs(most) / 10;
  return {least - spare, most + spare, y + panelHeight, y};
}

std::string Panel::renderAxes(const Scale &steps, const Scale &values) const {
  std::string text;
  for (double tick : getTicks(values.least, values.most, 4)) {
    text += line(left, values(tick), width - right, values(tick), "grid");
    text += label(left - 8, values(tick) + 4, "end", "quiet",
                  fmt::format("{:.4g}", tick));
  }
  for (double tick : getTicks(steps.least, steps.most, 8))
    if (tick == std::floor(tick))
      text += label(steps(tick), y + panelHeight + 18, "middle", "quiet",
                    fmt::format("{:.0f}", tick));
  text += line(left, y + panelHeight, width - right, y + panelHeight, "axis");
  return text;
}

std::string Panel::renderCurve(const Scale &steps, const Scale &values) const {
  // Up along what was most, back along what was least.
  std::string up, down, mean;
  bool isFirst = true;
  for (const Series::Bin &bin : series.getBins()) {
    if (bin.count == 0)
      continue;
    const double x = steps(double(bin.firstStep + bin.lastStep) / 2);
    up += fmt::format("{}{:.1f} {:.1f}", isFirst ? "M" : "L", x,
                      values(bin.most));
    down = fmt::format("L{:.1f} {:.1f}", x, values(bin.least)) + down;
    mean += fmt::format("{}{:.1f} {:.1f}", isFirst ? "M" : "L", x,
                        values(bin.getMean()));
    isFirst = false;
  }
  std::string text;
  if (!isFirst)
    text = fmt::format("<path class=\"range\" d=\"{}{}Z\"/>\n"
                       "<path class=\"mean\" d=\"{}\"/>\n",
                       up, down, mean);
  if (const std::optional<int64_t> step = series.getFirstNotFinite()) {
    const double x = steps(double(*step));
    text += line(x, y, x, y + panelHeight, "broken");
    const bool isLeft = x < width / 2;
    text += label(isLeft ? x + 6 : x - 6, y + 14, isLeft ? "start" : "end",
                  "warning", fmt::format("not finite in step {}", *step));
  }
  return text;
}

std::string Panel::render() const {
  const Scale steps = getSteps(), values = getValues();
  const Series::Bin &last = series.getBins().back();
  std::string text = label(left, y - 10, "start", "name", name);
  if (last.count > 0) {
    const std::string range =
        last.firstStep == last.lastStep
            ? fmt::format("{:.4g} in step {}", last.getMean(), last.lastStep)
            : fmt::format("{:.4g} in steps {} to {}", last.getMean(),
                          last.firstStep, last.lastStep);
    text += label(width - right, y - 10, "end", "quiet", range);
  }
  return text + renderAxes(steps, values) + renderCurve(steps, values);
}

Result<std::unique_ptr<MetricsPlot>>
MetricsPlot::create(const std::string &path, std::string_view title,
                    std::string_view first) {
  if (Status writable = checkWritable(path); !writable)
    return writable.getError();
  std::unique_ptr<MetricsPlot> plot(new MetricsPlot);
  plot->path = path;
  plot->title = title;
  plot->first = first;
  plot->nextWrite = std::chrono::steady_clock::now() + writeInterval;
  return plot;
}

Status MetricsPlot::add(const StepMetrics &metrics) {
  for (const NamedValue &value : metrics.values) {
    auto curve = std::ranges::find(curves, value.name, &Curve::name);
    if (curve == curves.end()) {
      // The others stay in their order.
      curve = value.name == first ? curves.begin() : curves.end();
      curve = curves.insert(curve, {value.name, {}});
    }
    curve->series.add(metrics.step, value.value);
  }
  const auto now = std::chrono::steady_clock::now();
  if (now < nextWrite)
    return Status::success();
  nextWrite = now + writeInterval;
  return finish();
}

Status MetricsPlot::finish() {
  const size_t panels = std::max<size_t>(curves.size(), 1);
  const double height =
      top + double(panels) * (panelHeight + gap) - gap + bottom + 28;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
      "width=\"{}\" height=\"{}\" role=\"img\">\n<title>{}</title>\n"
      "<style>{}</style>\n",
      width, height, width, height, escape(title), style);
  text += fmt::format("<text class=\"name\" x=\"{}\" y=\"20\">{}</text>\n",
                      left, escape(title));
  for (size_t i = 0; i < curves.size(); ++i)
    text += Panel(curves[i].name, curves[i].series,
                  top + 28 + double(i) * (panelHeight + gap))
                .render();
  text += fmt::format("<text class=\"quiet\" x=\"{}\" y=\"{}\" "
                      "text-anchor=\"middle\">{}</text>\n</svg>\n",
                      (left + width - right) / 2, height - 6,
                      curves.empty() ? "no step yet"
                                     : "step; the mean, and the range of "
                                       "steps that share a point");
  return writeFile(path, text);
}
