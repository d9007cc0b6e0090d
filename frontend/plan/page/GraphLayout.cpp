#include "frontend/plan/page/GraphLayout.h"

#include <algorithm>
#include <gvc.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace meshc;
using Json = nlohmann::ordered_json;

namespace {

/// A row of the page: commands of one phase that are alike.
struct Row {
  std::string id, phase, scope;
  size_t textLength = 0;
  bool isCollective = false;
  bool isRead = false; ///< by another row of its phase
};

/// The rows of a plan and which reads which.
struct RowGraph {
  explicit RowGraph(const Json &plan);

  /// Whether the reader stands in front of what it reads, by the first commands
  /// of both.
  static bool isBack(size_t from, size_t to) { return to < from; }

  std::vector<Row> rows; ///< in the order of their first commands
  std::set<std::pair<size_t, size_t>> edges; ///< of one phase, from and to
  /// Of each scope that is drawn for several, how many.
  std::map<std::string, int> counts;

private:
  void addCommand(const Json &command, bool isCollective);

  std::map<std::string, std::string> models; ///< by scope, the one it is like
  std::map<std::string, std::string> foldNames;
  std::map<std::string, size_t> rowOfKey;
  std::map<std::string, size_t> writers; ///< by id of a value, its last writer
};

struct FreeContext {
  void operator()(GVC_t *context) const { gvFreeContext(context); }
};

/// A graph that Graphviz has laid out, in pixels from the top left.
class Drawing {
public:
  Drawing(GVC_t *context, const RowGraph &graph, const std::string &phase);
  ~Drawing();
  Drawing(const Drawing &) = delete;
  Drawing &operator=(const Drawing &) = delete;

  void write(Json &layout) const;

private:
  Agraph_t *getFrame(const std::string &scope);
  Json getPoint(double x, double y) const;

  const RowGraph &graph;
  GVC_t *context;
  Agraph_t *drawn;
  std::map<size_t, Agnode_t *> nodes;
  std::map<std::string, Agraph_t *> frames;
  std::vector<std::pair<std::pair<size_t, size_t>, Agedge_t *>> edges;
};

} // namespace

//===-- Rows --------------------------------------------------------------===//

static std::string getText(const Json &json, const char *field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>()
                                                   : std::string();
}

void RowGraph::addCommand(const Json &command, bool isCollective) {
  const std::string id = getText(command, "id");
  const std::string fold = getText(command, "fold");
  const std::string phase = getText(command, "phase");
  // The page joins what has one name, as the parts of a fused operation.
  const std::string key = isCollective ? fold : phase + "\n" + foldNames[fold];
  const auto [known, isNew] = rowOfKey.try_emplace(key, rows.size());
  const size_t row = known->second;
  if (isNew) {
    Row added;
    added.id = id;
    added.phase = phase;
    added.isCollective = isCollective;
    added.textLength = getText(command, "name").size();
    if (const auto model = models.find(getText(command, "scope"));
        model != models.end() && counts[model->second] > 1)
      added.scope = model->second;
    rows.push_back(added);
  }
  for (const Json &input : command.at("inputs")) {
    if (!input.is_string())
      continue;
    const auto writer = writers.find(input.get<std::string>());
    if (writer == writers.end() || writer->second == row ||
        rows[writer->second].phase != phase)
      continue;
    edges.emplace(writer->second, row);
    rows[writer->second].isRead = true;
  }
  writers[id] = row;
  for (const Json &output : command.at("outputs"))
    if (output.is_string())
      writers[output.get<std::string>()] = row;
}

RowGraph::RowGraph(const Json &plan) {
  for (const Json &scope : plan.at("scopes")) {
    models[getText(scope, "id")] = getText(scope, "like");
    ++counts[getText(scope, "like")];
  }
  std::map<std::string, const Json *> ops, collectives, transfers;
  for (const Json &op : plan.at("ops")) {
    ops[getText(op, "id")] = &op;
    foldNames[getText(op, "id")] = getText(op, "name");
  }
  for (const Json &collective : plan.at("collectives"))
    collectives[getText(collective, "id")] = &collective;
  for (const Json &transfer : plan.at("transfers"))
    transfers[getText(transfer, "id")] = &transfer;
  for (const Json &step : plan.at("schedule")) {
    const std::string id = step.get<std::string>();
    if (const auto op = ops.find(id); op != ops.end())
      addCommand(*op->second, /*isCollective=*/false);
    else
      for (const Json &member : transfers.at(id)->at("collectives"))
        addCommand(*collectives.at(member.get<std::string>()),
                   /*isCollective=*/true);
  }
}

//===-- Places ------------------------------------------------------------===//

/// Points to an inch: a pixel of the page is a point.
static constexpr double inch = 72;

/// Attributes and names that Graphviz does not change.
static char *toText(const std::string &text) {
  return const_cast<char *>(text.c_str());
}

static void setPixels(Agnode_t *node, const char *name, double pixels) {
  agsafeset(node, toText(name), toText(std::to_string(pixels / inch)),
            toText(""));
}

