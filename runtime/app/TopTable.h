#ifndef MESHC_RUNTIME_APP_TOPTABLE_H
#define MESHC_RUNTIME_APP_TOPTABLE_H

#include "runtime/app/OutputFile.h"
#include "runtime/data/Values.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

/// A table of the best positions of an output for each sample.
struct TopRequest {
  int64_t count = 0;  ///< of positions; 0: there is no table
  std::string output; ///< empty: the only one that fits
  std::string labels; ///< file with the names of positions; empty: numbers
  std::string truth;  ///< input with the right position; empty: not shown
};

/// The output of a program that the table is of: of floats, with a dim beside
/// that of the samples, one of which is called as the request says. Errors:
/// UnknownName, NothingToDo; Usage where several fit, or it has fewer
/// positions.
Result<const exec::PortT *> findTopOutput(const exec::ProgramT &program,
                                          const Samples &samples,
                                          const TopRequest &request);

/// The input that is shown as the right position: of integers, one for each
/// sample. Null where none is asked for. Errors: UnknownName.
Result<const exec::PortT *> findTruth(const exec::ProgramT &program,
                                      const Samples &samples,
                                      const TopRequest &request);

/// Prints, for each sample and each position along other dims, the positions
/// along the last dim beside the batch with the largest values, one a line:
///
///   sample  rank  class            logits
///        0     1  Ankle boot        9.213
///        0     2  Sneaker          4.3105
///
/// A column behind the sample has the right position, if it is asked for.
/// Equal values are in the order of positions, NaN before all numbers. Values
/// are printed as they are: probabilities where the output is some.
class TopTable {
public:
  /// Reads the labels, one in each line. Errors: CannotRead; WrongData where
  /// there are more or fewer than positions.
  static Result<TopTable> create(const exec::PortT &port,
                                 const Samples &samples,
                                 const TopRequest &request);

  /// Prints the lines of a batch, whose first `count` places have the samples
  /// from `first` on; `truth` has the right position of each, if that is asked
  /// for.
  void add(const HostArray &batch, int64_t first, int64_t count,
           std::span<const int64_t> truth = {});

private:
  /// A dim, and the column that has positions along it.
  struct Column {
    Column() = default;
    Column(std::string name, int64_t size, int64_t stride, int64_t positions);

    std::string name;
    int64_t size = 0; ///< of a batch
    int64_t stride = 0;
    int width = 0; ///< in characters
  };

  TopTable() = default;
  void printHeader() const;
  /// Prints the lines of positions along `ranked`, whose first one is at `row`;
  /// `begin` is in front of each.
  template <typename T>
  void printRow(const std::byte *row, const std::string &begin) const;
  int getValueWidth() const;
  /// A position as its column has it: names begin where the column does,
  /// numbers end there.
  std::string describe(int64_t position, int width) const;
  /// The name of a column of positions.
  std::string describe(const Column &column) const;

  std::string output;
  std::optional<Column> samples;
  std::vector<Column> others; ///< whose positions have lines of their own
  std::optional<Column> truth;
  Column ranked; ///< whose positions are compared
  int64_t count = 0;
  std::vector<std::string> labels; ///< of these; empty: their numbers
  bool isBegun = false;
};

} // namespace meshc::runtime

#endif
