#ifndef MESHC_FRONTEND_PLAN_TEXT_VALUETABLE_H
#define MESHC_FRONTEND_PLAN_TEXT_VALUETABLE_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace meshc::plan {

struct Communication {
  std::string id;   ///< "c3"
  std::string what; ///< "all_reduce over model, 5 KiB"
};

/// A line of the plan: a value, the block that a device holds, and what is sent
/// to complete it.
struct ValueRow {
  std::string name = {};
  int tensor = -1; ///< what it is a row of; -1: of no value, or of several
  /// Of a value: where in its name its scopes begin, behind "gradient of ", and
  /// where what it is called in there does.
  size_t lead = 0, own = 0;
  int inScope = -1; ///< the innermost of EqualScopes; -1: none
  /// What stands in front of the names of all rows that are alike in it, and is
  /// told above them: "gradient of layer/3" of "block/ff". Empty: nothing.
  std::string scope = {};
  /// Pieces, joined by ", "; what takes several lines is told by the name of
  /// the first value that has the shape, if there is one: "as wq".
  std::vector<std::string> shape = {};
  std::string partial = {}; ///< behind the shape: "partial sum over data"
  int64_t bytes = 0;        ///< on each device; 0: not shown
  bool isStored = true;     ///< else the bytes stand in parentheses
  /// Says little: is left out where calls and iterations are folded.
  bool isAside = false;
  std::vector<Communication> communication = {};
  int64_t wireBytes = 0; ///< that each device sends
  int64_t times = 1;     ///< how many values the row stands for
  /// Equal in rows that are the same but for their call or iteration; empty of
  /// what is no value, such as what other rows have in common.
  std::vector<int> likeness = {};
};

/// Values under headings, aligned over the whole table. Names take up to two
/// fifths of what names and shapes have, shapes the rest.
class ValueTable {
public:
  /// A table of at most `width` columns, 60 or more; `held` is the title of the
  /// column of shapes.
  ValueTable(size_t width, std::string held);
  void addHeading(std::string heading);
  void addRow(ValueRow row);
  std::string render();

private:
  struct Entry {
    std::string heading;
    std::optional<ValueRow> row;
  };
  void findWidths();
  std::vector<std::string> wrap(const std::vector<std::string> &pieces) const;
  std::vector<std::string> getShape(const ValueRow &row);
  void renderRow(const ValueRow &row, const std::string &bytes,
                 std::string &text);
  void renderCommunication(const std::vector<std::string> &entries,
                           std::string &text) const;

  size_t pageWidth;
  std::string held;
  std::vector<Entry> entries;
  std::map<std::string, std::string>
      told; ///< by shape, the first value that has it
  size_t nameWidth = 0, shapeWidth = 0; ///< columns
};

} // namespace meshc::plan

#endif
