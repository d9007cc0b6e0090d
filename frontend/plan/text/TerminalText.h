#ifndef MESHC_FRONTEND_PLAN_TEXT_TERMINALTEXT_H
#define MESHC_FRONTEND_PLAN_TEXT_TERMINALTEXT_H

#include "layout/Mesh.h"

#include <string>
#include <string_view>

namespace meshc::plan {

/// The words of `text` in lines of at most `width` columns; the first begins
/// with `first`, the others with `indent`. A word that is longer stands alone.
std::string wrapWords(std::string_view first, std::string_view indent,
                      std::string_view text, size_t width);

/// Wraps the lines of a rendered plan that are longer than `width` columns;
/// what goes on is indented by four more.
std::string wrapLines(std::string_view text, size_t width);

/// A rendered plan for a terminal with colours: headings bold, the axes of the
/// mesh behind "@" and "over" each in its colour, as on the page of the plan,
/// and what does not fit red.
std::string colourPlan(std::string_view text, const layout::Mesh &mesh);

} // namespace meshc::plan

#endif
