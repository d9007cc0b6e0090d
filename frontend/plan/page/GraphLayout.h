#ifndef MESHC_FRONTEND_PLAN_PAGE_GRAPHLAYOUT_H
#define MESHC_FRONTEND_PLAN_PAGE_GRAPHLAYOUT_H

#include <nlohmann/json.hpp>

namespace meshc::plan {

/// No phase of more rows is laid out: Graphviz takes some 2 s for so many, and
/// nobody reads them.
inline constexpr size_t maxGraphNodes = 400;

/// Where the page draws what a plan computes and sends, laid out by Graphviz's
/// dot, each phase by itself. `plan` is JSON of version 2.
///
/// `nodes`: of each row of the page that another of its phase reads or is read
/// by, the `id` of its first op or collective, its middle `x`, `y` and its size
/// `w`, `h` in pixels. Collectives that nothing of the phase reads are none,
/// nor are gradients of parameters where there are many: they would stand side
/// by side. `edges`: `from`,
/// `to`, the `points` of cubic curves, and whether the edge goes `back`, into a
/// row that stands in front of it in the order of the commands, as what loops
/// carry does. No edge comes from what is made of parameters alone: everything
/// would hang on them. `frames`: `scope` that is drawn once for several, its
/// `count`, and the box around it. Null where no phase can be drawn.
nlohmann::ordered_json layOutGraph(const nlohmann::ordered_json &plan);

} // namespace meshc::plan

#endif
