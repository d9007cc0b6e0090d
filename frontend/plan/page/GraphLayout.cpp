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
  const Json *first = nullptr; ///< of its commands
  size_t size = 0;             ///< how many these are
  int64_t sentBytes = 0;
  bool isCollective = false;
  bool isOfParameters = true; ///< reads something, and parameters alone
};

/// The rows of a plan and which reads which.
struct RowGraph {
  explicit RowGraph(const Json &plan);

  /// Whether the reader stands in front of what it reads, by the first commands
  /// of both.
  static bool isBack(size_t from, size_t to) { return to < from; }

  /// How wide it is drawn, in pixels.
  double getWidth(const Row &row) const;

  std::vector<Row> rows; ///< in the order of their first commands
  std::set<std::pair<size_t, size_t>> edges; ///< of one phase, from and to
  /// Of each scope that is drawn for several, how many.
  std::map<std::string, int> counts;

private:
  void readNames(const Json &plan);
  void addCommand(const Json &command, bool isCollective);
  Row makeRow(const Json &command, bool isCollective) const;
  bool isGradientOfParameter(const Row &row) const;
  /// Drops edges to what is there for the sake of another phase alone:
  /// collectives and, of many, gradients of parameters that nothing reads.
  void dropUnread();
  size_t getShapeLength(const Json &op) const;