Agraph_t *Drawing::getFrame(const std::string &scope) {
  if (scope.empty())
    return drawn;
  auto [known, isNew] = frames.try_emplace(scope, nullptr);
  if (isNew) {
    known->second = agsubg(drawn, toText("cluster_" + scope), 1);
    agsafeset(known->second, toText("margin"), toText("16"), toText(""));
  }
  return known->second;
}

Drawing::Drawing(GVC_t *context, const RowGraph &graph,
                 const std::string &phase)
    : graph(graph), context(context),
      drawn(agopen(toText(phase), Agdirected, nullptr)) {
  agattr(drawn, AGRAPH, toText("nodesep"), toText("0.25"));
  agattr(drawn, AGRAPH, toText("ranksep"), toText("0.3"));
  agattr(drawn, AGNODE, toText("shape"), toText("box"));
  agattr(drawn, AGNODE, toText("fixedsize"), toText("true"));
  agattr(drawn, AGNODE, toText("label"), toText(""));
  agattr(drawn, AGEDGE, toText("arrowhead"), toText("none"));
  std::set<size_t> joined;
  for (const auto &[from, to] : graph.edges)
    if (graph.rows[from].phase == phase)
      joined.insert({from, to});
  for (size_t index : joined) {
    const Row &row = graph.rows[index];
    if (row.isCollective && !row.isRead)
      continue;
    Agnode_t *node = agnode(getFrame(row.scope), toText(row.id), 1);
    // Room for the end of a name in the page's font, or for a collective's
    // bar and what it sends.
    const double width =
        row.isCollective
            ? 190
            : 14 + 7 * double(std::clamp<size_t>(row.textLength, 10, 26));
    setPixels(node, "width", width);
    setPixels(node, "height", 40);
    nodes[index] = node;
  }
  for (const auto &[from, to] : graph.edges) {
    if (!nodes.contains(from) || !nodes.contains(to))
      continue;
    Agedge_t *edge = agedge(drawn, nodes.at(from), nodes.at(to), nullptr, 1);
    // What the next iteration reads leaves the rows in the order of the first.
    if (RowGraph::isBack(from, to))
      agsafeset(edge, toText("constraint"), toText("false"), toText(""));
    edges.emplace_back(std::pair(from, to), edge);
  }
  gvLayout(context, drawn, "dot");
}

Drawing::~Drawing() {
  gvFreeLayout(context, drawn);
  agclose(drawn);
}

/// A tenth of a pixel is not seen, and more digits are bytes of the page.
static double roundPixels(double value) {
  return double(int64_t(value * 10 + (value < 0 ? -0.5 : 0.5))) / 10;
}

Json Drawing::getPoint(double x, double y) const {
  const boxf box = GD_bb(drawn);
  return {roundPixels(x - box.LL.x), roundPixels(box.UR.y - y)};
}

void Drawing::write(Json &layout) const {
  for (const auto &[index, node] : nodes) {
    const Json middle = getPoint(ND_coord(node).x, ND_coord(node).y);
    layout["nodes"].push_back({{"id", graph.rows[index].id},
                               {"x", middle[0]},
                               {"y", middle[1]},
                               {"w", roundPixels(ND_width(node) * inch)},
                               {"h", roundPixels(ND_height(node) * inch)}});
  }
  for (const auto &[ends, edge] : edges) {
    Json points = Json::array();
    if (const splines *curve = ED_spl(edge))
      for (size_t part = 0; part < size_t(curve->size); ++part)
        for (size_t point = 0; point < size_t(curve->list[part].size); ++point)
          points.push_back(getPoint(curve->list[part].list[point].x,
                                    curve->list[part].list[point].y));
    if (!points.empty())
      layout["edges"].push_back(
          {{"from", graph.rows[ends.first].id},
           {"to", graph.rows[ends.second].id},
           {"back", RowGraph::isBack(ends.first, ends.second)},
           {"points", std::move(points)}});
  }
  for (const auto &[scope, frame] : frames) {
    const boxf box = GD_bb(frame);
    const Json corner = getPoint(box.LL.x, box.UR.y);
    layout["frames"].push_back({{"scope", scope},
                                {"phase", std::string(agnameof(drawn))},
                                {"count", graph.counts.at(scope)},
                                {"x", corner[0]},
                                {"y", corner[1]},
                                {"w", roundPixels(box.UR.x - box.LL.x)},
                                {"h", roundPixels(box.UR.y - box.LL.y)}});
  }
}

Json plan::layOutGraph(const Json &plan) {
  const RowGraph graph(plan);
  std::map<std::string, size_t> sizes;
  for (const Row &row : graph.rows)
    ++sizes[row.phase];
  std::unique_ptr<GVC_t, FreeContext> context(gvContext());
  Json layout = {{"nodes", Json::array()},
                 {"edges", Json::array()},
                 {"frames", Json::array()}};
  for (const auto &[phase, size] : sizes)
    if (size <= maxGraphNodes)
      Drawing(context.get(), graph, phase).write(layout);
  return layout["nodes"].empty() ? Json(nullptr) : layout;
}
