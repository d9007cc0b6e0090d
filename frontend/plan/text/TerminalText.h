#ifndef MESHC_FRONTEND_PLAN_TEXT_TERMINALTEXT_H
#define MESHC_FRONTEND_PLAN_TEXT_TERMINALTEXT_H

#include "layout/Mesh.h"

#include <string>
#include <string_view>
#include <vector>

namespace meshc::plan {

/// Columns that a text takes: code points.
size_t countColumns(std::string_view text);

/// `pieces` in lines of at most `width` columns, the first behind `first`, the
/// others behind `indent` blanks. A piece that is longer stands alone.
std::string wrapPieces(std::string_view first, size_t indent,
                       const std::vector<std::string> &pieces, size_t width);
/// The words of `text`.
std::string wrapWords(std::string_view first, size_t indent,
                      std::string_view text, size_t width);

/// Wraps the lines of a rendered plan that are longer than `width` columns;
/// what goes on is indented by four more. Quoted lines of a source end
/// at the width, if what is marked below them begins before.
std::string wrapLines(std::string_view text, size_t width);

/// A rendered plan for a terminal with colours: headings bold, the axes of the
/// mesh behind "@" and "over" each in its colour, as on the page of the plan,
/// and what does not fit red.
std::string colourPlan(std::string_view text, const layout::Mesh &mesh);

} // namespace meshc::plan

#endif