  std::map<std::string, std::string> models; ///< by scope, the one it is like
  std::map<std::string, std::string> scopeNames;
  std::map<std::string, const Json *> ops, tensors, namedTensors;
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

/// Of "12 · 2048", the sizes of what it makes.
size_t RowGraph::getShapeLength(const Json &op) const {
  std::vector<const Json *> made;
  if (const auto named = namedTensors.find(getText(op, "name"));
      named != namedTensors.end())
    made.push_back(named->second);
  else
    for (const Json &output : op.at("outputs"))
      if (const auto tensor = output.is_string()
                                  ? tensors.find(output.get<std::string>())
                                  : tensors.end();
          tensor != tensors.end() && !tensor->second->value("inside", false))
        made.push_back(tensor->second);
  size_t longest = 0;
  for (const Json *tensor : made) {
    size_t length = 0;
    const auto partial = tensor->find("partial");
    if (partial != tensor->end() && !partial->is_null())
      length += 2;
    for (const Json &dim : tensor->at("dims"))
      length += 3 + std::to_string(dim.at("local_size").get<int64_t>()).size();
    longest = std::max(longest, length);
  }
  return longest;
}

Row RowGraph::makeRow(const Json &command, bool isCollective) const {
  Row row;
  row.id = getText(command, "id");
  row.phase = getText(command, "phase");
  row.first = &command;
  row.isCollective = isCollective;
  row.isOfParameters = !isCollective;
  if (const auto model = models.find(getText(command, "scope"));
      model != models.end() && counts.at(model->second) > 1)
    row.scope = model->second;
  return row;
}

void RowGraph::addCommand(const Json &command, bool isCollective) {
  const std::string id = getText(command, "id");
  const std::string phase = getText(command, "phase");
  const std::string fold = getText(command, "fold");
  // The page joins what has one name, as the parts of a fused operation.
  const std::string key =
      isCollective ? fold : phase + "\n" + getText(*ops.at(fold), "name");
  const auto [known, isNew] = rowOfKey.try_emplace(key, rows.size());
  const size_t row = known->second;
  if (isNew)
    rows.push_back(makeRow(command, isCollective));
  bool isOfParameters = !command.at("inputs").empty();
  for (const Json &input : command.at("inputs")) {
    if (!input.is_string())
      continue;
    const std::string value = input.get<std::string>();
    const auto writer = writers.find(value);
    if (writer == writers.end()) {
      const auto tensor = tensors.find(value);
      isOfParameters &= tensor != tensors.end() &&
                        getText(*tensor->second, "role") == "param";
      continue;
    }
    isOfParameters &=
        writer->second == row || rows[writer->second].isOfParameters;
    if (writer->second == row || rows[writer->second].phase != phase)
      continue;
    edges.emplace(writer->second, row);
  }
  rows[row].isOfParameters &= isOfParameters;
  rows[row].size += 1;
  if (isCollective)
    rows[row].sentBytes += command.value("wire_bytes_per_device", int64_t(0)) *
                           command.value("repeat", int64_t(1));
  writers[id] = row;
  for (const Json &output : command.at("outputs"))
    if (output.is_string())
      writers[output.get<std::string>()] = row;
}

void RowGraph::readNames(const Json &plan) {
  for (const Json &scope : plan.at("scopes")) {
    const std::string id = getText(scope, "id");
    models[id] = getText(scope, "like");
    scopeNames[id] = getText(scope, "name");
    ++counts[models[id]];
  }
  for (const Json &op : plan.at("ops"))
    ops[getText(op, "id")] = &op;
  if (const auto found = plan.find("tensors"); found != plan.end())
    for (const Json &tensor : *found) {
      tensors[getText(tensor, "id")] = &tensor;
      namedTensors[getText(tensor, "name")] = &tensor;
    }
}

RowGraph::RowGraph(const Json &plan) {
  readNames(plan);
  std::map<std::string, const Json *> collectives, transfers;
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
  // Parameters are not drawn, nor what is made of them alone, such as copies
  // of another type: everything would hang on them.
  std::erase_if(
      edges, [&](const auto &edge) { return rows[edge.first].isOfParameters; });
  dropUnread();
}

bool RowGraph::isGradientOfParameter(const Row &row) const {
  if (row.isCollective)
    return false;
  const auto tensor =
      namedTensors.find(getText(*row.first, "gradient_of_name"));
  return tensor != namedTensors.end() &&
         getText(*tensor->second, "role") == "param";
}

void RowGraph::dropUnread() {
  // So many gradients of parameters may stand beside what is computed.
  constexpr size_t mostAside = 6;
  const bool dropsGradients =
      size_t(std::count_if(rows.begin(), rows.end(), [&](const Row &row) {
        return isGradientOfParameter(row);
      })) > mostAside;
  for (bool isChanged = true; isChanged;) {
    std::set<size_t> read;
    for (const auto &[from, to] : edges)
      read.insert(from);
    isChanged = std::erase_if(edges, [&](const auto &edge) {
                  const Row &row = rows[edge.second];
                  return !read.contains(edge.second) &&
                         (row.isCollective ||
                          (dropsGradients && isGradientOfParameter(row)));
                }) > 0;
  }
}

double RowGraph::getWidth(const Row &row) const {
  if (row.isCollective) {
    // A bar as long as what is sent, and room for the text under it.
    constexpr double longest = 190, text = 140;
    int64_t most = 1;
    for (const Row &other : rows)
      most = std::max(most, other.sentBytes);
    return std::max(text, longest * double(row.sentBytes) / double(most));
  }
  // Of a name longer than this its end is shown.
  constexpr size_t least = 12, longest = 30;
  size_t length = getText(*row.first, "name").size();
  // Written as "∂ h".
  if (const std::string of = getText(*row.first, "gradient_of_name");
      !of.empty())
    length = of.size() + 2;
  // The frame says the scope.
  if (!row.scope.empty() && row.size > 1)
    length -= std::min(length,
                       scopeNames.at(getText(*row.first, "scope")).size() + 1);
  return 14 + 7 * double(std::max(std::clamp(length, least, longest),
                                  getShapeLength(*row.first)));
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
    Agnode_t *node = agnode(getFrame(row.scope), toText(row.id), 1);
    setPixels(node, "width", graph.getWidth(row));
    setPixels(node, "height", 40);
    nodes[index] = node;
  }
  for (const auto &[from, to] : graph.edges) {
    if (!nodes.contains(from))
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
