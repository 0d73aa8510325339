#include "runtime/plot_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/plot.h"

namespace sardonyx::runtime {

namespace {

// Pixels.
constexpr double kWidth = 760, kLeft = 68, kRight = 24, kHead = 74, kFoot = 48;
constexpr double kPanelHeight = 230, kPanelGap = 46;
constexpr const char* kInk = "#222222";
constexpr const char* kQuiet = "#6b6b6b";
constexpr const char* kGrid = "#e4e4e4";

struct Range {
  double low = 0, high = 1;
};

// One panel's frame and its scales.
struct Frame {
  double top = 0;
  Range x, y;
  double px(double value) const {
    return kLeft + (value - x.low) / (x.high - x.low) * (kWidth - kLeft - kRight);
  }
  double py(double value) const {
    return top + kPanelHeight - (value - y.low) / (y.high - y.low) * kPanelHeight;
  }
};

bool has_points(const Curve& curve) {
  return std::any_of(curve.points.begin(), curve.points.end(),
                     [](const auto& point) { return std::isfinite(point.second); });
}

// Around all points with a little air; the faint step line may be cut off above by its outliers.
Range y_range(const Panel& panel) {
  std::vector<double> values;
  for (const Curve& curve : panel.curves) {
    std::vector<double> own;
    for (const auto& [x, y] : curve.points) {
      if (std::isfinite(y)) own.push_back(y);
    }
    std::sort(own.begin(), own.end());
    if (curve.look == Curve::Look::kFaint && own.size() > 20) own.resize(own.size() * 98 / 100);
    values.insert(values.end(), own.begin(), own.end());
  }
  if (values.empty()) return {0, 1};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double air = std::max((*most - *least) * 0.06, 1e-9 + std::abs(*most) * 0.01);
  Range range{*least - air, *most + air};
  if (*least >= 0) range.low = std::max(range.low, 0.0);
  if (panel.unit == Panel::Unit::kPercent) range.high = std::min(range.high, 1.0 + 1e-9);
  return range;
}

std::string text(double x, double y, const char* anchor, double size, const char* colour,
                 const std::string& content, const char* more = "") {
  return fmt::format(
      "  <text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\" "
      "fill=\"{}\"{}>{}</text>\n",
      x, y, anchor, size, colour, more, xml_escaped(content));
}

std::string label(double value, Panel::Unit unit) {
  return unit == Panel::Unit::kPercent ? fmt::format("{:.4g} %", 100.0 * value)
                                       : fmt::format("{:.4g}", value);
}

std::string grid(const Frame& frame, Panel::Unit unit, bool labels_x) {
  std::string out;
  for (const double tick : ticks(frame.y.low, frame.y.high, 5)) {
    out += fmt::format(
        "  <line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", kLeft,
        frame.py(tick), kWidth - kRight, frame.py(tick), kGrid);
    out += text(kLeft - 8, frame.py(tick) + 4, "end", 12, kQuiet, label(tick, unit));
  }
  for (const double tick : ticks(frame.x.low, frame.x.high, 8)) {
    const double x = frame.px(tick), bottom = frame.top + kPanelHeight;
    out += fmt::format(
        "  <line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x,
        bottom, x, bottom + 5, kQuiet);
    if (labels_x) out += text(x, bottom + 20, "middle", 12, kQuiet, fmt::format("{:.4g}", tick));
  }
  return out +
         fmt::format(
             "  <path d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\" fill=\"none\" stroke=\"{4}\"/>\n",
             kLeft, frame.top, frame.top + kPanelHeight, kWidth - kRight, kQuiet);
}

std::string line(const Frame& frame, const Curve& curve) {
  const bool faint = curve.look == Curve::Look::kFaint;
  std::string points, marks;
  for (const auto& [x, y] : curve.points) {
    if (!std::isfinite(y)) continue;
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", frame.px(x), frame.py(y));
    if (faint) continue;
    marks += fmt::format(
        "  <circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: "
        "{:.6g}</title></circle>\n",
        frame.px(x), frame.py(y), curve.colour, xml_escaped(curve.name), y);
  }
  return fmt::format(
             "  <polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
             "stroke-opacity=\"{}\" stroke-linejoin=\"round\" clip-path=\"url(#clip{:.0f})\"/>\n",
             points, curve.colour, faint ? 1 : 2, faint ? 0.35 : 1.0, frame.top) +
         marks;
}

// To the right of the panel's title, last entry outermost.
std::string legend(const Frame& frame, const Panel& panel) {
  std::string out;
  double right = kWidth - kRight;
  for (auto curve = panel.curves.rbegin(); curve != panel.curves.rend(); ++curve) {
    if (!has_points(*curve)) continue;
    const bool faint = curve->look == Curve::Look::kFaint;
    out += text(right, frame.top - 10, "end", 12, kInk, curve->name);
    // An average letter of this font is about 0.53 of its size wide.
    right -= 12 * 0.53 * static_cast<double>(curve->name.size()) + 10;
    out += fmt::format(
        "  <line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"{}\" stroke-opacity=\"{}\"/>\n",
        right - 22, frame.top - 14, right, frame.top - 14, curve->colour, faint ? 1.5 : 2.5,
        faint ? 0.5 : 1.0);
    right -= 40;
  }
  return out;
}

// Says what the scale leaves out, where it leaves out anything.
std::string cut_mark(const Frame& frame, const Panel& panel) {
  double most = frame.y.high;
  for (const Curve& curve : panel.curves) {
    for (const auto& [x, y] : curve.points) {
      if (std::isfinite(y)) most = std::max(most, y);
    }
  }
  if (most <= frame.y.high) return "";
  return text(kWidth - kRight - 6, frame.top + 16, "end", 11, kQuiet,
              fmt::format("cut off above {:.3g}: steps reach {:.3g}", frame.y.high, most));
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  std::vector<double> result;
  if (!(high > low) || !std::isfinite(high - low)) return result;
  const double rough = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) {
    result.push_back(i == 0 ? 0.0 : i * step);
  }
  return result;
}

std::string xml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Control characters are no XML.
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string to_svg(const Picture& picture) {
  const auto panels = static_cast<double>(picture.panels.size());
  const double height = kHead + panels * (kPanelHeight + kPanelGap) - kPanelGap + kFoot + 20;
  std::string body, clips;
  for (size_t i = 0; i < picture.panels.size(); ++i) {
    const Panel& panel = picture.panels[i];
    Frame frame;
    frame.top = kHead + 20 + static_cast<double>(i) * (kPanelHeight + kPanelGap);
    frame.x = {picture.x_begin, picture.x_end};
    frame.y = y_range(panel);
    clips += fmt::format(
        "<clipPath id=\"clip{0:.0f}\"><rect x=\"{1}\" y=\"{0}\" width=\"{2}\" "
        "height=\"{3}\"/></clipPath>",
        frame.top, kLeft, kWidth - kLeft - kRight, kPanelHeight);
    const bool last = i + 1 == picture.panels.size();
    body += text(kLeft, frame.top - 10, "start", 14, kInk, panel.title, " font-weight=\"600\"");
    body += grid(frame, panel.unit, last) + legend(frame, panel) + cut_mark(frame, panel);
    for (const Curve& curve : panel.curves) {
      if (has_points(curve)) body += line(frame, curve);
    }
  }
  body += text((kLeft + kWidth - kRight) / 2, height - 8, "middle", 12, kQuiet, picture.x_title);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
             "  <defs>{2}</defs>\n  <rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
             kWidth, height, clips) +
         text(kLeft, 30, "start", 18, kInk, picture.title, " font-weight=\"600\"") +
         text(kLeft, 50, "start", 12.5, kQuiet, picture.subtitle) + body + "</svg>\n";
}

std::string svg_page(const std::string& title, const std::string& svg) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n"
      "<style>body{{margin:2rem;display:flex;justify-content:center}}svg{{max-width:100%;"
      "height:auto}}</style></head>\n<body>\n{}</body></html>\n",
      xml_escaped(title), svg);
}

}  // namespace sardonyx::runtime
